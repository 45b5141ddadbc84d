//! A real etcd cluster on the loopback address.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use oarlock_pki::{Authority, Leaf, San, Subject, UnixTime};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::{Process, port, programs, wait};

/// What a member says when it takes requests.
const READY: &str = "ready to serve client requests";

/// The clients' side of a cluster with TLS, PEM.
#[derive(Clone, Debug)]
pub struct Secured {
    /// Who signed the members' certificates.
    pub authority: String,
    /// A client's certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

#[derive(Debug)]
struct Member {
    client: u16,
    raft: u16,
    process: Option<Process>,
}

/// Some members of one cluster; they end with this value.
#[derive(Debug)]
pub struct Etcd {
    program: PathBuf,
    folder: TempDir,
    members: Vec<Member>,
    secured: Option<Secured>,
    flags: Vec<String>,
}

impl Etcd {
    /// Starts so many members of upstream's current release and waits until they serve.
    ///
    /// # Errors
    /// Why it cannot be built here.
    pub fn start(count: usize) -> Result<Self, String> {
        Self::of("etcd", count, false, &[])
    }

    /// Starts members of a program that `cargo xtask peer build` knows, with TLS or without, and with further flags.
    ///
    /// # Errors
    /// Why it cannot be built here.
    ///
    /// # Panics
    /// When it does not serve.
    pub fn of(program: &str, count: usize, secured: bool, flags: &[&str]) -> Result<Self, String> {
        let program = programs(&[program])?.join(program);
        Ok(Self::from_program(program, count, secured, flags))
    }

    /// As [`Etcd::of`], of any executable.
    ///
    /// # Panics
    /// When it does not serve.
    #[must_use]
    pub fn from_program(program: PathBuf, count: usize, secured: bool, flags: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("oarlock-etcd-").tempdir().expect("a temporary directory");
        let members = (0..count).map(|_| Member { client: port::own(), raft: port::own(), process: None }).collect();
        let secured = secured.then(|| certificates(&folder));
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut etcd = Self { program, folder, members, secured, flags };
        for index in 0..count {
            etcd.spawn(index, "new");
        }
        for index in 0..count {
            etcd.wait(index);
        }
        etcd
    }

    /// The members' client URLs.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| format!("{}://127.0.0.1:{}", self.scheme(), member.client)).collect()
    }

    /// What clients need for TLS.
    #[must_use]
    pub fn secured(&self) -> Option<&Secured> {
        self.secured.as_ref()
    }

    /// The client port of a member, and its port for the others.
    #[must_use]
    pub fn ports(&self, index: usize) -> (u16, u16) {
        (self.members[index].client, self.members[index].raft)
    }

    /// The ids of the members that run.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.members.iter().filter_map(|member| member.process.as_ref()).map(Process::id).collect()
    }

    /// Ends a member with SIGKILL.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&mut self, index: usize) {
        self.members[index].process.take().expect("it runs").kill();
    }

    /// Starts a member that was killed, with what it had on its disk, and waits until it serves.
    ///
    /// # Panics
    /// When it does not serve.
    pub fn restart(&mut self, index: usize) {
        self.spawn(index, "existing");
        self.wait(index);
    }

    /// Ends all members and begins them anew with what `etcdctl snapshot save` has put into a file, as operators do.
    ///
    /// # Panics
    /// When etcdutl fails, or they do not serve.
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
        (0..self.members.len()).for_each(|index| self.spawn(index, "existing"));
        (0..self.members.len()).for_each(|index| self.wait(index));
    }

    /// Sends a member a signal.
    ///
    /// # Panics
    /// When it does not run.
    pub fn signal(&self, index: usize, signal: Signal) {
        self.members[index].process.as_ref().expect("it runs").signal(signal);
    }

    /// What etcdctl says at one member.
    ///
    /// # Panics
    /// When it fails.
    #[must_use]
    pub fn ctl(&self, index: usize, words: &[&str]) -> String {
        let program = programs(&["etcdctl"]).expect("etcd was built").join("etcdctl");
        let mut command = Command::new(program);
        command.arg("--endpoints").arg(&self.endpoints()[index]).args(words);
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

    /// The index of the leader, as the members tell.
    ///
    /// # Panics
    /// When there is none for long.
    #[must_use]
    pub fn leader(&self) -> usize {
        wait::eventually("a leader", || {
            let leader = (0..self.members.len()).filter(|index| self.members[*index].process.is_some()).find(|index| {
                let status: serde_json::Value =
                    serde_json::from_str(&self.ctl(*index, &["endpoint", "status", "-w", "json"])).expect("JSON");
                let status = &status[0]["Status"];
                status["leader"] == status["header"]["member_id"]
            });
            leader.ok_or("none")
        })
    }

    fn scheme(&self) -> &'static str {
        if self.secured.is_some() { "https" } else { "http" }
    }

    fn peers(&self) -> String {
        let peers: Vec<String> = (0..self.members.len()).map(|n| format!("m{n}={}", self.raft(n))).collect();
        peers.join(",")
    }

    fn raft(&self, index: usize) -> String {
        format!("http://127.0.0.1:{}", self.members[index].raft)
    }

    fn spawn(&mut self, index: usize, state: &str) {
        let (client, raft) = (&self.endpoints()[index], self.raft(index));
        let folder = self.folder.path();
        let mut command = Command::new(&self.program);
        command.arg("--name").arg(format!("m{index}")).arg("--data-dir").arg(folder.join(format!("m{index}")));
        command.args(["--listen-client-urls", client, "--advertise-client-urls", client]);
        command.args(["--listen-peer-urls", &raft, "--initial-advertise-peer-urls", &raft]);
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
            if said.contains(READY) { Ok(()) } else { Err(crate::process::tail(&said)) }
        });
    }
}

/// An authority, a server's and a client's certificate, in the folder.
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
