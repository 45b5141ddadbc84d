//! The spans of a Deployment's life and of all that it owns, from the steps of several processes.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use oarlock_bus::Exchange;
use oarlock_client::{Client, ListOptions, PatchType, WriteOptions};
use oarlock_meta::Revision;
use oarlock_runtime::{Rng, Universe, clock, rng};
use oarlock_storage::{Log as _, Record};
use oarlock_telemetry::traces::opentelemetry::trace::{SpanContext, SpanId, Status, TraceId};
use oarlock_telemetry::traces::opentelemetry_sdk::trace::SpanData;
use oarlock_telemetry::traces::{self, Change, ExportQueue, Ratio, Sampler, Settings};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::alone::alone;
use super::door::Door;
use super::member::{Member, Role};
use super::users::{NAMESPACE, kind, object, prepare, surely};
use super::world::HEALED;
use crate::replicas::truth::Truth;
use crate::replicas::wire::Wire;

const CREW: [Role; 4] = [Role::Controllers, Role::Controllers, Role::Scheduler, Role::Scheduler];
/// The pause between two looks at the cluster.
const LOOK: Duration = Duration::from_millis(100);

/// An API server with its users and members, and a Deployment.
pub(super) struct World {
    door: Door,
    truth: Arc<Truth>,
    exchange: Exchange,
    pub(super) admin: Client,
    hosts: usize,
    members: Vec<Arc<Member>>,
    /// Replicas of the Deployment.
    pods: usize,
    /// The pause between two looks at the cluster.
    look: Duration,
    /// How long everything may take.
    limit: Duration,
}

impl World {
    pub(super) async fn new(pods: usize) -> Self {
        let (door, truth) = Door::to_new_server().await;
        let admin = Client::new(Arc::new(door.clone()));
        prepare(&admin).await;
        // Each look reads every pod.
        let times = u32::try_from(pods / 20).unwrap().max(1);
        let (look, limit) = (LOOK * times, HEALED * times);
        Self { door, truth, exchange: Exchange::new(), admin, hosts: 0, members: Vec::new(), pods, look, limit }
    }

    pub(super) async fn join(&mut self) {
        for role in CREW {
            let marks = Arc::clone(&self.door.marks);
            let wire = Arc::new(Wire::new(rng::with(Rng::fork), marks));
            let door = Door { wire, life: CancellationToken::new(), ..self.door.clone() };
            let host = format!("h{}", self.hosts);
            self.hosts += 1;
            self.members.push(Arc::new(Member::start(role, host, door, Some(&self.exchange)).await));
        }
    }

    pub(super) fn kill(&mut self) {
        for member in self.members.drain(..) {
            self.exchange.cut(member.identity());
            member.kill(&self.door.net, &self.door.marks);
        }
    }

    pub(super) async fn end(&mut self) {
        for member in self.members.drain(..) {
            member.end().await;
        }
    }

    pub(super) async fn apply(&self) {
        let (deployments, labels) = (kind("apps", "deployments"), json!({"app": "web"}));
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
        let spec = json!({"replicas": self.pods, "selector": {"matchLabels": labels}, "template": template});
        let web = object(deployments, json!({"metadata": {"name": "web", "namespace": NAMESPACE}, "spec": spec}));
        self.admin.create(deployments, web).await.unwrap();
    }

    pub(super) async fn list(&self, group: &str, plural: &str) -> Vec<Value> {
        let list = surely(async || self.admin.list(kind(group, plural), NAMESPACE, ListOptions::default()).await).await;
        list.items.iter().map(|item| serde_json::from_slice(&item.bytes).unwrap()).collect()
    }

    /// Waits until all pods are bound.
    pub(super) async fn until_bound(&self) {
        let limit = clock::after(self.limit);
        loop {
            let bound = self.bound().await.len();
            if bound == self.pods {
                return;
            }
            assert!(!limit.passed(), "{bound} pods of {} are bound", self.pods);
            clock::sleep(self.look).await;
        }
    }

