//! A node's containerd, with the images in it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::daemon::Daemon;
use super::needs::PLUGINS;
use super::network::pods;
use super::place::{Place, name};
use super::programs::Programs;
use super::{images, wait};
use crate::tool::{capture, output};

/// The limit until containerd answers.
const CONTAINERD_READY_TIMEOUT: Duration = Duration::from_secs(60);

/// The socket of the containerd in a node's folder.
pub(crate) fn socket(node: &Path) -> PathBuf {
    node.join("containerd.sock")
}

/// Starts containerd in a node's folder and waits until it has the images.
pub(crate) fn start(place: &Place, programs: &Programs, node: u8, folder: &Path, images: &Path) -> anyhow::Result<()> {
    // The sockets of shims are below /run/containerd, whatever the configuration says.
    let sockets = folder.join("run-containerd");
    for part in [&folder.join("net.d"), &sockets, Path::new("/run/containerd")] {
        std::fs::create_dir_all(part)?;
    }
    let config = folder.join("containerd.toml");
    std::fs::write(&config, configuration(programs, folder))?;
    std::fs::write(folder.join("net.d/10-pods.conflist"), network(node, folder))?;
    let daemon = Daemon::new(place, &format!("containerd-{}", name(node)), &place.host(node));
    let daemon = daemon.instead(sockets, "/run/containerd");
    let args = ["--config".to_owned(), config.display().to_string()];
    drop(daemon.start(&programs.tool("containerd"), args)?);
    let ctr = || {
        let mut command = Command::new(programs.tool("ctr"));
        command.arg("--address").arg(socket(folder)).args(["--namespace", "k8s.io"]);
        command
    };
    wait::until("containerd answers", CONTAINERD_READY_TIMEOUT, || {
        let (ok, text) = capture(ctr().arg("version"))?;
        Ok(if ok { Ok(()) } else { Err(text) })
    })?;
    output(ctr().args(["images", "import"]).arg(images))?;
    Ok(())
}

/// Returns containerd's configuration. Many containers lack CAP_SYS_RESOURCE, without which no OOM score may be lowered.
fn configuration(programs: &Programs, folder: &Path) -> String {
    let shim = programs.tool("containerd-shim-runc-v2");
    format!(
        r#"version = 3
root = "{dir}/root"
state = "{dir}/state"
[grpc]
  address = "{socket}"
[ttrpc]
  address = "{socket}.ttrpc"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{sandbox}"
[plugins.'io.containerd.cri.v1.runtime']
  disable_apparmor = true
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["{PLUGINS}"]
  conf_dir = "{dir}/net.d"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  runtime_path = "{shim}"
[plugins.'io.containerd.internal.v1.opt']
  path = "{dir}/opt"
[plugins.'io.containerd.grpc.v1.cri']
  stream_server_address = "127.0.0.1"
"#,
        dir = folder.display(),
        socket = socket(folder).display(),
        sandbox = images::PAUSE,
        shim = shim.display(),
    )
}

/// kube-proxy masquerades, so the bridge does not.
fn network(node: u8, folder: &Path) -> String {
    format!(
        r#"{{"cniVersion":"1.0.0","name":"pods","plugins":[
{{"type":"bridge","bridge":"cni0","isGateway":true,"hairpinMode":true,"ipMasq":false,"ipam":{{"type":"host-local","dataDir":"{dir}/ipam",
"ranges":[[{{"subnet":"{pods}"}}]],"routes":[{{"dst":"0.0.0.0/0"}}]}}}},
{{"type":"portmap","capabilities":{{"portMappings":true}},"snat":true}}]}}"#,
        dir = folder.display(),
        pods = pods(node),
    )
}
