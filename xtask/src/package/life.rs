//! The life of the package on a host: installed, started, killed, upgraded, purged.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::json;

use super::host::{self, Host};
use super::scratch;
use crate::conformance::images::archive::{self, Image};
use crate::tool::{output, say};

/// The host's address (`boot.sh`), and its name.
const ADDRESS: &str = "192.0.2.10";
const NODE: &str = "oarlock-host";
/// The sandbox image of Debian 12's containerd, and of the static pod.
const IMAGES: [&str; 2] = ["registry.k8s.io/pause:3.6", "localhost/stay:1"];
/// Runs until SIGTERM, which the first process of a container has to take by itself.
const STAY: [&str; 3] = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 2147483647 & wait; done"];

const CONTAINERD: &str = r#"version = 2
[plugins."io.containerd.grpc.v1.cri"]
  disable_apparmor = true
  # Sandboxes and containers often lack CAP_SYS_RESOURCE, without which no OOM score may be lowered.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
"#;
const NETWORK: &str = r#"{"cniVersion": "1.0.0", "name": "test", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}"#;
const STATIC_POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: stay}\nspec:\n  containers:\n  - name: main\n    image: localhost/stay:1\n    imagePullPolicy: Never\n";

/// Folders in which the system, containerd and CNI plugins write while they run.
const VOLATILE: [&str; 13] = [
    "/dev",
    "/proc",
    "/root",
    "/run",
    "/sys",
    "/tmp",
    "/var/cache",
    "/var/lib/apt",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/dpkg",
    "/var/lib/systemd/timers",
    "/var/log",
];

/// Installs a package on a host and does everything to it that its owner and the world may do.
///
/// # Errors
/// When a step does not do what it should.
pub(super) fn of(package: &Path) -> anyhow::Result<()> {
    let folder = scratch().join("host");
    host::debian(&folder)?;
    fill(&folder, package)?;
    let host = Host::boot(&folder, scratch().join("host.log"))?;
    let (files, users) = (files(&host)?, users(&host)?);
    install(&host)?;
    control_plane(&host)?;
    let container = node(&host)?;
    kubelet_is_killed(&host, &container)?;
    upgrade(&host)?;
    static_pod_ends(&host)?;
    purge(&host)?;
    let left: Vec<String> = self::files(&host)?.into_iter().filter(|file| !files.contains(file)).collect();
    ensure!(left.is_empty(), "a purge leaves {left:?}");
    ensure!(self::users(&host)? == users, "a purge leaves a user or a group");
    host.end()?;
    fs::remove_dir_all(&folder)?;
    say("the package installs, runs, survives kills and leaves nothing");
    Ok(())
}

/// Writes what the host has besides Debian: containerd's configuration, images, kubectl, and the package.
fn fill(folder: &Path, package: &Path) -> anyhow::Result<()> {
    let put = |path: &str, content: &str| -> anyhow::Result<()> {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().context("a file has a folder")?)?;
        fs::write(&path, content).with_context(|| path.display().to_string())
    };
    put("etc/hostname", NODE)?;
    put("etc/containerd/config.toml", CONTAINERD)?;
    put("etc/cni/net.d/10-test.conflist", NETWORK)?;
    put("root/stay.yaml", STATIC_POD)?;
    let kubectl = output(Command::new("which").arg("kubectl"))?;
    fs::copy(kubectl.trim(), folder.join("usr/local/bin/kubectl"))?;
    fs::copy(package, folder.join("root/oarlock.deb"))?;
    let layer = scratch().join("layer");
    if layer.exists() {
        fs::remove_dir_all(&layer)?;
    }
    fs::create_dir_all(layer.join("bin"))?;
    fs::copy(folder.join("usr/bin/busybox"), layer.join("bin/busybox"))?;
    for applet in ["sh", "sleep"] {
        symlink("busybox", layer.join("bin").join(applet))?;
    }
    let config = json!({"Env": ["PATH=/bin"], "Cmd": STAY});
    let image = Image { names: IMAGES.map(str::to_owned).to_vec(), layers: vec![layer], config };
    archive::write(&scratch().join("archive"), &[image], &folder.join("root/images.tar"))
}

fn files(host: &Host) -> anyhow::Result<Vec<String>> {
    let left_out = VOLATILE.map(|path| format!("-path {path}")).join(" -o ");
    let found =
        host.run(&format!("find / \\( {left_out} \\) -prune -o -print; find /var/log/pods 2>/dev/null || true"))?;
    Ok(found.lines().map(str::to_owned).collect())
}

fn users(host: &Host) -> anyhow::Result<String> {
    host.run("cat /etc/passwd /etc/group")
}

fn install(host: &Host) -> anyhow::Result<()> {
    say("installed: neither unit is enabled or started");
    host.run("apt-get install -q -y /root/oarlock.deb")?;
    for unit in ["oarlock-control-plane", "oarlock-kubelet"] {
        let state = host.run(&format!("systemctl is-enabled {unit} || true; systemctl is-active {unit} || true"))?;
        ensure!(state == "disabled\ninactive\n", "{unit}: {state}");
    }
    Ok(())
}

