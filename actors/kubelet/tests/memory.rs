//! Measures the memory of pods on the node's side: the growth of the process over a hundred nodes of a hundred pods each, on a fake API that stores nothing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use oarlock_client::{
    Call, Client, Event, ListOptions, Object, RawReply, RawRequest, Reply, Request, Transport, Watch, WatchStream,
};
use oarlock_kubelet::{Fleet, NodeConfig};
use oarlock_meta::{GroupResource, Revision, Status};
use oarlock_runtime::{Life, Options, System, clock};
use oarlock_schema::{Resource, resource};
use oarlock_testkit::wait::Progress;

const NODES: u16 = 100;
const PODS: usize = 100;
/// Largest memory of a pod in bytes.
const BYTES_A_POD: usize = 2 << 10;
/// Largest memory of a node without pods in bytes: watch, timers, futures, connections to actors.
const BYTES_A_NODE: usize = 32 << 10;

struct Api {
    running: Arc<AtomicU64>,
}

fn object(resource: &'static Resource, json: String) -> Object {
    Object::from_json(resource.ty, json.into()).unwrap()
}

/// Returns a pod with the fields that the ReplicaSet controller and admission set.
fn pod(resource: &'static Resource, node: &str, at: usize) -> Object {
    let uid =
        format!("{:08x}-0000-4000-8000-{at:012x}", node.len() * 31 + node.bytes().map(usize::from).sum::<usize>());
    let json = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"web-7d4b9c6f5d-{at:05}","generateName":"web-7d4b9c6f5d-",
        "namespace":"default","uid":"{uid}","resourceVersion":"{}","generation":1,"creationTimestamp":"2026-01-01T00:00:00Z",
        "labels":{{"app":"web","pod-template-hash":"7d4b9c6f5d"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet",
        "name":"web-7d4b9c6f5d","uid":"6f5d0000-0000-4000-8000-000000000001","controller":true,"blockOwnerDeletion":true}}]}},
        "spec":{{"nodeName":"{node}","restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst",
        "serviceAccountName":"default","containers":[{{"name":"nginx","image":"nginx:1.27","imagePullPolicy":"IfNotPresent",
        "resources":{{"requests":{{"cpu":"10m","memory":"16Mi"}}}},"volumeMounts":[{{"name":"kube-api-access-x","mountPath":"/var/run/secrets"}}]}}],
        "tolerations":[{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}]}},
        "status":{{"phase":"Pending","qosClass":"Burstable","conditions":[{{"type":"PodScheduled","status":"True"}}]}}}}"#,
        at + 10
    );
    object(resource, json)
}

#[async_trait]
impl Transport for Api {
    async fn call(&self, request: Request) -> Result<Reply, Status> {
        let Request { resource, subresource, name, call, .. } = request;
        match (call, resource.plural, subresource) {
            (Call::Get(_), ..) => Err(Status::not_found(&GroupResource::default(), &name)),
            (Call::Create(obj, _), ..) => Ok(Reply::Object {
                object: object(resource, String::from_utf8_lossy(&oarlock_client::encode(&obj)).into()),
                created: true,
            }),
            (Call::Patch(_, body, _), plural, _) => {
                if plural == "pods" && String::from_utf8_lossy(&body).contains(r#""phase":"Running""#) {
                    self.running.fetch_add(1, Ordering::Relaxed);
                }
                let json = format!(r#"{{"metadata":{{"name":"{name}","uid":"u","resourceVersion":"1000"}}}}"#);
                Ok(Reply::Object { object: object(resource, json), created: false })
            }
            (other, ..) => panic!("not served here: {}", other.verb()),
        }
    }

    async fn watch(&self, resource: &'static Resource, _: &str, options: ListOptions) -> Result<WatchStream, Status> {
        let node = options.field_selector.exact("spec.nodeName").unwrap_or("").to_owned();
        // The watch of the Node itself sends nothing.
        let sent = if node.is_empty() { PODS } else { 0 };
        Ok(Box::new(Pods { resource, node, sent }))
    }

    async fn raw(&self, _: RawRequest) -> Result<RawReply, Status> {
        Err(Status::service_unavailable("no raw requests here"))
    }
}

struct Pods {
    resource: &'static Resource,
    node: String,
    sent: usize,
}

#[async_trait]
impl Watch for Pods {
    async fn next(&mut self) -> Option<Vec<Event>> {
        match self.sent {
            sent if sent < PODS => {
                self.sent += 1;
                Some(vec![Event::Added(pod(self.resource, &self.node, sent))])
            }
            PODS => {
                self.sent += 1;
                Some(vec![Event::Bookmark { revision: Revision(1000), initial_events_end: true }])
            }
            _ => std::future::pending().await,
        }
    }
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[tokio::test]
async fn a_pod_takes_less_than_two_kilobytes_on_its_node() {
    assert!(resource("", "v1", "pods").is_some());
    let system = System::start(Options::default()).await.unwrap();
    let running = Arc::new(AtomicU64::new(0));
    let client = Client::new(Arc::new(Api { running: running.clone() }));
    let fleet = Fleet::new(system.clone());
    let wait = async |wanted: usize| {
        let mut progress = Progress::default();
        while running.load(Ordering::Relaxed) < wanted as u64 {
            assert!(!progress.stalled(running.load(Ordering::Relaxed)), "{wanted} are to run: {progress}");
            clock::sleep(Duration::from_millis(20)).await;
        }
    };
    // One-time costs (types, templates, the allocator) are paid by the first nodes.
    for index in 0..NODES / 10 {
        fleet.add(client.clone(), NodeConfig::simulated(format!("first{index}"), index)).await.unwrap();
    }
    wait(usize::from(NODES / 10) * PODS).await;
    let before = resident();
    for index in 0..NODES {
        fleet.add(client.clone(), NodeConfig::simulated(format!("node{index}"), 100 + index)).await.unwrap();
    }
    wait(usize::from(NODES + NODES / 10) * PODS).await;
    let grown = resident().saturating_sub(before);
    let bound = usize::from(NODES) * (PODS * BYTES_A_POD + BYTES_A_NODE);
    assert!(grown <= bound, "{grown} bytes, {} a pod if nodes took nothing", grown / (usize::from(NODES) * PODS));
    let actors = system.snapshot().iter().filter(|actor| actor.life == Life::Running).count();
    assert!(actors <= usize::from(NODES + NODES / 10) + 2, "{actors} actors");
}
