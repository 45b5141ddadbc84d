//! exec, attach, cp and logs with kubectl.

use std::process::{Command, Stdio};

use oarlock_testkit::{Kubectl, kubectl as program};

use super::Streams;

/// The protocols of kubectl: WebSocket, which the API server translates, and SPDY, which the server forwards.
fn both_ways(kubectl: &Kubectl) -> [Kubectl; 2] {
    [kubectl.clone(), kubectl.with_env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false")]
}

fn sha256sum(input: &str) -> String {
    use std::io::Write as _;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(input.as_bytes()).unwrap();
    let ran = Command::new("sha256sum").stdin(file.reopen().unwrap()).output().unwrap();
    String::from_utf8(ran.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn commands_run_with_their_streams_and_exit_codes() {
    let streams = Streams::start().await;
    streams
        .kubectl(|kubectl| {
            for kubectl in both_ways(&kubectl) {
                kubectl.run("exec web -- echo hello").is("hello");
                let ran = kubectl.run("exec web -c main -- sh -c 'echo out; echo err >&2; exit 3'");
                assert_eq!((ran.code, ran.out.as_str()), (3, "out\n"), "{ran}");
                assert!(ran.err.starts_with("err\n") && ran.err.contains("exit code 3"), "{ran}");
                // The command ends only when it has read the end of its input.
                let input = "a line\n".repeat(40_000);
                let ran = kubectl.run_with("exec -i web -- sha256sum", &input);
                assert_eq!(ran.ok().out, sha256sum(&input));
                // The output is much larger than any buffer on the way.
                let ran = kubectl.run("exec web -- head -c 30000000 /dev/zero").ok();
                assert_eq!(ran.out.len(), 30_000_000);
                // The command ends without reading its input.
                kubectl.run_with("exec -i web -- true", &input).is("");
            }
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_cannot_run_is_refused_in_upstreams_words() {
    let streams = Streams::start().await;
    streams
        .kubectl(|kubectl| {
            kubectl.run("exec nobody -- true").fails("pods \"nobody\" not found");
            kubectl.run("exec web -c side -- true").fails("container side is not valid for pod web");
            let ran = kubectl.run("exec web -- /no/such/program");
            assert!(ran.code != 0 && ran.err.contains("No such file or directory"), "{ran}");
            kubectl
                .run("get --raw /api/v1/namespaces/default/pods/web/exec?command=true&stdout=1")
                .fails("Upgrade request required");
            let waits = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "waits"},
                "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "x"}]}}"#;
            kubectl.run_with("create -f -", waits).says(["created"]);
            kubectl.run("exec waits -- true").fails("pod waits does not have a host assigned");
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_terminal_is_told_its_size() {
    let streams = Streams::start().await;
    streams
        .kubectl(|kubectl| {
            for kubectl in both_ways(&kubectl) {
                let line = format!("stty rows 33 cols 77; {} exec -it web -- any", program().display());
                let mut script = Command::new("script");
                script.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
                kubectl.configure(&mut script);
                let mut child = script.spawn().expect("script(1), of util-linux or bsdutils");
                let mut stdin = child.stdin.take().unwrap();
                let mut said = String::new();
                let mut stdout = child.stdout.take().unwrap();
                let mut until = |text: &str| {
                    use std::io::Read as _;
                    let mut byte = [0];
                    while !said.contains(text) {
                        assert_eq!(stdout.read(&mut byte).unwrap(), 1, "it ended: {said}");
                        said.push(byte[0].into());
                    }
                };
                use std::io::Write as _;
                until("ready");
                until("size 77x33");
                stdin.write_all(b"loud\r").unwrap();
                until("LOUD");
                stdin.write_all(b"exit\r").unwrap();
                assert!(child.wait().unwrap().success());
            }
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_can_attach_and_copy() {
    let streams = Streams::start().await;
    streams
        .kubectl(|kubectl| {
            for kubectl in both_ways(&kubectl) {
                let ran = kubectl.run_with("attach -i web", "typed\n");
                assert!(ran.out.contains("attached\ntyped\n"), "{ran}");
                let dir = tempfile::tempdir().unwrap();
                let path = |name: &str| dir.path().join(name).display().to_string();
                let content = "x".repeat(3_000_000);
                std::fs::write(path("there"), &content).unwrap();
                kubectl.ok(&format!("cp web:{} {}", path("there"), path("here")));
                assert_eq!(std::fs::read_to_string(path("here")).unwrap(), content);
                kubectl.ok(&format!("cp {} web:{}", path("here"), path("back")));
                assert_eq!(std::fs::read_to_string(path("back")).unwrap(), content);
            }
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn logs_come_over_https() {
    let streams = Streams::start().await;
    streams
        .kubectl(|kubectl| {
            kubectl.run("logs web").is("main: line 1\nmain: line 2\nmain: line 3\nmain: line 4\nmain: line 5");
            kubectl.run("logs web --tail=1").is("main: line 5");
            kubectl.run("logs web --limit-bytes=4").is("main");
            kubectl.run("logs web --since-time=2099-01-01T00:00:00+02:00").is("");
            kubectl.run("logs web --previous").fails("previous terminated container \"main\" in pod \"web\" not found");
            let following = kubectl.follow("logs -f web");
            following.until("five lines", |out| out.lines().count() == 5);
        })
        .await;
}
