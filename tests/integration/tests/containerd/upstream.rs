//! Upstream's kubelet on a machine of a test, as a node of our cluster.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use oarlock_pki::{Authority, Leaf, San, Subject, UnixTime};
use oarlock_testkit::{Cluster, Process, read};

use super::machine::{Machine, run};

/// Kernel settings that a kubelet insists on. The kubelet sees these values, and the machine keeps its own.
const SETTINGS: [(&str, &str); 3] =
    [("vm/overcommit_memory", "1"), ("kernel/panic", "10"), ("kernel/panic_on_oops", "1")];

impl Machine {
    /// Starts `program` as the node `name`. It runs on the host, so its address is the host's end of the link.
    pub(crate) fn upstreams_kubelet(&self, program: &Path, cluster: &Cluster, name: &str) -> Process {
        let dir = self.dir();
        identify(self, cluster, name);
        for part in ["kubelet", "var-lib", "plugins"] {
            std::fs::create_dir_all(dir.join(part)).unwrap();
        }
        // Containerd runs in another mount namespace and must see the kubelet's mounts for pods.
        let root = dir.join("kubelet").display().to_string();
        run("mount", &["--bind", &root, &root]);
        run("mount", &["--make-shared", &root]);
        for hierarchy in std::fs::read_dir("/sys/fs/cgroup").unwrap() {
            let hierarchy = hierarchy.unwrap().path();
            if hierarchy.is_dir() && !hierarchy.is_symlink() {
                std::fs::create_dir_all(hierarchy.join(self.cgroup())).unwrap();
            }
        }
        std::fs::write(dir.join("kubelet.yaml"), self.configuration(cluster)).unwrap();
        // Upstream's kubelet keeps some sockets below /var/lib/kubelet, whatever its flags say.
        let mut script = "mount --make-private \"$(findmnt -no TARGET -T /var/lib)\"; mount --make-private /proc; \
                          mount --bind \"$D/var-lib\" /var/lib; "
            .to_owned();
        for (setting, value) in SETTINGS {
            let file = dir.join(setting.replace('/', "-"));
            std::fs::write(&file, format!("{value}\n")).unwrap();
            script += &format!("mount --bind {} /proc/sys/{setting}; ", file.display());
        }
        script += "exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "unchanged", "sh", "-ec", &script, "kubelet"]).arg(program);
        command.env("D", dir);
        for (flag, value) in [
            ("config", dir.join("kubelet.yaml").display().to_string()),
            ("kubeconfig", dir.join("kubelet.kubeconfig").display().to_string()),
            ("root-dir", root),
            ("cert-dir", dir.join("kubelet-pki").display().to_string()),
            ("hostname-override", name.to_owned()),
            ("node-ip", self.host()),
        ] {
            command.arg(format!("--{flag}={value}"));
        }
        Process::start(command, "kubelet")
    }

    fn configuration(&self, cluster: &Cluster) -> String {
        let (dir, pki) = (self.dir().display(), cluster.data_dir().pki());
        let port = oarlock_testkit::port::own();
        format!(
            r#"apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {host}
port: {port}
healthzPort: 0
tlsCertFile: {dir}/kubelet.crt
tlsPrivateKeyFile: {dir}/kubelet.key
authentication: {{anonymous: {{enabled: false}}, webhook: {{enabled: true}}, x509: {{clientCAFile: {ca}}}}}
authorization: {{mode: Webhook}}
containerRuntimeEndpoint: "unix://{socket}"
podLogsDir: {dir}/logs
volumePluginDir: {dir}/plugins
resolvConf: {dir}/resolv.conf
cgroupDriver: cgroupfs
cgroupRoot: /{cgroup}
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
# Machines of tests may raise neither.
oomScoreAdj: 0
maxOpenFiles: {files}
# How full the machine's disk is does not matter here.
imageGCHighThresholdPercent: 100
evictionHard: {{memory.available: 1Mi, nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%", imagefs.inodesFree: "0%"}}
"#,
            host = self.host(),
            ca = pki.join("ca.crt").display(),
            socket = self.socket(),
            cgroup = self.cgroup(),
            files = open_files(),
        )
    }
}

/// The hard limit of open files.
fn open_files() -> u64 {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(4).unwrap().parse().unwrap()
}

/// Certificates of the cluster's authority, as client and as server, and a kubeconfig.
fn identify(machine: &Machine, cluster: &Cluster, name: &str) {
    let (dir, pki) = (machine.dir(), cluster.data_dir().pki());
    let authority = Authority::from_pem(&read(&pki.join("ca.crt")), &read(&pki.join("ca.key"))).unwrap();
    #[expect(clippy::disallowed_methods, reason = "certificates for a real process live in real time")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs()));
    let write = |leaf: &Leaf, base: &str| {
        let issued = authority.issue(leaf, now).unwrap();
        std::fs::write(dir.join(format!("{base}.crt")), issued.certificate_pem()).unwrap();
        std::fs::write(dir.join(format!("{base}.key")), issued.key.to_pem().as_bytes()).unwrap();
    };
    write(&Leaf::client(Subject::node(name)), "node");
    write(&Leaf::server(Subject::node(name), vec![San::Ip(machine.host().parse().unwrap())]), "kubelet");
    let server = cluster.kubectl().ok("config view -o jsonpath={.clusters[0].cluster.server}");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: \"{}\", certificate-authority: {}}}}}]\n\
         users: [{{name: u, user: {{client-certificate: {dir}/node.crt, client-key: {dir}/node.key}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n",
        server.trim(),
        pki.join("ca.crt").display(),
        dir = dir.display(),
    );
    std::fs::write(dir.join("kubelet.kubeconfig"), text).unwrap();
}
