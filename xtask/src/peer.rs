//! `cargo xtask peer`: upstream's own programs, for comparisons and swaps.

mod build;
mod pki;
mod start;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::Subcommand;

pub(crate) use build::{build, kubernetes_source};
pub(crate) use pki::issue;
pub(crate) use start::{Peer, Size};

use crate::tool::{root, say};

/// The release of Kubernetes that all comparisons are with.
pub(crate) const KUBERNETES: &str = "1.35.0";
/// The programs that every peer needs.
pub(crate) const SERVERS: [&str; 2] = ["etcd", "kube-apiserver"];

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Build programs from their Go modules into target/peer/bin (needs Go; minutes at first) and print that folder. The
    /// programs themselves are kept in $OARLOCK_PEERS (default: ~/.cache/oarlock/peers), by version.
    Build {
        /// Which: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, kubelet, etcd-3.5, etcdctl, etcdutl,
        /// kube-proxy, nats-server, helm, k9s, kube-state-metrics, jaeger, victoria-metrics, coredns, konnectivity-server, konnectivity-agent, containerd, containerd-shim-runc-v2, ctr; of the
        /// end-to-end suite e2e.test, ginkgo and
        /// the programs of its images. Default: the first two.
        names: Vec<String>,
    },
    /// Start etcd and kube-apiserver; print a JSON line with the kubeconfig, everybody's URLs and every pid; end all when standard input ends.
    Up {
        /// Folder for state, keys, kubeconfigs and logs; it is emptied. Default: target/peer/run.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
        /// Start these too: kube-controller-manager, kube-scheduler.
        #[arg(long, value_name = "NAMES", value_delimiter = ',')]
        with: Vec<String>,
        /// Build these too, and say how they are started, any number of each: kube-controller-manager, kube-scheduler.
        #[arg(long, value_name = "NAMES", value_delimiter = ',')]
        without: Vec<String>,
        /// Members of etcd.
        #[arg(long, value_name = "N", default_value_t = 1)]
        members: usize,
        /// kube-apiservers.
        #[arg(long, value_name = "N", default_value_t = 1)]
        servers: usize,
        /// Address by which nodes and pods reach the servers, which then listen on all addresses. Default: loopback only.
        #[arg(long, value_name = "IP")]
        advertise: Option<IpAddr>,
        /// A further flag of kube-apiserver, without its dashes. May be repeated.
        #[arg(long, value_name = "NAME=VALUE")]
        api_server_flag: Vec<String>,
    },
}

/// Returns the folder of links to the built programs, Go's caches and running peers.
pub(crate) fn folder() -> PathBuf {
    root().join("target/peer")
}

/// Names the folder in which programs are kept, each in the folder of its module and version. A machine builds a version once, for all checkouts.
const KEPT: &str = "OARLOCK_PEERS";

/// The folder in which built programs are kept: by default the user's cache, else the checkout's own.
fn kept() -> PathBuf {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    variable(KEPT).unwrap_or_else(|| cache.map_or_else(folder, |cache| cache.join("oarlock/peers")))
}

/// Upstream's programs that the gate's tests need.
pub(crate) const GATE: &[&str] = &["etcd", "etcd-3.5", "etcdctl", "etcdutl", "helm", "nats-server"];
/// Upstream's programs that all tests need.
pub(crate) const ALL: &[&str] = &[
    "etcd",
    "etcd-3.5",
    "etcdctl",
    "etcdutl",
    "helm",
    "nats-server",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kubelet",
    "k9s",
    "kube-state-metrics",
    "konnectivity-server",
    "konnectivity-agent",
];

/// Builds programs before the tests that take them run: a compiler beside them would make their waits long. Where nothing can be built,
/// those tests say that they show nothing.
pub(crate) fn prepare(names: &[&str]) {
    if let Err(error) = build(&folder(), names) {
        say(&format!("no peers: {error:#}"));
    }
    if let Err(error) = build::forget_caches(&folder()) {
        say(&format!("what Go has kept is still there: {error:#}"));
    }
}

/// Runs the chore.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.verb {
        Verb::Build { names } => {
            let names: Vec<&str> =
                if names.is_empty() { SERVERS.to_vec() } else { names.iter().map(String::as_str).collect() };
            say(&build(&folder(), &names)?.display().to_string());
        }
        Verb::Up { dir, with, without, members, servers, advertise, api_server_flag } => {
            let names: Vec<&str> = SERVERS.into_iter().chain(with.iter().chain(without).map(String::as_str)).collect();
            let bin = build(&folder(), &names)?;
            let size = Size { servers: *servers, members: *members, advertise: *advertise };
            let dir = dir.clone().unwrap_or_else(|| folder().join("run"));
            let peer = Peer::start(&bin, &dir, with, without, size, api_server_flag)?;
            let pids: BTreeMap<&str, u32> = peer.pids().collect();
            let ready = peer.ready.as_secs_f64() * 1000.0;
            let said = serde_json::json!({
                "kubeconfig": peer.kubeconfig, "servers": peer.servers, "etcd": peer.etcd.join(","), "members": peer.etcd,
                "pids": pids, "commands": peer.commands, "ready_ms": ready,
            });
            say(&said.to_string());
            std::io::stdin().read_to_end(&mut Vec::new())?;
        }
    }
    Ok(())
}
