//! The tested control plane.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use anyhow::Context;

use super::Maker;
use super::daemon::Daemon;
use super::network::CONTROL;
use super::place::Place;
use super::programs::Programs;
use super::wait;
use crate::tool::{capture, say};

/// Port of Oarlock's API server.
const PORT: u16 = 6443;
/// Limit until a control plane is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(120);

/// A running control plane.
pub(crate) struct ControlPlane {
    /// The administrator's.
    pub(crate) kubeconfig: PathBuf,
    /// `ca.crt` and `ca.key` of the authority that the API server believes clients of.
    pub(crate) pki: PathBuf,
    /// Port of the API server, on all addresses of its host.
    pub(crate) port: u16,
    /// Upstream's ends when its standard input does.
    _children: Vec<Child>,
}

/// Starts a control plane and waits until it is ready.
///
/// # Errors
/// When it is not ready in time.
pub(crate) fn start(place: &Place, programs: &Programs, maker: Maker) -> anyhow::Result<ControlPlane> {
    let folder = place.state().join("control-plane");
    let kubeconfig = folder.join("kubeconfig");
    let children = match maker {
        Maker::Ours => ours(place, &programs.oarlock, &folder)?,
        Maker::Upstream => vec![upstreams(place, &folder)?],
    };
    wait::until("the API server is ready", READY_TIMEOUT, || {
        if !kubeconfig.exists() {
            return Ok(Err(format!("there is no {}", kubeconfig.display())));
        }
        let mut ask = place.beside(&programs.tool("kubectl"));
        let (ok, text) = capture(ask.arg("--kubeconfig").arg(&kubeconfig).args(["get", "--raw", "/readyz"]))?;
        Ok(if ok { Ok(()) } else { Err(format!("{text}; see the logs in {}", place.logs().display())) })
    })?;
    let text = std::fs::read_to_string(&kubeconfig)?;
    let port = port(&text).with_context(|| format!("{}: no port of a server", kubeconfig.display()))?;
    say(&format!("the control plane answers at port {port} of namespace {}", place.control()));
    Ok(ControlPlane { kubeconfig, pki: folder.join("pki"), port, _children: children })
}

/// API server, controllers and scheduler, each a process.
fn ours(place: &Place, oarlock: &Path, folder: &Path) -> anyhow::Result<Vec<Child>> {
    let data = folder.display();
    let server = [
        "apiserver".to_owned(),
        format!("--store=embedded:{data}/store"),
        format!("--data-dir={data}"),
        "--bind-address=0.0.0.0".to_owned(),
        format!("--secure-port={PORT}"),
        format!("--advertise-address={CONTROL}"),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
    ];
    let mut children = vec![Daemon::new(place, "apiserver", &place.control()).start(oarlock, server)?];
    let written = folder.join("scheduler.kubeconfig");
    wait::until("the API server has written its clients' kubeconfigs", READY_TIMEOUT, || {
        Ok(if written.exists() { Ok(()) } else { Err(format!("there is no {}", written.display())) })
    })?;
    for component in ["controller-manager", "scheduler"] {
        let args = [component.to_owned(), format!("--kubeconfig={data}/{component}.kubeconfig")];
        children.push(Daemon::new(place, component, &place.control()).start(oarlock, args)?);
    }
    Ok(children)
}

/// `cargo xtask peer up`, in the network of the run.
fn upstreams(place: &Place, folder: &Path) -> anyhow::Result<Child> {
    let folder = folder.display().to_string();
    let with = "--with=kube-controller-manager,kube-scheduler";
    let args = ["peer", "up", "--dir", &folder, with, "--advertise", CONTROL];
    Daemon::new(place, "control-plane", &place.control()).start(&std::env::current_exe()?, args)
}

/// The port of a kubeconfig's server.
fn port(kubeconfig: &str) -> Option<u16> {
    let (_, after) = kubeconfig.split_once("https://127.0.0.1:")?;
    after.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::port;

    #[test]
    fn a_kubeconfig_says_the_servers_port() {
        assert_eq!(port("cluster: {server: \"https://127.0.0.1:6443\", x: y}"), Some(6443));
        assert_eq!(port("server: https://localhost"), None);
    }
}
