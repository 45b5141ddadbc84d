//! Creates of pods whose answers are lost, and creates that the server gets long after its caller has given them up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use oarlock_client::{
    Call, Client, Event, ListOptions, RawReply, RawRequest, Reply, Request, Transport, Watch, WatchStream,
};
use oarlock_controllers::{Options, Selection};
use oarlock_mesh::Placement;
use oarlock_meta::Status;
use oarlock_runtime::shutdown::{Graces, shutdown};
use oarlock_runtime::{Gate, System, Universe, clock};
use oarlock_schema::Resource;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::door::Door;
use super::member::DISABLED;
use super::unseen::until;
use super::users::{NAMESPACE, kind, kubelets, object, prepare};

/// The duration of the fault; shorter than the time after which a controller decides without its own writes.
const FAULT: Duration = Duration::from_secs(8);
/// The delay of a late create.
const DELAY: Duration = Duration::from_secs(3);
/// The pause of a watch that looks whether the fault is over.
const LOOK: Duration = Duration::from_millis(50);
/// The number of pods of each workload.
const PODS: usize = 3;

/// What becomes of the creates of pods. No watch shows pods meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Pods are made, and the answers are lost.
    AnswersLost,
    /// As [`Fault::AnswersLost`], and pods cannot be read.
    AnswersLostAndReadsRefused,
    /// The callers get no answers, and the pods are made later.
    Late,
}

/// The connection of the controllers, with the faults.
#[derive(Clone)]
struct Lossy {
    door: Door,
    fault: Arc<Mutex<Option<Fault>>>,
    /// The number of pods that were made, by `generateName`.
    made: Arc<Mutex<BTreeMap<String, usize>>>,
    /// The number of creates without an answer.
    lost: Arc<Mutex<usize>>,
}

impl Lossy {
    fn fault(&self) -> Option<Fault> {
        *self.fault.lock()
    }

    /// Makes a pod and counts it.
    async fn make(&self, request: Request) -> Result<Reply, Status> {
        let prefix = match &request.call {
            Call::Create(pod, _) => pod.meta().generate_name().to_owned(),
            _ => String::new(),
        };
        let answer = self.door.call(request).await;
        if answer.is_ok() {
            *self.made.lock().entry(prefix).or_default() += 1;
        }
        answer
    }
}

#[async_trait]
impl Transport for Lossy {
    async fn call(&self, request: Request) -> Result<Reply, Status> {
        let fault = self.fault().filter(|_| request.resource.plural == "pods");
        match (&request.call, fault) {
            (Call::List(_) | Call::Get(_), Some(Fault::AnswersLostAndReadsRefused)) => {
                Err(Status::service_unavailable("pods cannot be read"))
            }
            (Call::Create(..), Some(fault)) => {
                *self.lost.lock() += 1;
                if fault == Fault::Late {
                    let this = self.clone();
                    let late = async move {
                        clock::sleep(DELAY).await;
                        // Nobody waits for the answer.
                        let _answer = this.make(request).await;
                    };
                    self.door.net.spawn("late", late).unwrap();
                } else {
                    let _lost = self.make(request).await;
                }
                Err(Status::timeout("no answer: outcome unknown", 0))
            }
            (Call::Create(..), None) if request.resource.plural == "pods" => self.make(request).await,
            _ => self.door.call(request).await,
        }
    }

    async fn watch(&self, of: &'static Resource, space: &str, options: ListOptions) -> Result<WatchStream, Status> {
        let stream = self.door.watch(of, space, options).await?;
        if of.plural != "pods" {
            return Ok(stream);
        }
        Ok(Box::new(Held { stream, lossy: self.clone(), coming: None }))
    }

    async fn raw(&self, request: RawRequest) -> Result<RawReply, Status> {
        self.door.raw(request).await
    }
}

/// A watch that delivers nothing while there is a fault.
struct Held {
    stream: WatchStream,
    lossy: Lossy,
    /// The batch that is held, kept here so that a cancelled wait loses nothing.
    coming: Option<Option<Vec<Event>>>,
}

#[async_trait]
impl Watch for Held {
    async fn next(&mut self) -> Option<Vec<Event>> {
        if self.coming.is_none() {
            self.coming = Some(self.stream.next().await);
        }
        while self.lossy.fault().is_some() {
            clock::sleep(LOOK).await;
        }
        self.coming.take().flatten()
    }
}

