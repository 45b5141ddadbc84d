//! A test's own containerd: with its own root, state and socket, and a network namespace that stands for a machine. The end of a test removes
//! everything that the containerd started, and nothing else.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use oarlock_kubelet::Containerd;
use oarlock_kubelet::cri::Runtime;
use oarlock_testkit::Cluster;
use oarlock_testkit::wait::eventually;
use tempfile::TempDir;

use super::{images, shims};

/// The programs that the machine must have; `tests/install-containerd` installs them.
const PROGRAMS: [&str; 7] = ["containerd", "ctr", "runc", "ip", "nsenter", "busybox", "tar"];
const PLUGINS: &str = "/usr/lib/cni";

/// A containerd in a network namespace that stands for a machine. Dropping the value ends everything that the containerd started.
pub(crate) struct Machine {
    dir: TempDir,
    /// The number that makes the machine's names and addresses unique.
    number: u8,
    child: Option<Child>,
}

impl Machine {
    /// Starts a machine; `None`, with a printed skip, without root privileges.
    pub(crate) fn start() -> Option<Self> {
        if !rustix_root() {
            oarlock_testkit::skipped!("containers need root");
            return None;
        }
        for program in PROGRAMS {
            assert!(on_path(program).is_some(), "{program} is not on the PATH: run tests/install-containerd");
        }
        for plugin in ["bridge", "host-local", "loopback", "portmap"] {
            let file = Path::new(PLUGINS).join(plugin);
            assert!(file.is_file(), "{} is not there: run tests/install-containerd", file.display());
        }
        let dir = tempfile::Builder::new().prefix("oarlock-node-").tempdir().unwrap();
        // Creating the network namespace reserves the number.
        let number = (1..=250).find(|number| try_run("ip", &["netns", "add", &name(*number)]).is_ok());
        let mut machine = Self { dir, number: number.expect("a free number"), child: None };
        machine.connect();
        machine.configure();
        machine.run_containerd();
        let archive = images::archive(machine.dir.path(), &on_path("busybox").unwrap());
        machine.ctr(&["images", "import", archive.to_str().unwrap()]);
        Some(machine)
    }

    /// A link between the host and the machine, and routes.
    fn connect(&self) {
        let (name, address) = (name(self.number), self.address());
        let (host, pods) = (self.host(), self.pods());
        let link = self.way();
        let add = ["link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns", &name];
        // The kernel removes the links of a deleted namespace some time later, so the links of the previous namespace with this number may still
        // exist.
        eventually("the link is there", || try_run("ip", &add));
        run("ip", &["address", "add", &format!("{host}/30"), "dev", &link]);
        run("ip", &["link", "set", &link, "up"]);
        run("ip", &["-n", &name, "link", "set", "lo", "up"]);
        run("ip", &["-n", &name, "address", "add", &format!("{address}/30"), "dev", "eth0"]);
        run("ip", &["-n", &name, "link", "set", "eth0", "up"]);
        run("ip", &["-n", &name, "route", "add", "default", "via", &host]);
        run("ip", &["route", "add", &format!("{pods}.0/24"), "via", &address]);
        let net = format!("--net=/run/netns/{name}");
        run("nsenter", &[&net, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]);
    }

