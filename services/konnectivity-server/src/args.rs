//! Flags of `oarlock konnectivity-server`; names are upstream's.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use oarlock_konnectivity::{InvalidLabel, InvalidPeer, LeaseOptions, Mode, Peers, Strategy};

/// Flags of the tunnel's server.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Protocol of API servers (the frontends): grpc or http-connect.
    #[arg(long, default_value = "grpc", value_name = "MODE")]
    pub mode: Mode,
    /// Unix socket on which API servers connect, instead of --server-port. Whoever may write to the socket may dial every destination.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["server_cert", "server_key", "server_ca_cert", "server_bind_address"]
    )]
    pub uds_name: Option<PathBuf>,
    /// Whether a socket that is at --uds-name already is deleted at the start.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub delete_existing_uds_file: bool,
    /// Port on which API servers connect over TLS, both sides with certificates. Without this flag 8090; with --uds-name none, or 0.
    #[arg(long, value_name = "PORT")]
    pub server_port: Option<u16>,
    /// Address of --server-port. Without this flag all of this host's.
    #[arg(long, value_name = "IP")]
    pub server_bind_address: Option<IpAddr>,
    /// Certificate (PEM) that API servers see, with its intermediate certificates.
    #[arg(long, value_name = "FILE", requires = "server_key")]
    pub server_cert: Option<PathBuf>,
    /// Key (PEM) of --server-cert.
    #[arg(long, value_name = "FILE", requires = "server_cert")]
    pub server_key: Option<PathBuf>,
    /// Authorities (PEM) that must have signed the certificates of API servers. Whoever has such a certificate may dial every destination.
    #[arg(long, value_name = "FILE")]
    pub server_ca_cert: Option<PathBuf>,
    /// Port on which agents connect, over TLS.
    #[arg(long, default_value_t = 8091, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub agent_port: u16,
    /// Address of --agent-port.
    #[arg(long, default_value_t = Ipv4Addr::UNSPECIFIED.into(), value_name = "IP")]
    pub agent_bind_address: IpAddr,
    /// Certificate (PEM) that agents see, with its intermediate certificates.
    #[arg(long, value_name = "FILE")]
    pub cluster_cert: PathBuf,
    /// Key (PEM) of --cluster-cert.
    #[arg(long, value_name = "FILE")]
    pub cluster_key: PathBuf,
    /// Authorities (PEM) that must have signed the certificates of agents; otherwise agents authenticate by tokens, see --agent-service-account.
    #[arg(long, value_name = "FILE", required_unless_present = "agent_service_account", conflicts_with_all = ["agent_namespace", "agent_service_account", "authentication_audience"])]
    pub cluster_ca_cert: Option<PathBuf>,
    /// Other servers of this tunnel, by their --peer-port. A dial for which this server has no agent is forwarded to one that has it. A name may have the addresses of
    /// several servers, this one among them, as that of a headless Service has.
    #[arg(long, value_delimiter = ',', value_name = "HOST:PORT,…", value_parser = peer, requires_all = ["peer_cert", "peer_key", "peer_ca_cert"])]
    pub peer_servers: Vec<String>,
    /// Port on which other servers forward dials to this one, over TLS, both sides with certificates. Without this flag none.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), requires_all = ["peer_cert", "peer_key", "peer_ca_cert"])]
    pub peer_port: Option<u16>,
    /// Address of --peer-port.
    #[arg(long, default_value_t = Ipv4Addr::UNSPECIFIED.into(), value_name = "IP")]
    pub peer_bind_address: IpAddr,
    /// Certificate (PEM) of this server for the other ones, as their client and as their server. Its user (CN) is system:konnectivity-server.
    #[arg(long, value_name = "FILE", requires = "peer_key")]
    pub peer_cert: Option<PathBuf>,
    /// Key (PEM) of --peer-cert.
    #[arg(long, value_name = "FILE", requires = "peer_cert")]
    pub peer_key: Option<PathBuf>,
    /// Authorities (PEM) that must have signed the certificates of the other servers.
    #[arg(long, value_name = "FILE")]
    pub peer_ca_cert: Option<PathBuf>,
    /// Namespace of the service account of agents.
    #[arg(long, value_name = "NAMESPACE", requires = "agent_service_account")]
    pub agent_namespace: Option<String>,
    /// Service account of agents, whose tokens the API server of --kubeconfig reviews.
    #[arg(long, value_name = "NAME", requires = "authentication_audience")]
    pub agent_service_account: Option<String>,
    /// Audience that the tokens of agents must have.
    #[arg(long, value_name = "AUDIENCE", requires_all = ["agent_namespace", "kubeconfig"])]
    pub authentication_audience: Option<String>,
    /// Kubeconfig of a user who may create token reviews, and for --enable-lease-controller work with Leases.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Port of health and metrics over plain HTTP for everybody: /healthz, /readyz, /ready, /metrics; 0 is none.
    #[arg(long, default_value_t = 8092, value_name = "PORT")]
    pub health_port: u16,
    /// Address of --health-port.
    #[arg(long, default_value_t = Ipv4Addr::UNSPECIFIED.into(), value_name = "IP")]
    pub health_bind_address: IpAddr,
    /// Port of /metrics and /debug/actors over plain HTTP for everybody; 0 is none.
    #[arg(long, default_value_t = 8095, value_name = "PORT")]
    pub admin_port: u16,
    /// Address of --admin-port.
    #[arg(long, default_value_t = Ipv4Addr::LOCALHOST.into(), value_name = "IP")]
    pub admin_bind_address: IpAddr,
    /// Time without data after which agents and API servers are pinged; who does not answer within 20 s is lost. Upstream's default is an hour, for which lost
    /// agents are still chosen.
    #[arg(long, default_value = "30s", value_parser = oarlock_config::duration, value_name = "DURATION")]
    pub keepalive_time: Duration,
    /// Id of this server, unique among all servers of the tunnel. Without this flag that of the environment variable PROXY_SERVER_ID, or a random one.
    #[arg(long, value_name = "ID")]
    pub server_id: Option<String>,
    /// Number of the tunnel's servers: each agent connects to so many.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub server_count: u32,
    /// Count the tunnel's servers by Leases, which each of them renews through the API server of --kubeconfig; --server-count counts until then.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", requires_if("true", "kubeconfig"), value_name = "BOOL")]
    pub enable_lease_controller: bool,
    /// Namespace of the Leases of --enable-lease-controller.
    #[arg(long, default_value = "kube-system", value_name = "NAMESPACE")]
    pub lease_namespace: String,
    /// Labels of the Leases of this tunnel's servers, and of no others: expired Leases with these labels are deleted.
    #[arg(long, default_value = "k8s-app=konnectivity-server", value_name = "KEY=VALUE,…", value_parser = labels)]
    pub lease_label: Labels,
    /// How an agent is chosen for a connection, the first that finds one decides: destHost (the agent's identifiers name the destination), defaultRoute (the
    /// agent has declared default-route=true), default (any agent).
    #[arg(long, value_delimiter = ',', default_value = "default", value_name = "STRATEGY,…")]
    pub proxy_strategies: Vec<Strategy>,
    /// Log filter, such as `info` or `oarlock_konnectivity=debug,warn`.
    #[arg(long, default_value = "info", value_name = "FILTER")]
    pub log: String,
}

