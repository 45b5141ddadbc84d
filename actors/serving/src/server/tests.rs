use std::time::Duration;

use async_trait::async_trait;
use oarlock_client::{
    Call, Client, ListOptions, Object, RawReply, RawRequest, Reply, Request, Transport, WatchStream, decode,
};
use oarlock_meta::{Revision, Status};
use oarlock_pki::{Authority, ClientTrust, Leaf, Subject, UnixTime};
use oarlock_runtime::{Options, clock};
use oarlock_schema::Resource;
use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::listener::connection;

/// An API server that accepts one token, and allows one user one path.
#[derive(Default)]
struct Reviewer {
    asked: Mutex<Vec<String>>,
}

const TOKEN: &str = "of-prometheus";
const USER: &str = "system:serviceaccount:monitoring:prometheus";

#[async_trait]
impl Transport for Reviewer {
    async fn call(&self, request: Request) -> Result<Reply, Status> {
        let Call::Create(review, _) = request.call else { return Err(Status::internal_error("only reviews")) };
        let text = |path: &[&str]| review.at(path).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
        let status = match request.resource.plural {
            "tokenreviews" => {
                self.asked.lock().push(format!("whose is {}", text(&["spec", "token"])));
                json!({"authenticated": text(&["spec", "token"]) == TOKEN, "user": {"username": USER}})
            }
            _ => {
                let (user, path) = (text(&["spec", "user"]), text(&["spec", "nonResourceAttributes", "path"]));
                let verb = text(&["spec", "nonResourceAttributes", "verb"]);
                self.asked.lock().push(format!("may {user} {verb} {path}"));
                json!({"allowed": user == USER && path == "/metrics"})
            }
        };
        let answer = decode(request.resource.ty, json!({"status": status}).to_string().as_bytes())?;
        let object = Object::new(answer.ty(), oarlock_client::encode(&answer), Revision(1));
        Ok(Reply::Object { object, created: true })
    }

    async fn watch(&self, _: &'static Resource, _: &str, _: ListOptions) -> Result<WatchStream, Status> {
        Err(Status::internal_error("only reviews"))
    }

    async fn raw(&self, _: RawRequest) -> Result<RawReply, Status> {
        Err(Status::internal_error("only reviews"))
    }
}

struct Scene {
    system: System,
    reviewer: Arc<Reviewer>,
    server: Server,
}

impl Scene {
    async fn new(access: Access, own: Vec<Check>) -> Self {
        let system = System::start(Options { watchdog: None, ..Options::default() }).await.unwrap();
        let reviewer = Arc::<Reviewer>::default();
        let client = Some(Client::new(reviewer.clone()));
        let open = vec!["/livez".to_owned(), "/readyz*".to_owned()];
        let server = Server::new(&system, access, client, open, (Vec::new(), own));
        Self { system, reviewer, server }
    }

    async fn plain() -> Self {
        Self::new(Access::new(None), Vec::new()).await
    }

