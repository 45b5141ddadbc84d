//! A small API server in memory that serves the scheduler's calls, with faults on demand.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oarlock_client::{
    Call, Event, List, ListOptions, Object, PatchType, RawReply, RawRequest, Reply, Request, Transport, Watch,
    WatchStream,
};
use oarlock_meta::{GroupResource, Revision, Status};
use oarlock_runtime::{Gate, clock};
use oarlock_schema::{Resource, resource};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

type Key = (&'static str, String, String);

/// A fault of the next binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The binding is refused.
    Refuse,
    /// The binding is written, and the answer is lost.
    LoseAnswer,
    /// The binding is not written, and the call times out.
    Timeout,
    /// The call times out, and the binding is written after this delay.
    Late(Duration),
}

#[derive(Default)]
struct State {
    revision: u64,
    objects: BTreeMap<Key, Value>,
    log: Vec<(u64, &'static str, Change, Value)>,
    faults: VecDeque<Fault>,
    /// Delays of the next nominations, whose answers are lost.
    late_nominations: VecDeque<Duration>,
    fences: Vec<(String, String)>,
    /// Whether condition writes are held back.
    held: bool,
    /// Whether watches stop before the first event of a bound pod.
    unseen: bool,
    /// Number of patches whose precondition failed.
    conflicts: usize,
    /// Whether deletions leave pods terminating.
    graceful: bool,
    /// The next deletions to refuse.
    refused_deletions: Vec<()>,
    /// Whether deletions get no answer and do nothing.
    lost_deletions: bool,
    /// A pod's name, and the number of its next reads that fail.
    unreadable: (String, usize),
    /// Deleted objects, in their last state.
    evicted: Vec<Value>,
    binding: usize,
    most_binding: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Change {
    Added,
    Modified,
    Deleted,
}

/// A fake API server.
#[derive(Clone)]
pub(super) struct Fake {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    /// Tasks of delayed writes.
    net: Gate,
}

impl Default for Fake {
    fn default() -> Self {
        Self { state: Arc::default(), changed: Arc::default(), net: Gate::new("net") }
    }
}

fn object(resource: &'static Resource, value: &Value) -> Object {
    Object::from_json(resource.ty, serde_json::to_vec(value).unwrap().into()).unwrap()
}

impl Fake {
    fn commit(&self, key: Key, change: Change, mut value: Value) -> Value {
        let mut state = self.state.lock();
        state.revision += 1;
        let revision = state.revision;
        value["metadata"]["resourceVersion"] = json!(revision.to_string());
        if change == Change::Deleted {
            state.objects.remove(&key);
        } else {
            state.objects.insert(key.clone(), value.clone());
        }
        state.log.push((revision, key.0, change, value.clone()));
        drop(state);
        self.changed.notify_waiters();
        value
    }

    /// Creates or replaces an object, given as YAML-like JSON.
    pub(super) fn put(&self, plural: &'static str, mut value: Value) {
        let text = |value: &Value, field: &str| value["metadata"][field].as_str().unwrap_or_default().to_owned();
        let key = (plural, text(&value, "namespace"), text(&value, "name"));
        if value["metadata"]["uid"].is_null() {
            value["metadata"]["uid"] = json!(format!("uid-{}", key.2));
        }
        let known = self.state.lock().objects.contains_key(&key);
        self.commit(key, if known { Change::Modified } else { Change::Added }, value);
    }

    /// Deletes an object.
    pub(super) fn delete(&self, plural: &'static str, namespace: &str, name: &str) {
        let key = (plural, namespace.to_owned(), name.to_owned());
        let value = self.state.lock().objects.get(&key).cloned().unwrap();
        self.commit(key, Change::Deleted, value);
    }

    /// Returns an object.
    pub(super) fn get(&self, plural: &'static str, namespace: &str, name: &str) -> Value {
        let key = (plural, namespace.to_owned(), name.to_owned());
        self.state.lock().objects.get(&key).cloned().unwrap_or(Value::Null)
    }

    /// Returns all objects of a resource.
    pub(super) fn list(&self, plural: &'static str) -> Vec<Value> {
        self.state.lock().objects.iter().filter(|(key, _)| key.0 == plural).map(|(_, value)| value.clone()).collect()
    }

    /// Makes the next bindings fail.
    pub(super) fn fail_bindings(&self, faults: &[Fault]) {
        self.state.lock().faults.extend(faults);
    }

    /// Drops the answers of the next nominations, and delays the nominations by `late`.
    pub(super) fn delay_nominations(&self, late: &[Duration]) {
        self.state.lock().late_nominations.extend(late);
    }

    /// Holds condition writes back, or releases them.
    pub(super) fn hold_conditions(&self, held: bool) {
        self.state.lock().held = held;
        self.changed.notify_waiters();
    }

    /// Returns the number of patches whose uid or revision did not match.
    pub(super) fn conflicts(&self) -> usize {
        self.state.lock().conflicts
    }

    /// Stops watches before the first event of a bound pod, or resumes them.
    pub(super) fn hide_bindings(&self, unseen: bool) {
        self.state.lock().unseen = unseen;
        self.changed.notify_waiters();
    }

    async fn let_go(&self) {
        loop {
            let changed = self.changed.notified();
            if !self.state.lock().held {
                return;
            }
            changed.await;
        }
    }

    /// Makes later deletions by clients leave pods terminating.
    pub(super) fn be_graceful(&self) {
        self.state.lock().graceful = true;
    }

    /// Makes the next `count` deletions by clients fail.
    pub(super) fn fail_deletions(&self, count: usize) {
        self.state.lock().refused_deletions.resize(count, ());
    }

    /// Makes later deletions by clients wait in vain for an answer, or lets them pass again.
    pub(super) fn lose_deletions(&self, lost: bool) {
        self.state.lock().lost_deletions = lost;
    }

    /// Makes the next `count` reads of a pod fail.
    pub(super) fn fail_reads(&self, name: &str, count: usize) {
        self.state.lock().unreadable = (name.to_owned(), count);
    }

    /// Whether this read of a pod is to fail.
    fn is_unreadable(&self, read: &str) -> bool {
        let (name, count) = &mut self.state.lock().unreadable;
        let fails = name == read && *count > 0;
        *count -= usize::from(fails);
        fails
    }

    /// Returns the deleted objects in their last state.
    pub(super) fn evicted(&self) -> Vec<Value> {
        self.state.lock().evicted.clone()
    }

    /// Returns every write with its claim.
    pub(super) fn fences(&self) -> Vec<(String, String)> {
        self.state.lock().fences.clone()
    }

    /// Returns the largest number of concurrent bindings.
    pub(super) fn most_binding(&self) -> usize {
        self.state.lock().most_binding
    }

    /// Waits until a condition holds; fails after a minute.
    pub(super) async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let deadline = clock::after(Duration::from_secs(60));
        while !holds(self) {
            assert!(!deadline.passed(), "{what} did not come true: {:#?}", self.list("pods"));
            clock::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn bind(&self, request: &Request, target: &Value) -> Result<Reply, Status> {
        let fault = {
            let mut state = self.state.lock();
            state.binding += 1;
            state.most_binding = state.most_binding.max(state.binding);
            state.faults.pop_front()
        };
        clock::sleep(Duration::from_millis(2)).await;
        self.state.lock().binding -= 1;
        let pods = GroupResource::new("", "pods");
        match fault {
            Some(Fault::Late(later)) => {
                let (fake, request, target) = (self.clone(), request.clone(), target.clone());
                self.arrives(later, move || fake.assign(&request, &target));
                return Err(Status::timeout("the test says so", 0));
            }
            Some(Fault::Refuse) => return Err(Status::conflict(&pods, &request.name, "refused by the test")),
            Some(Fault::Timeout) => return Err(Status::timeout("the test says so", 0)),
            Some(Fault::LoseAnswer) | None => {}
        }
        self.assign(request, target)?;
        match fault {
            Some(_) => Err(Status::timeout("the answer is lost", 0)),
            None => Ok(Reply::Status(Status::success())),
        }
    }

    /// Performs a write after a delay and drops its answer.
    fn arrives<T>(&self, later: Duration, write: impl FnOnce() -> Result<T, Status> + Send + 'static) {
        let late = async move {
            clock::sleep(later).await;
            let _ = write();
        };
        self.net.spawn("late", late).unwrap();
    }

    fn late_nominations(&self) -> Option<Duration> {
        self.state.lock().late_nominations.pop_front()
    }

    fn change_status(&self, request: &Request, patch: &Value) -> Result<Value, Status> {
        let key = (request.resource.plural, request.namespace.to_string(), request.name.to_string());
        let mut value = self.get(key.0, &key.1, &key.2);
        if value.is_null() {
            return Err(Status::not_found(&request.resource.group_resource(), &key.2));
        }
        for precondition in ["uid", "resourceVersion"] {
            let expected = &patch["metadata"][precondition];
            if !expected.is_null() && value["metadata"][precondition] != *expected {
                self.state.lock().conflicts += 1;
                return Err(Status::conflict(&request.resource.group_resource(), &key.2, precondition));
            }
        }
        merge(&mut value["status"], &patch["status"]);
        Ok(self.commit(key, Change::Modified, value))
    }

    fn assign(&self, request: &Request, target: &Value) -> Result<(), Status> {
        let pods = GroupResource::new("", "pods");
        let mut pod = self.get("pods", &request.namespace, &request.name);
        if pod.is_null() {
            return Err(Status::not_found(&pods, &request.name));
        }
        if target["metadata"]["uid"] != pod["metadata"]["uid"] {
            return Err(Status::conflict(&pods, &request.name, "another incarnation"));
        }
        if pod["spec"]["nodeName"].is_string() {
            return Err(Status::conflict(&pods, &request.name, "is already assigned to a node"));
        }
        pod["spec"]["nodeName"] = target["target"]["name"].clone();
        self.put("pods", pod);
        Ok(())
    }
}

/// Merges a strategic patch into a status: conditions by type, `null` removes a field.
fn merge(status: &mut Value, patch: &Value) {
    // Patch directives are not fields.
    for (field, new) in patch.as_object().unwrap().iter().filter(|(field, _)| !field.starts_with('$')) {
        match new {
            Value::Null => drop(status.as_object_mut().map(|status| status.remove(field))),
            Value::Array(conditions) => {
                let mut known = status[field].as_array().cloned().unwrap_or_default();
                for condition in conditions {
                    known.retain(|known| known["type"] != condition["type"]);
                    known.push(condition.clone());
                }
                status[field] = json!(known);
            }
            new => status[field] = new.clone(),
        }
    }
}

#[async_trait]
impl Transport for Fake {
    async fn call(&self, request: Request) -> Result<Reply, Status> {
        let key = (request.resource.plural, request.namespace.to_string(), request.name.to_string());
        if !request.call.is_read() {
            let fence = request.fence.as_ref().map(ToString::to_string).unwrap_or_default();
            self.state.lock().fences.push((format!("{}/{}", request.resource.plural, request.subresource), fence));
        }
        match &request.call {
            Call::Get(_) if self.is_unreadable(&key.2) => Err(Status::timeout("the test says so", 0)),
            Call::Get(_) => match self.get(key.0, &key.1, &key.2) {
                Value::Null => Err(Status::not_found(&request.resource.group_resource(), &key.2)),
                value => Ok(Reply::Object { object: object(request.resource, &value), created: false }),
            },
            Call::List(_) => {
                let items = self.list(key.0).iter().map(|value| object(request.resource, value)).collect();
                let revision = Revision::from(self.state.lock().revision);
                Ok(Reply::List(List { revision, items, ..List::default() }))
            }
            Call::Create(body, _) => {
                let value: Value = serde_json::from_slice(&oarlock_client::encode(body)).unwrap();
                if request.subresource == "binding" {
                    return self.bind(&request, &value).await;
                }
                let name = body.name().to_owned();
                let value = self.commit((key.0, key.1, name), Change::Added, value);
                Ok(Reply::Object { object: object(request.resource, &value), created: true })
            }
            Call::Patch(PatchType::Strategic, patch, _) if request.subresource == "status" => {
                let patch: Value = serde_json::from_slice(patch).unwrap();
                if patch["status"]["conditions"][0]["type"] == "PodScheduled" {
                    self.let_go().await;
                }
                if patch["status"]["nominatedNodeName"].is_string()
                    && let Some(later) = self.late_nominations()
                {
                    let fake = self.clone();
                    self.arrives(later, move || fake.change_status(&request, &patch));
                    return Err(Status::timeout("the test says so", 0));
                }
                let value = self.change_status(&request, &patch)?;
                Ok(Reply::Object { object: object(request.resource, &value), created: false })
            }
            Call::Patch(_, patch, _) => {
                let patch: Value = serde_json::from_slice(patch).unwrap();
                let mut value = self.get(key.0, &key.1, &key.2);
                for (field, new) in patch.as_object().unwrap() {
                    value[field] = new.clone();
                }
                let value = self.commit(key, Change::Modified, value);
                Ok(Reply::Object { object: object(request.resource, &value), created: false })
            }
            Call::Delete(_) if self.state.lock().lost_deletions => {
                clock::sleep(request.timeout).await;
                Err(Status::timeout("the answer is lost", 0))
            }
            Call::Delete(options) => {
                let value = self.get(key.0, &key.1, &key.2);
                if value.is_null() {
                    return Err(Status::not_found(&request.resource.group_resource(), &key.2));
                }
                if value["metadata"]["uid"].as_str() != options.uid.as_deref() {
                    return Err(Status::conflict(&request.resource.group_resource(), &key.2, "another incarnation"));
                }
                if self.state.lock().refused_deletions.pop().is_some() {
                    return Err(Status::timeout("the test says so", 0));
                }
                self.state.lock().evicted.push(value.clone());
                if self.state.lock().graceful && value["metadata"]["deletionTimestamp"].is_null() {
                    let mut value = value;
                    value["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
                    let value = self.commit(key, Change::Modified, value);
                    return Ok(Reply::Object { object: object(request.resource, &value), created: false });
                }
                let value = self.commit(key, Change::Deleted, value);
                Ok(Reply::Object { object: object(request.resource, &value), created: false })
            }
            other => Err(Status::bad_request(format!("the fake has no {}", other.verb()))),
        }
    }

    async fn watch(&self, of: &'static Resource, _: &str, options: ListOptions) -> Result<WatchStream, Status> {
        let mut first = Vec::new();
        let from = match options.resource_version.filter(|revision| !revision.is_zero()) {
            Some(revision) => revision.get(),
            None => {
                first = self.list(of.plural).iter().map(|value| Event::Added(object(of, value))).collect();
                let revision = self.state.lock().revision;
                first.push(Event::Bookmark { revision: Revision::from(revision), initial_events_end: true });
                revision
            }
        };
        Ok(Box::new(Stream { fake: self.clone(), of, from, first }))
    }

    async fn raw(&self, _: RawRequest) -> Result<RawReply, Status> {
        Err(Status::bad_request("the fake has no raw requests"))
    }
}

struct Stream {
    fake: Fake,
    of: &'static Resource,
    from: u64,
    first: Vec<Event>,
}

#[async_trait]
impl Watch for Stream {
    async fn next(&mut self) -> Option<Vec<Event>> {
        if !self.first.is_empty() {
            return Some(std::mem::take(&mut self.first));
        }
        loop {
            let changed = self.fake.changed.clone();
            let changed = changed.notified();
            let events: Vec<Event> = {
                let state = self.fake.state.lock();
                let news = state.log.iter().filter(|entry| entry.0 > self.from && entry.1 == self.of.plural);
                let told = news.take_while(|entry| !(state.unseen && entry.3["spec"]["nodeName"].is_string()));
                told.map(|(_, _, change, value)| {
                    let object = object(self.of, value);
                    match change {
                        Change::Added => Event::Added(object),
                        Change::Modified => Event::Modified(object),
                        Change::Deleted => Event::Deleted(object),
                    }
                })
                .collect()
            };
            if let Some(last) = events.iter().filter_map(Event::revision).max() {
                self.from = last.get();
                return Some(events);
            }
            changed.await;
        }
    }
}

/// Returns a node of two cores.
pub(super) fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"}},
    })
}

/// Returns a pod with a cpu request.
pub(super) fn pod(name: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "generation": 1, "labels": {"app": "web"}},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}],
        },
        "status": {"phase": "Pending"},
    })
}

/// The schema contains every resource that the fake serves.
#[test]
fn the_schema_has_what_the_fake_serves() {
    assert!(resource("", "v1", "pods").is_some() && resource("", "v1", "events").is_some());
}