    fn configure(&self) {
        let (dir, address) = (self.dir.path().display(), self.address());
        std::fs::create_dir_all(self.dir.path().join("net.d")).unwrap();
        let network = format!(
            r#"{{"cniVersion":"1.0.0","name":"test","plugins":[
            {{"type":"bridge","bridge":"cni0","isGateway":true,"hairpinMode":true,"ipMasq":false,
              "ipam":{{"type":"host-local","dataDir":"{dir}/ipam","ranges":[[{{"subnet":"{}.0/24"}}]],"routes":[{{"dst":"0.0.0.0/0"}}]}}}},
            {{"type":"portmap","capabilities":{{"portMappings":true}}}}]}}"#,
            self.pods()
        );
        std::fs::write(self.dir.path().join("net.d/10-test.conflist"), network).unwrap();
        // Many containers lack CAP_SYS_RESOURCE, without which no OOM score may be lowered.
        let config = format!(
            r#"version = 2
root = "{dir}/root.d"
state = "{dir}/state"
[grpc]
  address = "{dir}/sock"
[ttrpc]
  address = "{dir}/sock.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  stream_server_address = "{address}"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{PLUGINS}"
    conf_dir = "{dir}/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
[plugins."io.containerd.internal.v1.opt"]
  path = "{dir}/opt"
"#,
            images::PAUSE
        );
        std::fs::write(self.dir.path().join("config.toml"), config).unwrap();
        std::fs::write(self.dir.path().join("resolv.conf"), "nameserver 192.0.2.53\n").unwrap();
    }

    /// Starts containerd, also after [`Machine::kill_containerd`], and waits until it answers.
    pub(crate) fn run_containerd(&mut self) {
        let log = File::options().create(true).append(true).open(self.dir.path().join("log")).unwrap();
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", name(self.number))).arg("containerd");
        command.arg("--config").arg(self.dir.path().join("config.toml"));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.child = Some(command.spawn().unwrap());
        let socket = self.socket();
        eventually("containerd answers", || try_run("ctr", &["-a", &socket, "version"]));
    }

    /// Ends containerd with SIGKILL; containers keep running.
    pub(crate) fn kill_containerd(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Gives containers the image `name` of a program.
    pub(crate) fn import(&self, name: &str, program: &Path) {
        let archive = images::of_program(self.dir.path(), name, program);
        self.ctr(&["images", "import", archive.to_str().unwrap()]);
    }

    /// Replaces a service proxy: from pods, `ip:443` is the host's port `port`.
    pub(crate) fn serve(&self, ip: &str, port: &str) {
        let net = format!("--net=/run/netns/{}", name(self.number));
        let rules = format!(
            "table ip services {{\nchain near {{\ntype nat hook prerouting priority dstnat\n\
             ip daddr {ip} tcp dport 443 dnat to {}:{port}\n}}\n}}\n",
            self.host()
        );
        run("nsenter", &[&net, "nft", &rules]);
    }

    /// A whole cluster with this machine as its node.
    pub(crate) fn cluster(&self) -> Cluster {
        self.cluster_with(&[])
    }

    /// Starts the same cluster with further flags.
    pub(crate) fn cluster_with(&self, more: &[&str]) -> Cluster {
        let flags = self.flags(&self.address());
        Cluster::up(&flags.iter().map(String::as_str).chain(more.iter().copied()).collect::<Vec<_>>())
    }

    /// Flags of a kubelet whose address is `ip`.
    fn flags(&self, ip: &str) -> [String; 7] {
        let dir = self.dir.path().display().to_string();
        [
            "--runtime=containerd".to_owned(),
            format!("--container-runtime-endpoint=unix://{}", self.socket()),
            format!("--root-dir={dir}/kubelet"),
            format!("--pod-logs-dir={dir}/logs"),
            format!("--cgroup-root=/{}", self.cgroup()),
            format!("--resolv-conf={dir}/resolv.conf"),
            format!("--node-ip={ip}"),
        ]
    }

    /// A kubelet in a process of its own that makes this machine the node `name` of a cluster.
    pub(crate) fn kubelet(&self, cluster: &Cluster, name: &str) -> Kubelet {
        self.kubelet_of(&cluster.kubeconfig(), cluster.data_dir().root(), name, &[])
    }

    /// Starts a kubelet as [`Machine::kubelet`] does, for any cluster whose authority is below `data_dir`, with further flags.
    pub(crate) fn kubelet_of(&self, kubeconfig: &Path, data_dir: &Path, name: &str, more: &[&str]) -> Kubelet {
        let log = File::create(self.kubelet_log()).unwrap();
        let mut command = Command::new(oarlock_testkit::oarlock());
        command.args(["kubelet", "--node-name", name, "--kubeconfig"]).arg(kubeconfig);
        // The control plane runs in the host's network namespace.
        command.arg("--data-dir").arg(data_dir).args(self.flags(&self.host())).args(more).args(["--port", "0"]);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Kubelet(command.spawn().unwrap())
    }

    fn kubelet_log(&self) -> PathBuf {
        self.dir.path().join("kubelet.log")
    }

    /// Returns the output of the last kubelet that ran in a process of its own.
    pub(crate) fn kubelet_said(&self) -> String {
        oarlock_testkit::read(&self.kubelet_log())
    }

    /// A wire between two machines, and routes to each other's pods.
    pub(crate) fn link(&self, other: &Self) {
        let (near, far) = (name(self.number), name(other.number));
        let wire = format!("to{}", other.number);
        let back = format!("to{}", self.number);
        run("ip", &["-n", &near, "link", "add", &wire, "type", "veth", "peer", "name", &back, "netns", &far]);
        let addresses = [format!("10.252.{}.1", self.number), format!("10.252.{}.2", self.number)];
        for (space, device, own, next, pods) in [
            (&near, &wire, &addresses[0], &addresses[1], other.pods()),
            (&far, &back, &addresses[1], &addresses[0], self.pods()),
        ] {
            run("ip", &["-n", space, "address", "add", &format!("{own}/30"), "dev", device]);
            run("ip", &["-n", space, "link", "set", device, "up"]);
            run("ip", &["-n", space, "route", "add", &format!("{pods}.0/24"), "via", next]);
        }
    }

    /// The folder with all files of the machine.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The cgroup below which those of its pods are.
    pub(crate) fn cgroup(&self) -> String {
        name(self.number)
    }

    pub(crate) fn socket(&self) -> String {
        self.dir.path().join("sock").display().to_string()
    }

    /// The host's end of the link.
    pub(crate) fn host(&self) -> String {
        format!("10.251.{}.1", self.number)
    }

    fn address(&self) -> String {
        format!("10.251.{}.2", self.number)
    }

    /// The first three numbers of its pods' addresses.
    pub(crate) fn pods(&self) -> String {
        format!("10.250.{}", self.number)
    }

    /// Runs `ctr` in Kubernetes' namespace, and returns the output.
    pub(crate) fn ctr(&self, args: &[&str]) -> String {
        run("ctr", &[&["-a", &self.socket(), "-n", "k8s.io"], args].concat())
    }

    /// Asks containerd through CRI.
    pub(crate) fn cri<T>(&self, ask: impl AsyncFnOnce(Containerd) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let endpoint = format!("unix://{}", self.socket());
            ask(Containerd::connect(&endpoint).await.unwrap()).await
        })
    }

    /// Returns the traces of pods on the machine: sandboxes, directories, logs, cgroups, networks.
    pub(crate) fn traces(&self) -> Vec<String> {
        let mut traces: Vec<String> = self.cri(async |cri| {
            let all = cri.list_pod_sandbox(None).await.unwrap();
            all.iter().map(|sandbox| format!("sandbox {}", sandbox.id)).collect()
        });
        let dir = self.dir.path();
        let mut dirs: Vec<PathBuf> = vec![dir.join("kubelet/pods"), dir.join("logs")];
        for hierarchy in std::fs::read_dir("/sys/fs/cgroup").unwrap() {
            let pods = hierarchy.unwrap().path().join(format!("oarlock-test-{}/kubepods", self.number));
            dirs.extend([pods.join("burstable"), pods.join("besteffort")]);
        }
        for dir in dirs {
            let Ok(entries) = std::fs::read_dir(&dir) else { continue };
            let found = entries.map(|entry| entry.unwrap()).filter(|entry| entry.file_type().unwrap().is_dir());
            traces.extend(found.map(|entry| entry.path().display().to_string()));
        }
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let inside = dir.display().to_string();
        let left = mounts.lines().filter(|line| line.contains(&inside)).filter(|line| !line.contains("/root.d"));
        // Upstream's kubelet has its root directory mounted onto the same path.
        let left = left.filter(|line| !line.contains("/kubelet "));
        traces.extend(left.map(|line| format!("mount {line}")));
        let leases = std::fs::read_dir(dir.join("ipam/test")).into_iter().flatten();
        let leases = leases.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        traces.extend(leases.filter(|name| name.starts_with("10.")).map(|ip| format!("address {ip}")));
        traces
    }

    /// Waits until nothing of any pod is left.
    pub(crate) fn until_clean(&self) {
        eventually("no traces of pods", || self.clean());
    }

    /// Waits until nothing of any pod is left after a kubelet was killed.
    ///
    /// A kubelet that dies during the start of a container can leave a task that no call of CRI removes (containerd's issue 11037). A new containerd
    /// removes the task, so containerd is restarted once when its log reports such a task.
    pub(crate) fn until_clean_after_kill(&mut self) {
        let mut restarted = false;
        eventually("no traces of pods", || {
            let outcome = self.clean();
            let log = || std::fs::read_to_string(self.dir.path().join("log")).unwrap();
            if outcome.is_err() && !restarted && log().contains("cannot delete running task") {
                eprintln!("containerd cannot remove a container whose start was interrupted, and is restarted");
                self.kill_containerd();
                self.run_containerd();
                restarted = true;
            }
            outcome
        });
    }

    /// Checks that nothing of any pod is left; the error lists what is.
    fn clean(&self) -> Result<(), String> {
        let traces = self.traces();
        if traces.is_empty() { Ok(()) } else { Err(traces.join("\n")) }
    }
}

