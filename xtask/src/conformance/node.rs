//! The nodes: each a host with containerd, a kubelet and kube-proxy.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::Maker;
use super::certificates::{client, server};
use super::containerd::{self, socket};
use super::control_plane::ControlPlane;
use super::daemon::Daemon;
use super::dns::SERVICE;
use super::network::{HOSTS, PODS, address};
use super::place::{NODES, Place, name};
use super::programs::Programs;
use super::wait;
use crate::tool::{capture, output, say};

/// Limit until the nodes are ready.
const NODES_READY_TIMEOUT: Duration = Duration::from_secs(180);
/// Files that a kubelet and its like may have open: machines of containers may raise no limit.
const OPEN_FILES: u32 = 20_000;
/// Kernel settings that upstream's kubelet insists on. The kubelet sees these values, and the machine keeps its own.
const SETTINGS: [(&str, &str); 3] = [
    ("/proc/sys/vm/overcommit_memory", "1"),
    ("/proc/sys/kernel/panic", "10"),
    ("/proc/sys/kernel/panic_on_oops", "1"),
];

/// Starts the nodes.
pub(crate) fn start_all(
    place: &Place,
    programs: &Programs,
    plane: &ControlPlane,
    images: &Path,
    maker: Maker,
) -> anyhow::Result<()> {
    for number in NODES {
        let folder = place.state().join(name(number));
        for part in ["", "kubelet", "pki", "logs", "plugins", "var-lib", "var-log"] {
            std::fs::create_dir(folder.join(part))?;
        }
        // Containerd must see the kubelet's mounts for pods. Both mount namespaces are copies of this one, so the shared mount is made first.
        let root = folder.join("kubelet");
        output(Command::new("mount").arg("--bind").args([&root, &root]))?;
        output(Command::new("mount").arg("--make-rshared").arg(&root))?;
        containerd::start(place, programs, number, &folder, images)?;
        let node = Node { place, programs, plane, number, folder: &folder };
        node.start_kubelet(maker)?;
        node.start_proxy()?;
    }
    Ok(())
}

/// Waits until all nodes are ready.
///
/// # Errors
/// When one is not in time.
pub(crate) fn wait_for_all(place: &Place, programs: &Programs, plane: &ControlPlane) -> anyhow::Result<()> {
    wait::until("the nodes are ready", NODES_READY_TIMEOUT, || {
        let mut get = place.beside(&programs.tool("kubectl"));
        get.arg("--kubeconfig").arg(&plane.kubeconfig).args(["get", "nodes", "--no-headers"]);
        let (_, text) = capture(&mut get)?;
        let ready = text.lines().filter(|line| line.split_whitespace().nth(1) == Some("Ready")).count();
        Ok(if ready == NODES.len() {
            Ok(())
        } else {
            Err(format!("{text}; see the logs in {}", place.logs().display()))
        })
    })?;
    say(&format!("{} nodes are ready", NODES.len()));
    Ok(())
}

/// The parameters of every part of a node.
struct Node<'a> {
    place: &'a Place,
    programs: &'a Programs,
    plane: &'a ControlPlane,
    number: u8,
    folder: &'a Path,
}