/// Returns a pod template whose pods are bound to a node from the start.
fn template(labels: &Value) -> Value {
    let containers = json!([{"name": "c", "image": "registry.k8s.io/pause:3.10"}]);
    json!({"metadata": {"labels": labels}, "spec": {"nodeName": "node-0", "containers": containers}})
}

async fn create_job(admin: &Client, name: &str, mode: &str) {
    let jobs = kind("batch", "jobs");
    let mut template = template(&json!({}));
    template["spec"]["restartPolicy"] = json!("Never");
    let spec = json!({"completions": PODS, "parallelism": PODS, "completionMode": mode, "template": template});
    let job = json!({"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec});
    admin.create(jobs, object(jobs, job)).await.unwrap();
}

async fn create_set(admin: &Client, name: &str) {
    let (sets, labels) = (kind("apps", "replicasets"), json!({"app": name}));
    let spec = json!({"replicas": PODS, "selector": {"matchLabels": labels}, "template": template(&labels)});
    let set = json!({"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec});
    admin.create(sets, object(sets, set)).await.unwrap();
}

async fn status(admin: &Client, (group, plural): (&str, &str), name: &str) -> Value {
    let found = admin.get(kind(group, plural), NAMESPACE, name).await.unwrap();
    serde_json::from_slice::<Value>(&found.bytes).unwrap()["status"].clone()
}

/// Whether a Job is complete with exactly the wanted successes.
async fn is_complete(admin: &Client, name: &str) -> bool {
    let status = status(admin, ("batch", "jobs"), name).await;
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    status["succeeded"] == PODS && conditions.iter().any(|one| one["type"] == "Complete" && one["status"] == "True")
}

/// Runs workloads under a fault; returns the number of pods that were made, by `generateName`, and of creates without an answer.
async fn run(fault: Fault) -> (BTreeMap<String, usize>, usize) {
    let (door, _) = Door::to_new_server().await;
    let admin = Client::new(Arc::new(door.clone()));
    prepare(&admin).await;
    let (people, enough) = (Gate::new("people"), Arc::new(AtomicBool::new(false)));
    let kubelets = people.spawn("kubelets", kubelets(admin.clone(), Arc::clone(&enough))).unwrap();
    let lossy = Lossy { door, fault: Arc::default(), made: Arc::default(), lost: Arc::default() };
    let system = System::start(oarlock_runtime::Options::default()).await.unwrap();
    let client = Client::new(Arc::new(lossy.clone()));
    let clients = {
        let client = client.clone();
        Arc::new(move |_: &str| client.clone())
    };
    let selection = Selection::without(&DISABLED.map(str::to_owned));
    let options = Options { selection, placement: Placement::everything(), ..Options::default() };
    oarlock_controllers::start(&system, client, clients, options).await.unwrap();
    // The controllers work, and the namespace has the service account that pods need.
    create_job(&admin, "first", "NonIndexed").await;
    until("the first Job is complete", async || is_complete(&admin, "first").await).await;
    lossy.made.lock().clear();

    *lossy.fault.lock() = Some(fault);
    create_job(&admin, "indexed", "Indexed").await;
    create_job(&admin, "plain", "NonIndexed").await;
    create_set(&admin, "set").await;
    clock::sleep(FAULT).await;
    *lossy.fault.lock() = None;
    for job in ["indexed", "plain"] {
        until("the Job is complete", async || is_complete(&admin, job).await).await;
    }
    let sized = async || status(&admin, ("apps", "replicasets"), "set").await["replicas"] == PODS;
    until("the set has its pods", sized).await;
    // The last late create has arrived.
    clock::sleep(DELAY * 2).await;
    enough.store(true, Ordering::Relaxed);
    kubelets.await.unwrap();
    shutdown(&system, Graces::default()).await;
    (lossy.made.lock().clone(), *lossy.lost.lock())
}

#[test]
fn no_pod_is_made_twice_when_the_answer_to_its_create_is_lost() {
    let indexed = (0..PODS).map(|index| (format!("indexed-{index}-"), 1));
    let others = ["plain-", "set-"].map(|prefix| (prefix.to_owned(), PODS));
    let wanted: BTreeMap<String, usize> = indexed.chain(others).collect();
    for fault in [Fault::AnswersLost, Fault::AnswersLostAndReadsRefused, Fault::Late] {
        let (made, lost) = Universe::run(1, move || run(fault)).value;
        assert_eq!(made, wanted, "{fault:?}");
        assert!(lost >= 3, "{fault:?}: {lost} creates without an answer");
    }
}