    /// Returns the UIDs of the pods that are bound.
    pub(super) async fn bound(&self) -> BTreeSet<String> {
        let pods = self.list("", "pods").await;
        let bound = pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string());
        bound.map(|pod| pod["metadata"]["uid"].as_str().unwrap().to_owned()).collect()
    }

    /// Makes the pods ready, as their kubelets would, and waits until the Deployment is complete.
    pub(super) async fn until_complete(&self) {
        for pod in self.list("", "pods").await {
            let at = "2026-01-01T00:00:00Z";
            let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": at});
            let patch = (PatchType::Merge, json!({"status": {"phase": "Running", "conditions": [ready]}}).to_string());
            let name = pod["metadata"]["name"].as_str().unwrap();
            let (pods, key) = (kind("", "pods"), (NAMESPACE, name));
            surely(async || self.admin.patch(pods, "status", key, patch.clone(), WriteOptions::default()).await).await;
        }
        let limit = clock::after(self.limit);
        loop {
            let web = self.list("apps", "deployments").await.remove(0);
            if web["status"]["availableReplicas"] == self.pods
                && web["status"]["observedGeneration"] == web["metadata"]["generation"]
            {
                return;
            }
            assert!(!limit.passed(), "not complete: {web:#?}");
            clock::sleep(self.look).await;
        }
    }

    /// Returns the UIDs of the Deployment, its ReplicaSet and its pods.
    pub(super) async fn uids(&self) -> (String, String, Vec<String>) {
        let uids = async |group, plural| -> Vec<String> {
            let list = self.list(group, plural).await;
            list.iter().map(|object| object["metadata"]["uid"].as_str().unwrap().to_owned()).collect()
        };
        let (mut webs, mut sets) = (uids("apps", "deployments").await, uids("apps", "replicasets").await);
        assert_eq!((webs.len(), sets.len()), (1, 1));
        (webs.remove(0), sets.remove(0), uids("", "pods").await)
    }

    /// Returns every record of the log.
    async fn records(&self) -> Vec<Record> {
        let (mut tail, mut records) = (self.truth.tail(Revision::ZERO).await.unwrap(), Vec::new());
        while Revision(records.last().map_or(0, |record: &Record| record.revision.get())) < self.truth.revision() {
            records.extend(tail.next(1024).await.unwrap().records);
        }
        records
    }
}

/// A life as its spans show it.
struct Life {
    uid: String,
    spans: Vec<Arc<SpanData>>,
}

impl Life {
    fn of(uid: &str) -> Self {
        let spans = traces::ring().unwrap().trace(Change::new(uid, 1).trace());
        Self { uid: uid.to_owned(), spans }
    }

    /// Returns the names of the steps that succeeded.
    fn steps(&self) -> BTreeSet<&str> {
        let succeeded = self.spans.iter().filter(|span| span.status == Status::Unset);
        succeeded.map(|span| &*span.name).collect()
    }

    fn root(&self) -> SpanId {
        Change::new(&self.uid, 1).context().span_id()
    }

    /// Checks that each span is the root of the first change, or a child of the root, and describes the object of this life.
    fn check(&self) {
        for span in &self.spans {
            let expected = if span.span_context.span_id() == self.root() { SpanId::INVALID } else { self.root() };
            assert_eq!(span.parent_span_id, expected, "{span:#?}");
            assert!(span.start_time <= span.end_time, "{span:#?}");
            let own = |known: &str| known.ends_with(".uid");
            let uid = span.attributes.iter().find(|known| own(known.key.as_str())).unwrap();
            assert_eq!(uid.value.to_string(), self.uid, "a step of another object's life: {span:#?}");
        }
        let ids: HashSet<_> = self.spans.iter().map(|span| span.span_context.span_id()).collect();
        assert_eq!(ids.len(), self.spans.len(), "a span twice: {:#?}", self.spans);
    }

    /// Returns the traces that the commit of the object is linked with.
    fn owners(&self) -> Vec<TraceId> {
        let commit = self.spans.iter().find(|span| span.name == "commit").unwrap();
        commit.links.iter().map(|link| link.span_context.trace_id()).collect()
    }
}