    /// Sends a request with this first line and these headers; returns the answer's code and body.
    async fn send(&self, chain: &Chain, head: &str) -> (u16, String) {
        let (mut near, far) = tokio::io::duplex(64 << 10);
        let served = connection(self.server.clone(), CancellationToken::new(), far, chain.clone());
        let told = async {
            let request = format!("{}\r\nHost: here\r\nConnection: close\r\n\r\n", head.replace('\n', "\r\n"));
            near.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            near.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let ((), answer) = clock::timeout(Duration::from_secs(30), async { tokio::join!(served, told) }).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    async fn get(&self, path: &str) -> (u16, String) {
        self.send(&Chain::default(), &format!("GET {path} HTTP/1.1")).await
    }

    async fn bearing(&self, token: &str, path: &str) -> u16 {
        self.send(&Chain::default(), &format!("GET {path} HTTP/1.1\nAuthorization: Bearer {token}")).await.0
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.reviewer.asked.lock())
    }
}

#[tokio::test]
async fn what_is_open_needs_nobody_and_what_is_no_path_asks_nobody() {
    let scene = Scene::plain().await;
    assert_eq!(scene.get("/livez").await, (200, "ok".to_owned()));
    assert_eq!(scene.get("/readyz/shutdown").await, (200, "ok".to_owned()));
    for path in ["/", "/secret", "/debug", "/readyz/nothing", "/metrics/x"] {
        assert_eq!(scene.get(path).await.0, 404, "{path}");
    }
    assert_eq!(scene.send(&Chain::default(), "POST /livez HTTP/1.1").await.0, 405);
    assert_eq!(scene.asked(), [""; 0]);
}

#[tokio::test]
async fn metrics_are_for_whom_the_api_server_lets_see_them() {
    let scene = Scene::plain().await;
    let (code, text) = scene.get("/metrics").await;
    assert_eq!((code, text.as_str()), (403, "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"\n"));
    assert_eq!(scene.asked(), ["may system:anonymous get /metrics"]);
    assert_eq!(scene.bearing("of-nobody", "/metrics").await, 401);
    assert_eq!(scene.asked(), ["whose is of-nobody"]);
    assert_eq!(scene.bearing(TOKEN, "/metrics").await, 200);
    assert_eq!(scene.asked(), [format!("whose is {TOKEN}"), format!("may {USER} get /metrics")]);
    assert_eq!(scene.bearing(TOKEN, "/metrics").await, 200);
    assert_eq!(scene.asked(), [""; 0], "answers are remembered");
    assert_eq!(scene.bearing(TOKEN, "/debug/actors").await, 403);
    assert_eq!(scene.get("/healthz").await.0, 403, "not among what is open here");
}

#[tokio::test]
async fn a_client_certificate_says_who_asks_if_its_authority_is_believed() {
    let now = u64::try_from(clock::wall().as_second()).unwrap();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
    let [known, foreign] = ["known", "foreign"].map(|name| Authority::create(name, now).unwrap());
    let chain = |authority: &Authority| -> Chain {
        Arc::new([authority.issue(&Leaf::client(Subject::named(USER)), now).unwrap().certificate])
    };
    let trust = ClientTrust::new([known.certificate()]).unwrap();
    let scene = Scene::new(Access::new(Some(trust)), Vec::new()).await;
    assert_eq!(scene.send(&chain(&known), "GET /metrics HTTP/1.1").await.0, 200);
    assert_eq!(scene.asked(), [format!("may {USER} get /metrics")]);
    assert_eq!(scene.send(&chain(&foreign), "GET /metrics HTTP/1.1").await.0, 403);
    assert_eq!(scene.asked(), ["may system:anonymous get /metrics"]);
}

#[tokio::test]
async fn without_anybody_to_ask_nothing_is_shown_that_is_not_open() {
    let mut scene = Scene::plain().await;
    scene.server = Server::new(&scene.system, Access::new(None), None, vec!["/livez".to_owned()], Default::default());
    assert_eq!(scene.get("/livez").await.0, 200);
    assert_eq!(scene.get("/metrics").await.0, 403);
    assert_eq!(scene.bearing(TOKEN, "/metrics").await, 401);
}

#[tokio::test]
async fn readiness_fails_by_a_parts_own_checks_and_from_the_beginning_of_the_end() {
    let away = Check::new("membership", || Err("its Lease does not stand".to_owned()));
    let scene = Scene::new(Access::new(None), vec![away]).await;
    let text = "[+]ping ok\n[+]shutdown ok\n[-]membership failed: reason withheld\nreadyz check failed\n";
    assert_eq!(scene.get("/readyz").await, (500, text.to_owned()));
    assert_eq!(scene.get("/readyz?exclude=membership").await.0, 200);
    oarlock_runtime::shutdown::shutdown(&scene.system, oarlock_runtime::shutdown::Graces::default()).await;
    assert_eq!(
        scene.get("/readyz/shutdown").await,
        (500, "internal server error: process is shutting down\n".to_owned())
    );
    assert_eq!(scene.get("/livez").await.0, 200, "who ends in order has not failed");
}
