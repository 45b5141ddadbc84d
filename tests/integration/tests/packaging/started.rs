//! The control plane as systemd runs it: the unit's own command, with only folders and port replaced, and the messages for the service manager.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use oarlock_config::Kubeconfig;
use oarlock_testkit::http::{Http, Who};
use oarlock_testkit::wait::STEP_TIMEOUT;
use oarlock_testkit::{Kubectl, Process, Signal, oarlock, port};
use tempfile::TempDir;

use super::unit::Unit;

/// What systemd is to a unit: a socket that takes messages, and whoever starts the command.
struct Manager {
    folder: TempDir,
    socket: UnixDatagram,
    port: String,
}

impl Manager {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(STEP_TIMEOUT)).unwrap();
        Self { folder, socket, port: port::own().to_string() }
    }

    fn state(&self) -> std::path::PathBuf {
        self.folder.path().join("state")
    }

    /// Starts a command line of a unit in the folder of its state.
    fn start(&self, words: &[String], name: &str) -> Process {
        let mut command = Command::new(oarlock());
        command.args(words).env("NOTIFY_SOCKET", self.folder.path().join("notify"));
        Process::start(command, name)
    }

    /// Starts the unit of the control plane.
    fn start_control_plane(&self) -> Process {
        let unit = Unit::named("oarlock-control-plane");
        let folder = format!("/var/lib/{}", unit.value("StateDirectory").unwrap());
        let words = unit.command().into_iter().skip(1).map(|word| match word.as_str() {
            word if word == folder => self.state().display().to_string(),
            "6443" => self.port.clone(),
            word => word.to_owned(),
        });
        self.start(&words.collect::<Vec<_>>(), &unit.name)
    }

    /// Returns the next message.
    fn message(&self) -> String {
        let mut bytes = [0; 4096];
        let length = self.socket.recv(&mut bytes).expect("a message for the service manager");
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    /// Waits until a process reports that it is ready, and checks that it serves at this moment.
    fn ready(&self, kubeconfig: &Path) {
        assert_eq!(self.message(), "READY=1\n");
        let endpoint = Kubeconfig::read(kubeconfig).and_then(|found| found.resolve(None)).expect("keys");
        let answer = Http::new(&endpoint, Who::Anonymous).try_get("/readyz").expect("the server listens");
        assert_eq!(answer.code, 200, "{answer}");
    }

    /// Ends a process with SIGTERM, as systemd stops a unit.
    fn stop(&self, mut process: Process) {
        process.signal(Signal::TERM);
        let message = self.message();
        let longest = message.strip_prefix("STOPPING=1\nEXTEND_TIMEOUT_USEC=").expect(&message);
        let longest = Duration::from_micros(longest.trim_end().parse().unwrap());
        assert!(longest > Duration::from_secs(10), "{longest:?}");
        assert_eq!(process.wait_for_end(), Some(0));
    }
}

#[test]
fn a_control_plane_is_started_when_it_serves_and_keeps_its_state_through_a_kill() {
    let manager = Manager::new();
    let kubeconfig = manager.state().join("kubeconfig");
    let mut process = manager.start_control_plane();
    manager.ready(&kubeconfig);
    let kubectl = Kubectl::new(&kubeconfig);
    kubectl.ok("create configmap kept --from-literal=k=v");
    process.kill();
    let process = manager.start_control_plane();
    manager.ready(&kubeconfig);
    kubectl.run("get configmap kept -o jsonpath={.data.k}").ok().is("v");
    manager.stop(process);
}

#[test]
fn an_api_server_of_its_own_is_started_when_it_serves() {
    let manager = Manager::new();
    let state = manager.state().display().to_string();
    let store = format!("embedded:{state}/store");
    let words = ["apiserver", "--data-dir", &state, "--store", &store, "--secure-port", &manager.port];
    let process = manager.start(&words.map(str::to_owned), "apiserver");
    manager.ready(&manager.state().join("kubeconfig"));
    manager.stop(process);
}