/// Checks that the lives are one connected graph, with every step that is not a kubelet's.
fn check((web, set, pods): &(String, String, Vec<String>)) {
    let (deployment, replica_set) = (Life::of(web), Life::of(set));
    let trace = |life: &Life| SpanContext::trace_id(&Change::new(&life.uid, 1).context());
    deployment.check();
    replica_set.check();
    assert_eq!(deployment.steps(), BTreeSet::from(["commit", "reconcile", "deployment create"]));
    assert_eq!(replica_set.steps(), BTreeSet::from(["commit", "reconcile", "replicaset create"]));
    assert_eq!(replica_set.owners(), [trace(&deployment)]);
    assert_eq!(pods.len(), 3);
    let mut remote = 0;
    for pod in pods.iter().map(|uid| Life::of(uid)) {
        pod.check();
        assert_eq!(pod.owners(), [trace(&replica_set)]);
        let steps = pod.steps();
        for step in ["commit", "queue", "decide", "bind"] {
            assert!(steps.contains(step), "no {step}: {steps:?}");
        }
        // A pod of a shard that the arbiter's process does not hold was proposed.
        assert_eq!(steps.contains("propose"), steps.contains("arbiter"));
        remote += usize::from(steps.contains("arbiter"));
        let once = ["commit", "bind", "propose", "arbiter"];
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        pod.spans
            .iter()
            .filter(|span| span.status == Status::Unset)
            .for_each(|span| *counts.entry(&span.name).or_default() += 1);
        assert!(once.iter().all(|name| counts.get(name).copied().unwrap_or(0) <= 1), "{counts:?}");
    }
    println!("{remote} of 3 pods were proposed by another process");
}

async fn roll_out() -> ((String, String, Vec<String>), Vec<Record>) {
    let mut world = World::new(3).await;
    world.join().await;
    world.apply().await;
    world.until_bound().await;
    world.until_complete().await;
    world.end().await;
    (world.uids().await, world.records().await)
}

fn assert_same_store(off: &[Record], traced: &[Record]) {
    assert_eq!(off.len(), traced.len());
    for (off, traced) in off.iter().zip(traced) {
        assert_eq!(off, traced, "the stored bytes differ");
    }
}

#[test]
fn the_store_is_the_same_while_every_life_is_exported() {
    alone("crew::lives::the_store_is_the_same_while_every_life_is_exported", || {
        let off = Universe::run(41, roll_out).value;
        let queue = Arc::new(ExportQueue::new(1 << 16, 1 << 16));
        assert!(traces::start(Settings::exported(Sampler::parent_based(Ratio::ALL), Arc::clone(&queue))));
        let exported = Universe::run(41, roll_out).value;
        assert!(!queue.take().is_empty(), "nothing was exported");
        assert_same_store(&off.1, &exported.1);
    });
}

/// Tracing is off until the first run has ended, so this is the one test of this executable that starts it; others have a process of their own ([`super::alone`]).
#[test]
fn lives_are_connected_graphs_and_the_store_is_the_same_without_them() {
    assert!(!traces::recording());
    let off = Universe::run(41, roll_out);
    assert!(!traces::recording(), "another test has started to trace");
    traces::start(Settings::ring());
    let ring = Universe::run(41, roll_out);
    check(&ring.value.0);
    assert_eq!(off.hash, ring.hash, "the runs differ");
    assert_same_store(&off.value.1, &ring.value.1);

    // Every owner of a unit is killed half-way; the next owners end what these began.
    let moved = Universe::run(42, || async {
        let mut world = World::new(3).await;
        world.join().await;
        world.apply().await;
        world.until_bound().await;
        world.kill();
        world.join().await;
        world.until_complete().await;
        // The controllers record a root after the write of the status.
        clock::sleep(Duration::from_secs(1)).await;
        world.end().await;
        world.uids().await
    });
    check(&moved.value);
}
