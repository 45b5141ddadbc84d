//! exec, attach, cp, port-forward and logs of real containers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use oarlock_testkit::Kubectl;

use super::machine::Machine;
use super::{pod, ready, settled, until};

/// kubectl's two ways: WebSocket and SPDY.
fn both_ways(kubectl: &Kubectl) -> [Kubectl; 2] {
    let spdy = kubectl.with_env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false");
    [kubectl.clone(), spdy.with_env("KUBECTL_PORT_FORWARD_WEBSOCKETS", "false")]
}

#[test]
fn users_reach_into_containers() {
    let Some(machine) = Machine::start() else { return };
    let cluster = machine.cluster();
    let kubectl = settled(&cluster);
    let web = "echo hello > /www/name; trap 'exit 0' TERM; httpd -f -p 8080 -h /www & wait";
    kubectl.run_with("apply -f -", &pod("web", web, "", "")).says(["created"]);
    let talks = "while read line; do echo said $line; done";
    kubectl.run_with("apply -f -", &pod("talks", talks, "    stdin: true", "")).says(["created"]);
    until(&kubectl, "web", ready);
    until(&kubectl, "talks", ready);
    for kubectl in both_ways(&kubectl) {
        kubectl.run("exec web -- hostname").is("web");
        let ran = kubectl.run("exec web -- sh -c 'echo out; echo err >&2; exit 3'");
        assert_eq!((ran.code, ran.out.as_str()), (3, "out\n"), "{ran}");
        assert!(ran.err.starts_with("err\n"), "{ran}");
        let input = "a line\n".repeat(40_000);
        kubectl.run_with("exec -i web -- wc -l", &input).is("40000");
        let ran = kubectl.run("exec web -- head -c 5000000 /dev/zero");
        assert_eq!(ran.out.len(), 5_000_000);
        terminal(&kubectl);
        attaches(&kubectl);
        copies(&kubectl);
        forwards(&kubectl);
    }
    kubectl.run("exec web -- /no/such/program").fails("no such file or directory");
    kubectl.ok("delete pod --all --wait");
    machine.until_clean();
}

/// A shell at a terminal that knows its size.
fn terminal(kubectl: &Kubectl) {
    let program = oarlock_testkit::kubectl();
    let line = format!("stty rows 33 cols 77; {} exec -it web -- sh", program.display());
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    kubectl.configure(&mut script);
    let mut child = script.spawn().expect("script(1), of util-linux or bsdutils");
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut said = String::new();
    let mut until = |text: &str| {
        let mut byte = [0];
        while !said.contains(text) {
            assert_eq!(stdout.read(&mut byte).unwrap(), 1, "it ended: {said}");
            said.push(byte[0].into());
        }
    };
    until("# ");
    // The terminal's size is sent while the shell starts, so the shell may see the size a moment later.
    stdin.write_all(b"until stty size | grep '33 77'; do sleep 0.1; done; tty && echo $((6*7))\r").unwrap();
    until("/dev/pts/");
    until("42");
    stdin.write_all(b"exit 5\r").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

/// The container's own process: with the end of what is typed the runtime ends the connection, so that stays open.
fn attaches(kubectl: &Kubectl) {
    let mut child = kubectl.spawn("attach -i talks");
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"word\n").unwrap();
    let (mut said, mut byte) = (String::new(), [0]);
    let mut stdout = child.stdout.take().unwrap();
    while !said.contains("said word\n") {
        assert_eq!(stdout.read(&mut byte).unwrap(), 1, "it ended: {said}");
        said.push(byte[0].into());
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

fn copies(kubectl: &Kubectl) {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let content = "x".repeat(3_000_000);
    std::fs::write(path("there"), &content).unwrap();
    kubectl.ok(&format!("cp {} web:/tmp/here", path("there")));
    kubectl.ok(&format!("cp web:/tmp/here {}", path("back")));
    assert!(std::fs::read_to_string(path("back")).unwrap() == content, "it came back changed");
}

fn forwards(kubectl: &Kubectl) {
    let following = kubectl.follow("port-forward pod/web :8080");
    let said = following.until("an address", |out| out.contains("Forwarding from 127.0.0.1"));
    let at = said.split(" -> ").next().unwrap().rsplit("from ").next().unwrap();
    let at: SocketAddr = at.parse().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(move || {
                let mut stream = TcpStream::connect(at).unwrap();
                stream.write_all(b"GET /name HTTP/1.0\r\n\r\n").unwrap();
                let mut text = String::new();
                stream.read_to_string(&mut text).unwrap();
                assert!(text.ends_with("hello\n"), "{text}");
            });
        }
    });
}