/// A kubelet's process, which ends when dropped; its pods keep running.
pub(crate) struct Kubelet(Child);

impl Drop for Kubelet {
    fn drop(&mut self) {
        // The process may have ended already; the test has failed then.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Machine {
    /// The host's end of the link to the machine.
    fn way(&self) -> String {
        format!("oak{}", self.number)
    }

    /// Removes all that containerd runs, and ends containerd; does nothing without a machine.
    fn clear(&mut self) {
        if !self.dir.path().join("config.toml").exists() {
            return;
        }
        if self.child.is_none() {
            self.run_containerd();
        }
        self.cri(async |cri| {
            for sandbox in cri.list_pod_sandbox(None).await.unwrap() {
                if let Err(error) = cri.remove_pod_sandbox(&sandbox.id).await {
                    eprintln!("sandbox {} is left: {error}", sandbox.id);
                }
            }
        });
        self.kill_containerd();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().filter(|line| !line.contains("level=info")).collect();
            eprintln!("--- log of containerd\n{}\n---", lines[lines.len().saturating_sub(30)..].join("\n"));
        }
        // Containerd must not end first: it would leave processes, mounts and namespaces behind. A panic in this place would also end all other
        // tests.
        let cleared = catch_unwind(AssertUnwindSafe(|| self.clear()));
        if cleared.is_err() {
            eprintln!("containerd of {} was not cleared", name(self.number));
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        // A shim whose containerd was killed is unknown to the next one, and would outlive the test.
        let socket = self.socket();
        if catch_unwind(|| shims::end(&socket)).is_err() {
            eprintln!("shims of {} are left", name(self.number));
        }
        if catch_unwind(|| shims::forget_containers(self.dir.path())).is_err() {
            eprintln!("containers of {} are left", name(self.number));
        }
        // A failed test leaves volumes of pods, which the kubelet would have unmounted.
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let points = mounts
            .lines()
            .filter_map(|line| line.split(' ').nth(1))
            .filter(|at| Path::new(at).starts_with(self.dir.path()));
        for point in points.collect::<Vec<_>>().into_iter().rev() {
            if let Err(error) = try_run("umount", &[point]) {
                eprintln!("{error}");
            }
        }
        // The end of the namespace would remove the link only some time after the number is free.
        let _ = try_run("ip", &["link", "delete", &self.way()]);
        let _ = try_run("ip", &["netns", "delete", &name(self.number)]);
        for hierarchy in std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
            let root = hierarchy.path().join(format!("oarlock-test-{}", self.number));
            if root.is_dir() {
                let _ = try_run("find", &[root.to_str().unwrap(), "-depth", "-type", "d", "-exec", "rmdir", "{}", ";"]);
            }
        }
    }
}

fn name(number: u8) -> String {
    format!("oarlock-test-{number}")
}

fn rustix_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    status.lines().any(|line| line.starts_with("Uid:\t0\t"))
}

pub(super) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

pub(super) fn try_run(program: &str, args: &[&str]) -> Result<String, String> {
    let ran = Command::new(program).args(args).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if ran.status.success() { Ok(text(&ran.stdout)) } else { Err(format!("{program} {args:?}: {}", text(&ran.stderr))) }
}

pub(crate) fn run(program: &str, args: &[&str]) -> String {
    try_run(program, args).unwrap()
}
