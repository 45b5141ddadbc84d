//! [`Etcd`]: a real etcd cluster on the loopback address.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use oarlock_pki::{Authority, Leaf, San, Subject, UnixTime};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::chaos::Chaos;
use crate::{Process, port, programs, wait};

/// Log message of a member that accepts requests.
const READY_MESSAGE: &str = "ready to serve client requests";

/// TLS credentials for clients of a cluster, PEM.
#[derive(Clone, Debug)]
pub struct Secured {
    /// Certificate authority of the members.
    pub authority: String,
    /// Client certificate.
    pub certificate: String,
    /// Key of the client certificate.
    pub key: String,
}

/// One member: its ports and its process while running.
#[derive(Debug)]
struct Member {
    client: u16,
    raft: u16,
    /// Proxy for the member's connections to other members, if any.
    proxy: Option<SocketAddr>,
    process: Option<Process>,
}

/// Running members of one etcd cluster; dropping the value ends them.
#[derive(Debug)]
pub struct Etcd {
    program: PathBuf,
    folder: TempDir,
    members: Vec<Member>,
    secured: Option<Secured>,
    flags: Vec<String>,
}

impl Etcd {
    /// Starts this number of members of upstream's current release and waits until they are ready.
    ///
    /// # Errors
    /// Why etcd cannot be built here.
    pub fn start(count: usize) -> Result<Self, String> {
        Self::of("etcd", count, false, &[])
    }

    /// Starts members of a program known to `cargo xtask peer build`, with or without TLS, with further flags.
    ///
    /// # Errors
    /// Why the program cannot be built here.
    ///
    /// # Panics
    /// When the cluster does not become ready.
    pub fn of(program: &str, count: usize, secured: bool, flags: &[&str]) -> Result<Self, String> {
        let program = programs(&[program])?.join(program);
        Ok(Self::from_program(program, count, secured, flags))
    }

    /// As [`Etcd::of`], with any executable.
    ///
    /// # Panics
    /// When the cluster does not become ready.
    #[must_use]
    pub fn from_program(program: PathBuf, count: usize, secured: bool, flags: &[&str]) -> Self {
        let mut etcd = Self::new(program, count, secured, flags);
        etcd.begin("new");
        etcd
    }

    /// Starts members that reach one another only over links, between the parties `m0`, `m1` and so on. A link carries both directions of the connections that its first
    /// member opens.
    ///
    /// # Errors
    /// Why etcd cannot be built here.
    ///
    /// # Panics
    /// When the cluster does not become ready.
    pub fn linked(count: usize, chaos: &Chaos) -> Result<Self, String> {
        let mut etcd = Self::new(programs(&["etcd"])?.join("etcd"), count, false, &[]);
        for from in 0..count {
            let others = (0..count).filter(|to| *to != from);
            let link = |to: usize| {
                let target = (Ipv4Addr::LOCALHOST, etcd.members[to].raft).into();
                chaos.link(&format!("m{from}"), &format!("m{to}"), target)
            };
            let links = others.map(link).collect();
            etcd.members[from].proxy = Some(chaos.proxy(links));
        }
        etcd.begin("new");
        Ok(etcd)
    }

    fn new(program: PathBuf, count: usize, secured: bool, flags: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("oarlock-etcd-").tempdir().expect("a temporary directory");
        let member = |_| Member { client: port::own(), raft: port::own(), proxy: None, process: None };
        let members = (0..count).map(member).collect();
        let secured = secured.then(|| certificates(&folder));
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        Self { program, folder, members, secured, flags }
    }

    /// Starts all members and waits until they are ready.
    fn begin(&mut self, state: &str) {
        (0..self.members.len()).for_each(|index| self.spawn(index, state));
        (0..self.members.len()).for_each(|index| self.wait(index));
    }

