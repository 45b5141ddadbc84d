//! Tests of which caller may read what from a server of several nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use oarlock_client::{Call, ListOptions, Object, RawReply, RawRequest, Reply, Request, Transport, WatchStream, decode};
use oarlock_meta::{Revision, Status};
use oarlock_runtime::{Options, clock};
use oarlock_schema::Resource;
use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::NodeConfig;
use crate::testing::Api;

/// A fake API whose access reviews allow a token's user what the token says: `all`, or the name of a node.
#[derive(Clone, Default)]
struct Reviewer {
    api: Api,
    asked: Arc<Mutex<BTreeSet<String>>>,
}

#[async_trait]
impl Transport for Reviewer {
    async fn call(&self, request: Request) -> Result<Reply, Status> {
        let Call::Create(review, _) = &request.call else { return self.api.call(request).await };
        let text = |path: &[&str]| review.at(path).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
        let status = match request.resource.plural {
            "tokenreviews" => json!({"authenticated": true, "user": {"username": text(&["spec", "token"])}}),
            "subjectaccessreviews" => {
                let (user, node) = (text(&["spec", "user"]), text(&["spec", "resourceAttributes", "name"]));
                self.asked.lock().insert(format!("{user} at {node:?}"));
                json!({"allowed": user == "all" || (!node.is_empty() && user == node)})
            }
            _ => return self.api.call(request).await,
        };
        let answer = decode(request.resource.ty, json!({"status": status}).to_string().as_bytes())?;
        let object = Object::new(answer.ty(), oarlock_client::encode(&answer), Revision(1));
        Ok(Reply::Object { object, created: true })
    }

    async fn watch(
        &self,
        row: &'static Resource,
        namespace: &str,
        options: ListOptions,
    ) -> Result<WatchStream, Status> {
        self.api.watch(row, namespace, options).await
    }

    async fn raw(&self, request: RawRequest) -> Result<RawReply, Status> {
        self.api.raw(request).await
    }
}

struct Scene {
    server: Server,
    reviewer: Reviewer,
}

impl Scene {
    async fn new(nodes: &[&str]) -> Self {
        let system = System::start(Options { watchdog: None, ..Options::default() }).await.unwrap();
        let (reviewer, fleet) = (Reviewer::default(), Fleet::new(system.clone()));
        for node in nodes {
            fleet.add(Client::new(Arc::new(reviewer.clone())), NodeConfig::simulated(*node, 0)).await.unwrap();
        }
        Self { server: Server::new(&system, &fleet, None), reviewer }
    }

    /// Sends a request with this target and these headers; returns code and body of the answer.
    async fn send(&self, peer: Peer, target: &str, headers: &str) -> (u16, String) {
        let (mut near, far) = tokio::io::duplex(64 << 10);
        let served = connections::connection(self.server.clone(), self.server.inner.streams.token(), far, peer);
        let told = async {
            let request = format!("GET {target} HTTP/1.1\n{headers}Connection: close\n\n").replace('\n', "\r\n");
            near.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            near.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let ((), answer) = clock::timeout(Duration::from_secs(60), async { tokio::join!(served, told) }).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    async fn outside(&self, target: &str, headers: &str) -> (u16, String) {
        self.send(Peer::Outside(Chain::from([])), target, headers).await
    }
}

const PATHS: [&str; 6] =
    ["/pods", "/healthz", "/metrics", "/exec/default/web/main", "/containerLogs/a/b/c", "/nothing"];

#[tokio::test]
async fn who_is_nobody_learns_nothing_whatever_is_asked() {
    let scene = Scene::new(&["a", "b"]).await;
    for path in PATHS {
        for host in ["Host: x\n", "Host: a:10250\n"] {
            assert_eq!(scene.outside(path, host).await, (401, "Unauthorized".to_owned()), "{path} {host}");
        }
    }
    assert!(scene.reviewer.asked.lock().is_empty());
}

#[tokio::test]
async fn who_may_not_ask_all_nodes_learns_neither_how_many_there_are_nor_which_has_a_pod() {
    let scene = Scene::new(&["a", "b"]).await;
    for path in PATHS {
        let (code, text) = scene.outside(path, "Host: x\nAuthorization: Bearer eve\n").await;
        assert_eq!(code, 403, "{path}: {text}");
        assert!(text.starts_with("Forbidden (user=eve, verb=get, resource=nodes, subresource(s)=["), "{text}");
    }
    assert_eq!(*scene.reviewer.asked.lock(), BTreeSet::from(["eve at \"\"".to_owned()]));
}

#[tokio::test]
async fn who_may_ask_one_node_names_it_and_gets_no_other() {
    let scene = Scene::new(&["a", "b"]).await;
    let ask = async |host: &str| scene.outside("/configz", &format!("Host: {host}\nAuthorization: Bearer b\n")).await.0;
    assert_eq!(ask("b:10250").await, 200);
    assert_eq!(ask("a:10250").await, 403);
    assert_eq!(ask("x").await, 403);
    // The authority of the target takes precedence, as in HTTP/2.
    let headers = "Host: a\nAuthorization: Bearer b\n";
    assert_eq!(scene.outside("http://b:10250/configz", headers).await.0, 200);
}

#[tokio::test]
async fn who_may_ask_all_nodes_is_told_to_name_one_where_nothing_else_says_which() {
    let scene = Scene::new(&["a", "b"]).await;
    let headers = "Host: x\nAuthorization: Bearer all\n";
    assert_eq!(scene.outside("/healthz", headers).await, (200, "ok".to_owned()));
    assert_eq!(scene.outside("/metrics", headers).await.0, 200);
    let (code, text) = scene.outside("/configz", headers).await;
    assert_eq!((code, text.as_str()), (421, "several nodes are served here: name one in the Host header\n"));
}

#[tokio::test]
async fn the_only_node_of_a_process_needs_no_name() {
    let scene = Scene::new(&["a"]).await;
    let ask =
        async |token: &str| scene.outside("/configz", &format!("Host: x\nAuthorization: Bearer {token}\n")).await.0;
    assert_eq!((ask("a").await, ask("eve").await), (200, 403));
}

#[tokio::test]
async fn the_read_only_port_has_what_is_public_and_nothing_else() {
    let scene = Scene::new(&["a", "b"]).await;
    for (path, code) in [("/exec/default/web/main", 404), ("/metrics", 404), ("/healthz", 200), ("/stats/summary", 421)]
    {
        assert_eq!(scene.send(Peer::Reader, path, "Host: x\n").await.0, code, "{path}");
    }
    assert_eq!(scene.send(Peer::Reader, "/stats/summary", "Host: a\n").await.0, 200);
}

#[test]
fn only_api_servers_administrators_and_monitoring_have_the_runtime_traced() {
    let user = |name: &str, groups: &[&str]| User {
        name: name.to_owned(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
    };
    assert!(is_trusted(&user("kube-apiserver-kubelet-client", &[])));
    assert!(is_trusted(&user("admin", &["system:authenticated", "system:masters"])));
    assert!(is_trusted(&user("prometheus", &["system:monitoring"])));
    for (name, groups) in [("somebody", &["system:authenticated"][..]), ("system:node:a", &["system:nodes"]), ("", &[])]
    {
        assert!(!is_trusted(&user(name, groups)), "{name}");
    }
    assert!(!is_trusted(&User::anonymous()));
}