/// Labels of Leases.
type Labels = BTreeMap<String, String>;

fn labels(text: &str) -> Result<Labels, InvalidLabel> {
    LeaseOptions::labels(text)
}

fn peer(address: &str) -> Result<String, InvalidPeer> {
    Peers::check(address).map(|()| address.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    const KEYS: [&str; 3] = ["oarlock", "--cluster-cert=c", "--cluster-key=k"];

    fn parse(more: &[&str]) -> Result<Args, String> {
        let line = KEYS.iter().chain(more);
        Line::try_parse_from(line).map(|line| line.args).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_upstreams() {
        let args = parse(&["--cluster-ca-cert=a"]).unwrap();
        assert_eq!((args.mode, args.server_port, args.delete_existing_uds_file), (Mode::Grpc, None, true));
        assert_eq!((args.agent_port, args.health_port, args.admin_port), (8091, 8092, 8095));
        assert_eq!((args.server_count, args.proxy_strategies), (1, vec![Strategy::Default]));
        assert!(args.admin_bind_address.is_loopback());
    }

    #[test]
    fn switches_have_upstreams_forms() {
        let deletes =
            |flag| parse(&["--cluster-ca-cert=a", "--uds-name=u", flag]).map(|args| args.delete_existing_uds_file);
        assert_eq!(deletes("--delete-existing-uds-file"), Ok(true));
        assert_eq!(deletes("--delete-existing-uds-file=false"), Ok(false));
        let args = parse(&["--cluster-ca-cert=a", "--proxy-strategies=destHost,defaultRoute,default"]).unwrap();
        assert_eq!(args.proxy_strategies, [Strategy::DestHost, Strategy::DefaultRoute, Strategy::Default]);
    }

    #[test]
    fn agents_authenticate_in_exactly_one_way() {
        let tokens =
            ["--agent-namespace=n", "--agent-service-account=s", "--authentication-audience=a", "--kubeconfig=k"];
        assert!(parse(&tokens).is_ok());
        assert!(parse(&[]).unwrap_err().contains("--cluster-ca-cert"), "neither");
        for missing in 0..tokens.len() {
            let mut some = tokens.to_vec();
            let flag = some.remove(missing).split('=').next().unwrap();
            assert!(parse(&some).unwrap_err().contains(flag), "without {flag}");
        }
        assert!(parse(&[&tokens[..], &["--cluster-ca-cert=a"]].concat()).unwrap_err().contains("--cluster-ca-cert"));
    }

    #[test]
    fn other_servers_need_certificates() {
        let keys = ["--cluster-ca-cert=a", "--peer-cert=c", "--peer-key=k", "--peer-ca-cert=a"];
        for flag in ["--peer-servers=one:8094,two:8094", "--peer-port=8094"] {
            assert!(parse(&[&keys[..], &[flag]].concat()).is_ok(), "{flag}");
            for missing in 1..keys.len() {
                let mut some = keys.to_vec();
                let name = some.remove(missing).split('=').next().unwrap();
                assert!(parse(&[&some[..], &[flag]].concat()).unwrap_err().contains(name), "{flag} without {name}");
            }
        }
        let args = parse(&[&keys[..], &["--peer-servers=one:8094,two:8094"]].concat()).unwrap();
        assert_eq!(args.peer_servers, ["one:8094", "two:8094"]);
    }

    #[test]
    fn bad_values_are_named() {
        for (flag, named) in [
            ("--mode=socks", "\"socks\": must be grpc or http-connect"),
            ("--proxy-strategies=default,nearest", "\"nearest\""),
            ("--server-count=0", "'0'"),
            ("--agent-port=0", "'0'"),
            ("--peer-port=0", "'0'"),
            ("--peer-servers=one:8094,two", "\"two\" is no address of a tunnel server"),
            ("--keepalive-time=1", "'1'"),
            ("--lease-label=k8s-app", "\"k8s-app\" is no label"),
            ("--enable-lease-controller", "--kubeconfig"),
        ] {
            let error = parse(&["--cluster-ca-cert=a", flag]).unwrap_err();
            assert!(error.contains(named), "{flag}: {error}");
        }
    }
}