impl Node<'_> {
    fn name(&self) -> String {
        name(self.number)
    }

    fn cgroup(&self) -> String {
        format!("/{}/{}", self.place.cgroup(), self.name())
    }

    fn daemon(&self, program: &str) -> Daemon<'_> {
        Daemon::new(self.place, &format!("{program}-{}", self.name()), &self.place.host(self.number))
    }

    fn start_kubelet(&self, maker: Maker) -> anyhow::Result<()> {
        let (name, pki) = (self.name(), self.folder.join("pki"));
        let subject = format!("/O=system:nodes/CN=system:node:{name}");
        let kubeconfig = client(self.plane, &pki, "kubelet", &subject)?;
        server(self.plane, &pki, "serving", &subject, &format!("DNS:{name},IP:{}", address(self.number)))?;
        let root = self.folder.join("kubelet");
        let child = match maker {
            Maker::Ours => self.daemon("kubelet").start(&self.programs.oarlock, self.our_flags(&kubeconfig))?,
            Maker::Upstream => {
                let config = self.folder.join("kubelet.yaml");
                std::fs::write(&config, self.configuration())?;
                // No setting moves the sockets and links that it keeps in these.
                let mut daemon = self.daemon("kubelet").instead(self.folder.join("var-lib"), "/var/lib");
                daemon = daemon.instead(self.folder.join("var-log"), "/var/log");
                for (setting, value) in SETTINGS {
                    let file = self.folder.join(setting.trim_start_matches('/').replace('/', "-"));
                    std::fs::write(&file, format!("{value}\n"))?;
                    daemon = daemon.instead(file, setting);
                }
                let flags = [
                    ("config", config.display().to_string()),
                    ("kubeconfig", kubeconfig.display().to_string()),
                    ("root-dir", root.display().to_string()),
                    ("cert-dir", pki.display().to_string()),
                    ("hostname-override", name),
                    ("node-ip", address(self.number)),
                ];
                let flags = flags.map(|(flag, value)| format!("--{flag}={value}"));
                daemon.start(&self.programs.tool("kubelet"), flags)?
            }
        };
        drop(child);
        Ok(())
    }

    fn our_flags(&self, kubeconfig: &Path) -> Vec<String> {
        let dir = self.folder.display();
        let flags = [
            ("runtime", "containerd".to_owned()),
            ("container-runtime-endpoint", format!("unix://{}", socket(self.folder).display())),
            ("kubeconfig", kubeconfig.display().to_string()),
            ("node-name", self.name()),
            ("node-ip", address(self.number)),
            ("root-dir", format!("{dir}/kubelet")),
            ("pod-logs-dir", format!("{dir}/logs")),
            ("cgroup-root", self.cgroup()),
            ("cluster-dns", SERVICE.to_owned()),
            ("sync-frequency", "20s".to_owned()),
            ("client-ca-file", self.plane.pki.join("ca.crt").display().to_string()),
            ("tls-cert-file", format!("{dir}/pki/serving.crt")),
            ("tls-private-key-file", format!("{dir}/pki/serving.key")),
        ];
        let flags = flags.into_iter().map(|(flag, value)| format!("--{flag}={value}"));
        std::iter::once("kubelet".to_owned()).chain(flags).collect()
    }

    /// Volumes are brought up to date soon, since specs wait for that; the disk's fill level does not matter.
    fn configuration(&self) -> String {
        format!(
            r#"apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: {cgroup}
containerRuntimeEndpoint: unix://{socket}
oomScoreAdj: 0
maxOpenFiles: {OPEN_FILES}
failSwapOn: false
makeIPTablesUtilChains: false
tlsCertFile: {dir}/pki/serving.crt
tlsPrivateKeyFile: {dir}/pki/serving.key
authentication: {{anonymous: {{enabled: false}}, webhook: {{enabled: true}}, x509: {{clientCAFile: {pki}/ca.crt}}}}
authorization: {{mode: Webhook}}
clusterDNS: [{SERVICE}]
clusterDomain: cluster.local
syncFrequency: 20s
kubeAPIQPS: 200
kubeAPIBurst: 400
podLogsDir: {dir}/logs
volumePluginDir: {dir}/plugins
evictionHard: {{memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}}
imageGCHighThresholdPercent: 100
"#,
            cgroup = self.cgroup(),
            socket = socket(self.folder).display(),
            dir = self.folder.display(),
            pki = self.plane.pki.display(),
        )
    }

    fn start_proxy(&self) -> anyhow::Result<()> {
        let kubeconfig = client(self.plane, &self.folder.join("pki"), "kube-proxy", "/CN=system:kube-proxy")?;
        let config = self.folder.join("kube-proxy.yaml");
        std::fs::write(
            &config,
            format!(
                "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nclientConnection: {{kubeconfig: {}}}\n\
                 mode: nftables\nclusterCIDR: {PODS}\nhostnameOverride: {}\nbindAddress: {}\nnodePortAddresses: [{HOSTS}]\n\
                 conntrack: {{maxPerCore: 0}}\n",
                kubeconfig.display(),
                self.name(),
                address(self.number),
            ),
        )?;
        let args = ["--config".to_owned(), config.display().to_string()];
        drop(self.daemon("kube-proxy").start(&self.programs.tool("kube-proxy"), args)?);
        Ok(())
    }
}
