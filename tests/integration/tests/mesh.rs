//! The bus between real processes: credentials made by `oarlock keys`, a real nats-server over TLS, and the output of `oarlock inspect mesh`.

mod attack;
mod kinds;
mod policies;

use std::process::{Command, Output};

use oarlock_testkit::nats::Nats;
use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Process, Signal, oarlock, port};
use tempfile::TempDir;

pub(crate) struct Ground {
    folder: TempDir,
    pub(crate) nats: Nats,
}

impl Ground {
    /// Keys, and a server with the configuration that came with them; `None`, and a loud word, where it cannot be built.
    pub(crate) fn start() -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("oarlock-mesh-").tempdir().unwrap();
        let mut keys = Command::new(oarlock());
        keys.arg("keys").arg("--data-dir").arg(folder.path());
        keys.args(["--nats-node", "n1", "--nats-tls-san", "127.0.0.1"]);
        assert!(keys.status().unwrap().success());
        let configuration = std::fs::read_to_string(folder.path().join("nats/nats.conf")).unwrap();
        match Nats::start(&configuration) {
            Ok(nats) => Some(Self { folder, nats }),
            Err(why) => {
                oarlock_testkit::skipped!("{why}: the bus between processes was not tried");
                None
            }
        }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// A part that joins the bus with these credentials.
    pub(crate) fn command(&self, words: &[&str], credentials: &str) -> Command {
        let mut command = oarlock_testkit::part(words[0]);
        self.join(command.args(&words[1..]), credentials);
        command
    }

    /// Flags for the bus with these credentials.
    pub(crate) fn join(&self, command: &mut Command, credentials: &str) {
        command.args(["--nats-servers", &self.nats.url(), "--nats-credentials", &self.path(credentials)]);
        command.args(["--nats-ca", &self.path("nats/ca.crt")]);
    }

    /// The actors that `kubectl get actors` shows, once it shows these: each a part of the process's name, the actor's kind, and how it is.
    fn crew(&self, config: &str, wanted: &[(&str, &str, &str)]) {
        eventually("everybody's actors are listed", || {
            let columns = "-o=custom-columns=P:.status.process,K:.status.actorKind,L:.status.life";
            let words = ["--kubeconfig", config, "get", "actors", "--no-headers", columns];
            let output = Command::new("kubectl").args(words).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
            let is_there = |(process, kind, life): &(&str, &str, &str)| {
                rows.iter().any(|row| row[0].contains(process) && row[1..] == [*kind, *life])
            };
            let why = || format!("{text}{}", String::from_utf8_lossy(&output.stderr));
            if wanted.iter().all(is_there) { Ok(()) } else { Err(why()) }
        });
    }

    /// An API server on the bus, which is ready.
    pub(crate) fn api_server(&self) -> Process {
        // A server with a store in memory would create its own authorities, which no node trusts.
        let (data, store, at) = (self.path(""), format!("embedded:{}", self.path("store")), port::own().to_string());
        let words = ["apiserver", "--store", &store, "--data-dir", &data, "--secure-port", &at];
        let server = Process::start(self.command(&words, "nats/api-server.seed"), "apiserver");
        eventually("the API server is ready", || {
            let output = self.probe();
            if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
        });
        server
    }

    fn probe(&self) -> Output {
        Command::new(oarlock()).args(["probe", "--kubeconfig", &self.path("kubeconfig")]).output().unwrap()
    }

    fn inspect(&self, credentials: &str) -> Output {
        self.command(&["inspect", "mesh"], credentials).output().unwrap()
    }

    /// Waits until the table shows these roles, and returns the table.
    fn told(&self, wanted: &[(&str, bool)]) -> String {
        eventually("everybody is in the table", || {
            let output = self.inspect("nats/inspector.seed");
            let text = String::from_utf8(output.stdout).unwrap();
            let line =
                |role: &str| text.lines().find(|line| line.starts_with(role)).map(|line| line.contains("no answer"));
            let all = wanted.iter().all(|(role, answers)| line(role) == Some(!answers));
            if all { Ok(text) } else { Err(format!("{text}{}", String::from_utf8_lossy(&output.stderr))) }
        })
    }
}

#[test]
fn every_part_is_on_the_bus_and_works_on_when_it_is_away() {
    let Some(mut ground) = Ground::start() else { return };
    let _server = ground.api_server();
    let (data, config) = (ground.path(""), ground.path("kubeconfig"));
    let part = |name: &str, more: &[&str], credentials: &str| {
        let config = ground.path(&format!("{name}.kubeconfig"));
        let words = [&[name, "--kubeconfig", &config], more].concat();
        Process::start(ground.command(&words, credentials), name)
    };
    let scheduler = part("scheduler", &[], "nats/scheduler.seed");
    let _controllers = part("controller-manager", &[], "nats/controllers.seed");
    // Each node uses its own credential from the folder.
    let node = ["--runtime", "sim", "--node-name", "n1", "--data-dir", &data];
    let _node = part("kubelet", &node, "nats");

    let everybody = [("api-server", true), ("scheduler", true), ("controllers", true), ("node", true)];
    let text = ground.told(&everybody);
    assert!(text.lines().next().unwrap().contains("ASK P99") && text.contains("presence"), "{text}");
    assert!(!text.contains("inspector"), "{text}");

    let others = [
        ("apiserver", "store.committer", "Running"),
        ("controllers", "placement.member", "Running"),
        ("n1", "mesh.presence", "Running"),
    ];
    ground.crew(&config, &[&others[..], &[("scheduler", "placement.member", "Running")]].concat());

    scheduler.signal(Signal::STOP);
    ground.crew(&config, &[&others[..], &[("scheduler", "<none>", "Unknown")]].concat());
    ground.told(&[("api-server", true), ("scheduler", false), ("controllers", true), ("node", true)]);
    scheduler.signal(Signal::CONT);
    ground.told(&everybody);

    let output = ground.inspect("nats/scheduler.seed");
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && why.contains("does not know the credentials"), "{why}");

    ground.nats.stop();
    let why = String::from_utf8(ground.inspect("nats/inspector.seed").stderr).unwrap();
    assert!(why.contains("no server is there"), "{why}");
    assert!(ground.probe().status.success(), "nobody needs the bus to live");
    ground.nats.restart();
    ground.told(&everybody);
}
