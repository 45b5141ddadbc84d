use bytes::Bytes;
use futures::future::join;
use oarlock_client::decode;
use oarlock_runtime::Universe;
use oarlock_schema::type_of_kind;
use oarlock_testkit::wait::STEP_TIMEOUT;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::cri::{self, ExecOutput};
use crate::downward;

#[derive(Debug, Default)]
struct Shell {
    code: i32,
    hangs: bool,
    ran: Mutex<Vec<String>>,
}

#[async_trait::async_trait]
impl Exec for Shell {
    async fn run_in(&self, id: &str, command: &[Str], _: Duration) -> cri::Result<ExecOutput> {
        self.ran.lock().push(format!("{id}: {}", command.join(" ")));
        if self.hangs {
            std::future::pending::<()>().await;
        }
        let out = |text: &'static str| Bytes::from_static(text.as_bytes());
        Ok(ExecOutput { stdout: out("out"), stderr: out("err"), exit_code: self.code })
    }
}

fn hooks(lifecycle: &Value) -> Hooks {
    let pod = json!({"spec": {"containers": [{"name": "main", "lifecycle": lifecycle,
        "ports": [{"name": "web", "containerPort": 8080}]}]}});
    let pod = decode(type_of_kind("", "v1", "Pod").unwrap(), pod.to_string().as_bytes()).unwrap();
    Hooks::of(downward::pod(&pod).spec().containers().get(0).unwrap())
}

/// Returns the outcome of a hook, with the text of its error.
async fn outcome(hook: &Hook, target: &HookTarget, limit: Duration, shell: &Shell) -> Result<HookWarning, String> {
    run(hook, target, limit, shell).await.map_err(|error| error.to_string())
}

fn target() -> HookTarget {
    let ip = Some("127.0.0.1".parse().unwrap());
    HookTarget { id: "c1".into(), container: "main".into(), pod: "web_shop(u1)".to_owned(), ip }
}

const LIMIT: Duration = Duration::from_secs(10);

fn sweep<F: Future<Output = ()>>(test: impl Fn() -> F) {
    Universe::sweep(0..1, test);
}

#[test]
fn a_container_has_the_hooks_that_its_spec_says() {
    let read = hooks(&json!({
        "postStart": {"exec": {"command": ["sh", "-c", "true"]}},
        "preStop": {"sleep": {"seconds": 5}},
    }));
    assert_eq!(read.post_start, Some(Hook::Exec(["sh", "-c", "true"].map(Str::from).to_vec())));
    assert_eq!(read.pre_stop, Some(Hook::Sleep(5)));
    let read = hooks(&json!({"postStart": {"httpGet": {"port": "web"}}, "preStop": {"tcpSocket": {"port": 1}}}));
    assert!(matches!(read.post_start, Some(Hook::Http(get)) if get.port == Ok(8080)));
    assert_eq!(read.pre_stop, Some(Hook::Invalid));
    assert_eq!(hooks(&Value::Null), Hooks::default());
}

#[test]
fn a_command_that_fails_is_told_with_what_it_wrote() {
    sweep(|| async {
        let hook = Hook::Exec(["sh", "-c"].map(Str::from).to_vec());
        let good = Shell::default();
        assert_eq!(outcome(&hook, &target(), LIMIT, &good).await, Ok(None));
        assert_eq!(*good.ran.lock(), ["c1: sh -c"]);
        let bad = Shell { code: 3, ..Shell::default() };
        let why = "Exec lifecycle hook ([sh -c]) for Container \"main\" in Pod \"web_shop(u1)\" failed - error: \
            command 'sh -c' exited with 3: err, message: \"outerr\"";
        assert_eq!(outcome(&hook, &target(), LIMIT, &bad).await, Err(why.to_owned()));
        let stuck = Shell { hangs: true, ..Shell::default() };
        let began = clock::now();
        assert!(outcome(&hook, &target(), LIMIT, &stuck).await.unwrap_err().contains("not completed in 10 s"));
        assert_eq!(began.elapsed(), LIMIT);
    });
}

#[test]
fn a_sleep_takes_as_long_as_it_says_unless_the_container_has_to_end() {
    sweep(|| async {
        let began = clock::now();
        assert_eq!(outcome(&Hook::Sleep(5), &target(), LIMIT, &Shell::default()).await, Ok(None));
        assert_eq!(began.elapsed(), Duration::from_secs(5));
        let why = "Sleep lifecycle hook (60) for Container \"main\" in Pod \"web_shop(u1)\" failed - error: container \
            terminated before sleep hook finished";
        assert_eq!(outcome(&Hook::Sleep(60), &target(), LIMIT, &Shell::default()).await, Err(why.to_owned()));
        assert_eq!(began.elapsed(), Duration::from_secs(15));
        assert!(outcome(&Hook::Invalid, &target(), LIMIT, &Shell::default()).await.is_err());
    });
}

fn get(port: u16, scheme: &str) -> Hook {
    let read = hooks(&json!({"postStart": {"httpGet": {"port": port, "scheme": scheme, "path": "/hook",
        "httpHeaders": [{"name": "Authorization", "value": "secret"}]}}}));
    read.post_start.unwrap()
}

#[tokio::test]
async fn any_answer_satisfies_a_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 1024];
        let read = stream.read(&mut request).await.unwrap();
        stream.write_all(b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        String::from_utf8_lossy(&request[..read]).into_owned()
    };
    let (hook, shell, target) = (get(port, "HTTP"), Shell::default(), target());
    let (done, asked) = join(outcome(&hook, &target, STEP_TIMEOUT, &shell), server).await;
    assert_eq!(done, Ok(None));
    assert!(
        asked.starts_with("GET /hook HTTP/1.1\r\n") && asked.contains("User-Agent: kube-lifecycle/1.35\r\n"),
        "{asked}"
    );
    drop(listener);
    let why = format!(
        "HTTP lifecycle hook (/hook) for Container \"main\" in Pod \"web_shop(u1)\" failed - error: Get \
         \"http://127.0.0.1:{port}/hook\": dial tcp 127.0.0.1:{port}: connect: connection refused"
    );
    assert_eq!(outcome(&hook, &target, STEP_TIMEOUT, &shell).await, Err(why));
}

#[tokio::test]
async fn a_server_without_tls_is_asked_again_without_it_and_without_credentials() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = async {
        let mut request = vec![0; 1024];
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(stream.read(&mut request).await.unwrap() > 0);
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        let (mut next, _) = listener.accept().await.unwrap();
        let read = next.read(&mut request).await.unwrap();
        next.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        String::from_utf8_lossy(&request[..read]).into_owned()
    };
    let (hook, shell, target) = (get(port, "HTTPS"), Shell::default(), target());
    let (done, asked) = join(outcome(&hook, &target, STEP_TIMEOUT, &shell), server).await;
    let text = format!("request to HTTPS lifecycle hook 127.0.0.1:{port} got HTTP response, retry with HTTP succeeded");
    assert_eq!(done, Ok(Some(("LifecycleHTTPFallback", text))));
    assert!(asked.starts_with("GET /hook HTTP/1.1") && !asked.contains("secret"), "{asked}");
}