    /// Returns the members' client URLs.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| format!("{}://127.0.0.1:{}", self.scheme(), member.client)).collect()
    }

    /// Returns the TLS credentials for clients, if the cluster uses TLS.
    #[must_use]
    pub fn secured(&self) -> Option<&Secured> {
        self.secured.as_ref()
    }

    /// Returns a member's client port and peer port.
    #[must_use]
    pub fn ports(&self, index: usize) -> (u16, u16) {
        (self.members[index].client, self.members[index].raft)
    }

    /// Returns the process ids of the running members.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.members.iter().filter_map(|member| member.process.as_ref()).map(Process::id).collect()
    }

    /// Returns the process id of a running member.
    ///
    /// # Panics
    /// When the member is not running.
    #[must_use]
    pub fn id(&self, index: usize) -> u32 {
        self.members[index].process.as_ref().expect("it runs").id()
    }

    /// Waits until a member ends by itself; returns its log.
    ///
    /// # Panics
    /// When the member is not running, or does not end in time.
    pub fn wait_for_end(&mut self, index: usize) -> String {
        let mut process = self.members[index].process.take().expect("it runs");
        process.wait_for_end();
        process.said()
    }

    /// Ends a member with SIGKILL.
    ///
    /// # Panics
    /// When the member is not running.
    pub fn kill(&mut self, index: usize) {
        self.members[index].process.take().expect("it runs").kill();
    }

    /// Starts a killed member with its existing data and waits until the member is ready.
    ///
    /// # Panics
    /// When the member does not become ready.
    pub fn restart(&mut self, index: usize) {
        self.spawn(index, "existing");
        self.wait(index);
    }

    /// Ends all members and starts them from a snapshot file of `etcdctl snapshot save`, as operators do.
    ///
    /// # Panics
    /// When etcdutl fails, or the members do not become ready.
    pub fn restore(&mut self, file: &Path, flags: &[&str]) {
        let program = programs(&["etcdutl"]).expect("etcd was built").join("etcdutl");
        for index in 0..self.members.len() {
            self.kill(index);
            let folder = self.folder.path().join(format!("m{index}"));
            std::fs::remove_dir_all(&folder).expect("its folder");
            let mut command = Command::new(&program);
            command.args(["snapshot", "restore"]).arg(file).arg("--data-dir").arg(folder);
            command.args(["--name", &format!("m{index}"), "--initial-cluster", &self.peers()]);
            command.args(["--initial-advertise-peer-urls", &self.raft(index)]).args(flags);
            let output = command.output().expect("etcdutl starts");
            assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        self.begin("existing");
    }

    /// Sends a member a signal.
    ///
    /// # Panics
    /// When the member is not running.
    pub fn signal(&self, index: usize, signal: Signal) {
        self.members[index].process.as_ref().expect("it runs").signal(signal);
    }

    /// Runs etcdctl against one member and returns its output.
    ///
    /// # Panics
    /// When etcdctl fails.
    #[must_use]
    pub fn ctl(&self, index: usize, words: &[&str]) -> String {
        let program = programs(&["etcdctl"]).expect("etcd was built").join("etcdctl");
        let mut command = Command::new(program);
        command.arg("--endpoints").arg(&self.endpoints()[index]).args(words);
        // etcdctl's own limits are 5 s per command and 2 s per connection.
        let patience = format!("{}s", wait::STEP_TIMEOUT.as_secs());
        command.args(["--command-timeout", &patience, "--dial-timeout", &patience]);
        if self.secured.is_some() {
            for (flag, file) in [("--cacert", "ca.crt"), ("--cert", "client.crt"), ("--key", "client.key")] {
                command.arg(flag).arg(self.folder.path().join(file));
            }
        }
        let output = command.output().expect("etcdctl starts");
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "etcdctl {words:?}: {why}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Transfers the leadership to a member.
    ///
    /// # Panics
    /// When the transfer fails.
    pub fn lead(&self, index: usize) {
        let leader = self.leader();
        if leader != index {
            let id = self.status(index)["header"]["member_id"].as_u64().expect("an id");
            let _said = self.ctl(leader, &["move-leader", &format!("{id:x}")]);
        }
    }

    /// Returns the index of the leader, as the members report it.
    ///
    /// # Panics
    /// When no leader is elected in time.
    #[must_use]
    pub fn leader(&self) -> usize {
        wait::eventually("a leader", || {
            let leader = (0..self.members.len()).filter(|index| self.members[*index].process.is_some()).find(|index| {
                let status = self.status(*index);
                status["leader"] == status["header"]["member_id"]
            });
            leader.ok_or("none")
        })
    }

    /// Returns the status that a member reports.
    ///
    /// # Panics
    /// When the member does not answer.
    #[must_use]
    pub fn status(&self, index: usize) -> serde_json::Value {
        let mut said: serde_json::Value =
            serde_json::from_str(&self.ctl(index, &["endpoint", "status", "-w", "json"])).expect("JSON");
        said[0]["Status"].take()
    }

    fn scheme(&self) -> &'static str {
        if self.secured.is_some() { "https" } else { "http" }
    }

    fn peers(&self) -> String {
        let peers: Vec<String> = (0..self.members.len()).map(|n| format!("m{n}={}", self.raft(n))).collect();
        peers.join(",")
    }

    /// Returns the peer URL of a member. Go's HTTP client uses a proxy only for host names, and only TLS goes through it unchanged.
    fn raft(&self, index: usize) -> String {
        let member = &self.members[index];
        match member.proxy {
            Some(_) => format!("https://m{index}:{}", member.raft),
            None => format!("http://127.0.0.1:{}", member.raft),
        }
    }

    fn spawn(&mut self, index: usize, state: &str) {
        let (client, raft) = (&self.endpoints()[index], self.raft(index));
        let folder = self.folder.path();
        let mut command = Command::new(&self.program);
        command.arg("--name").arg(format!("m{index}")).arg("--data-dir").arg(folder.join(format!("m{index}")));
        command.args(["--listen-client-urls", client, "--advertise-client-urls", client]);
        let listen = match self.members[index].proxy {
            Some(proxy) => {
                command.env("HTTPS_PROXY", format!("http://{proxy}")).env("NO_PROXY", "").arg("--peer-auto-tls");
                format!("https://127.0.0.1:{}", self.members[index].raft)
            }
            None => raft.clone(),
        };
        command.args(["--listen-peer-urls", &listen, "--initial-advertise-peer-urls", &raft]);
        command.args(["--initial-cluster", &self.peers(), "--initial-cluster-state", state]);
        if self.secured.is_some() {
            for (flag, file) in
                [("--cert-file", "server.crt"), ("--key-file", "server.key"), ("--trusted-ca-file", "ca.crt")]
            {
                command.arg(flag).arg(folder.join(file));
            }
            command.arg("--client-cert-auth");
        }
        command.args(&self.flags);
        self.members[index].process = Some(Process::start(command, &format!("etcd {index}")));
    }

    fn wait(&self, index: usize) {
        let process = self.members[index].process.as_ref().expect("it runs");
        wait::eventually("etcd serves", || {
            let said = process.said();
            if said.contains(READY_MESSAGE) { Ok(()) } else { Err(crate::process::tail(&said)) }
        });
    }
}

/// Writes an authority, a server certificate and a client certificate to the folder.
fn certificates(folder: &TempDir) -> Secured {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or(Duration::ZERO);
    let now = UnixTime::since_unix_epoch(now);
    let authority = Authority::create("etcd-ca", now).expect("an authority");
    let local = vec![San::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST))];
    let server = authority.issue(&Leaf::server(Subject::named("etcd"), local), now).expect("a certificate");
    let client = authority.issue(&Leaf::client(Subject::named("oarlock")), now).expect("a certificate");
    let secured = Secured {
        authority: authority.certificate_pem(),
        certificate: client.certificate_pem(),
        key: client.key.to_pem(),
    };
    let files = [
        ("ca.crt", secured.authority.clone()),
        ("server.crt", server.certificate_pem()),
        ("server.key", server.key.to_pem()),
        ("client.crt", secured.certificate.clone()),
        ("client.key", secured.key.clone()),
    ];
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    secured
}