/// The control plane serves when its unit counts as started, as its own user, and keeps its state through a kill.
fn control_plane(host: &Host) -> anyhow::Result<()> {
    say("the control plane is started and killed");
    host.run("systemctl enable --now oarlock-control-plane")?;
    ensure!(host.run("kubectl get --raw /readyz")? == "ok", "it is started before it is ready");
    let user = host.run("ps -o user= -p $(systemctl show -P MainPID oarlock-control-plane)")?;
    ensure!(user.trim() == "oarlock", "it runs as {user}");
    host.run("kubectl create configmap kept --from-literal=k=v")?;
    host.run("systemctl kill --signal KILL oarlock-control-plane")?;
    restarted(host, "oarlock-control-plane")?;
    ensure!(host.run("kubectl get configmap kept -o jsonpath={.data.k}")? == "v", "what was written is lost");
    Ok(())
}

/// Waits until systemd has started a unit again after a kill.
fn restarted(host: &Host, unit: &str) -> anyhow::Result<()> {
    let line = format!("systemctl show -P NRestarts {unit}; systemctl is-active {unit} || true");
    host.until(&format!("{unit} is started again"), &line, |said| said == "1\nactive\n")?;
    Ok(())
}

/// Makes the host a node with a static pod, as docs/operations/install.md says; returns the pod's container.
fn node(host: &Host) -> anyhow::Result<String> {
    say("the host becomes a node");
    host.run("systemctl restart containerd; ctr -n k8s.io images import /root/images.tar")?;
    host.run(&format!(
        "runuser -u oarlock -- oarlock keys --data-dir /var/lib/oarlock/control-plane \
         --parts /var/lib/oarlock/control-plane/parts --part-nodes {ADDRESS}={NODE}"
    ))?;
    host.run(&format!(
        "cd /var/lib/oarlock/control-plane/parts/{ADDRESS}; umask 077; cp {NODE}.kubeconfig /etc/oarlock/kubelet.kubeconfig; \
         cp kubelet.crt kubelet.key /etc/oarlock"
    ))?;
    host.run("cp /root/stay.yaml /etc/oarlock/manifests; systemctl enable --now oarlock-kubelet")?;
    container(host, 0)
}

/// Waits until the static pod runs after so many restarts; returns its container.
fn container(host: &Host, restarts: u32) -> anyhow::Result<String> {
    let path = "{.status.phase} {.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready} \
                {.status.containerStatuses[0].containerID}";
    let begin = format!("Running {restarts} true containerd://");
    let said = host.until(
        &format!("the static pod runs after {restarts} restarts"),
        &format!("kubectl get pod stay-{NODE} -o jsonpath='{path}'"),
        |said| said.starts_with(&begin),
    )?;
    Ok(said.strip_prefix(&begin).unwrap_or_default().to_owned())
}

/// A killed kubelet finds its pod as it ran. A container that ended meanwhile is started again.
fn kubelet_is_killed(host: &Host, first: &str) -> anyhow::Result<()> {
    say("the kubelet is killed and stopped");
    host.run("systemctl kill --signal KILL oarlock-kubelet")?;
    restarted(host, "oarlock-kubelet")?;
    ensure!(container(host, 0)? == first, "the kubelet has made another container");
    host.run(&format!("kubectl exec stay-{NODE} -- sh -c :"))?;
    host.run("systemctl stop oarlock-kubelet")?;
    host.run(&format!("ctr -n k8s.io tasks kill --signal SIGKILL {first}"))?;
    host.run("systemctl start oarlock-kubelet")?;
    ensure!(container(host, 1)? != first, "a container that has ended runs");
    Ok(())
}

/// An upgrade restarts the units that run, keeps changed configuration, and disturbs no container.
fn upgrade(host: &Host) -> anyhow::Result<()> {
    say("the package is installed again, as by an upgrade");
    let container = self::container(host, 1)?;
    host.run("echo '# mine' >>/etc/oarlock/control-plane.env")?;
    let processes = "for unit in control-plane kubelet; do systemctl show -P MainPID oarlock-$unit; done";
    let before = host.run(processes)?;
    host.run("apt-get install -q -y --reinstall /root/oarlock.deb")?;
    let after = host.run(processes)?;
    ensure!(before.lines().zip(after.lines()).all(|(old, new)| old != new), "a unit still runs the old program");
    ensure!(host.run("kubectl get --raw /readyz")? == "ok", "the control plane is started before it is ready");
    host.run("grep -q '^# mine' /etc/oarlock/control-plane.env")?;
    ensure!(self::container(host, 1)? == container, "the upgrade has disturbed a container");
    Ok(())
}

fn static_pod_ends(host: &Host) -> anyhow::Result<()> {
    host.run("rm /etc/oarlock/manifests/stay.yaml")?;
    host.until("the static pod has ended", "ctr -n k8s.io tasks list -q; kubectl get pods -o name", str::is_empty)?;
    Ok(())
}

/// A removal keeps state and configuration, a purge nothing.
fn purge(host: &Host) -> anyhow::Result<()> {
    say("the package is removed and purged");
    host.run("apt-get remove -q -y oarlock")?;
    host.run("! pgrep -x oarlock; test -d /var/lib/oarlock/control-plane/store; test -f /etc/oarlock/kubelet.key")?;
    host.run("apt-get purge -q -y oarlock; systemctl daemon-reload")?;
    let known = host.run(
        "systemctl list-unit-files 'oarlock*' --no-legend || true; systemctl list-units 'oarlock*' --all --no-legend",
    )?;
    ensure!(known.trim().is_empty(), "systemd still knows {known}");
    Ok(())
}
