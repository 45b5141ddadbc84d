//! A fake API in memory for nodes in virtual time: objects, watches, patches applied like the server's, graceful deletion of pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use oarlock_client::{
    Call, Client, Event, List, ListOptions, Object, PatchType, RawReply, RawRequest, Reply, Request, Transport, Watch,
    WatchStream, decode, encode,
};
use oarlock_meta::{Revision, Status, Time};
use oarlock_patch::{PatchKind, Validation, apply_patch};
use oarlock_runtime::clock;
use oarlock_schema::views::core_v1::Pod;
use oarlock_schema::{Obj, Resource, Str, resource};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

type Key = (&'static str, Str, Str);

#[derive(Default)]
struct State {
    revision: u64,
    objects: BTreeMap<Key, Obj>,
    /// Revision, resource, whether the object existed before, its state, whether it was deleted.
    log: Vec<(u64, &'static str, bool, Obj, bool)>,
    calls: BTreeMap<String, u64>,
    down: bool,
}

/// A fake API. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Api {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
}

pub(crate) fn core(plural: &str) -> &'static Resource {
    let found = resource("", "v1", plural).or_else(|| resource("coordination.k8s.io", "v1", plural));
    found.unwrap_or_else(|| panic!("no resource {plural}"))
}

impl Api {
    pub(crate) fn client(&self) -> Client {
        Client::new(Arc::new(self.clone()))
    }

    /// Makes every call fail with 503 while `down`.
    pub(crate) fn down(&self, down: bool) {
        self.state.lock().down = down;
    }

    /// Returns how often a verb was called on a resource (`patch pods/status`).
    pub(crate) fn calls(&self, what: &str) -> u64 {
        self.state.lock().calls.get(what).copied().unwrap_or(0)
    }

    pub(crate) fn create(&self, plural: &str, object: &Value) {
        let resource = core(plural);
        let obj = decode(resource.ty, object.to_string().as_bytes()).unwrap();
        self.state.lock().create(resource, obj).unwrap();
        self.changed.notify_waiters();
    }

    pub(crate) fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = (core(plural).plural, namespace.into(), name.into());
        let state = self.state.lock();
        state.objects.get(&key).map(|obj| serde_json::from_slice(&encode(obj)).unwrap())
    }

    pub(crate) fn list(&self, plural: &str) -> Vec<Value> {
        let plural = core(plural).plural;
        let state = self.state.lock();
        let of = state.objects.iter().filter(|((resource, ..), _)| *resource == plural);
        of.map(|(_, obj)| serde_json::from_slice(&encode(obj)).unwrap()).collect()
    }

    pub(crate) fn patch(&self, plural: &str, key: (&str, &str), patch: &Value) {
        let resource = core(plural);
        let key = (resource.plural, key.0.into(), key.1.into());
        self.state.lock().patch(resource, key, PatchKind::Merge, patch.to_string().as_bytes()).unwrap();
        self.changed.notify_waiters();
    }

    pub(crate) fn delete(&self, plural: &str, namespace: &str, name: &str, grace: Option<i64>) {
        let resource = core(plural);
        self.state.lock().delete(resource, (resource.plural, namespace.into(), name.into()), grace, None).unwrap();
        self.changed.notify_waiters();
    }
}

impl State {
    fn put(&mut self, key: Key, mut obj: Obj) -> Object {
        let before = self.objects.get(&key);
        if let Some(before) = before
            && **before == *obj
        {
            return object(before);
        }
        self.revision += 1;
        obj.set_at(&["metadata", "resourceVersion"], self.revision.to_string());
        self.log.push((self.revision, key.0, before.is_some(), obj.clone(), false));
        let answer = object(&obj);
        self.objects.insert(key, obj);
        answer
    }

    fn remove(&mut self, key: &Key) {
        let Some(mut obj) = self.objects.remove(key) else { return };
        self.revision += 1;
        obj.set_at(&["metadata", "resourceVersion"], self.revision.to_string());
        self.log.push((self.revision, key.0, true, obj, true));
    }

    fn create(&mut self, resource: &'static Resource, mut obj: Obj) -> Result<Object, Status> {
        let key = (resource.plural, Str::from(obj.namespace()), Str::from(obj.name()));
        if self.objects.contains_key(&key) {
            return Err(Status::already_exists(&resource.group_resource(), obj.name()));
        }
        if obj.meta().uid().is_empty() {
            let uid = format!("00000000-0000-4000-8000-{:012x}", self.revision + 1);
            obj.set_at(&["metadata", "uid"], uid);
        }
        Ok(self.put(key, obj))
    }

    fn patch(&mut self, resource: &'static Resource, key: Key, kind: PatchKind, body: &[u8]) -> Result<Object, Status> {
        let current = self.objects.get(&key).ok_or_else(|| Status::not_found(&resource.group_resource(), &key.2))?;
        let mut patched = apply_patch(kind, current, body, Validation::Strict)?.obj;
        judge(resource, &mut patched, current);
        if patched.meta().uid() != current.meta().uid() {
            return Err(Status::conflict(&resource.group_resource(), &key.2, "uid"));
        }
        assert!(std::ptr::eq(patched.ty(), resource.ty));
        Ok(self.put(key, patched))
    }

    fn delete(
        &mut self,
        resource: &'static Resource,
        key: Key,
        grace: Option<i64>,
        uid: Option<&str>,
    ) -> Result<Object, Status> {
        let current = self.objects.get(&key).ok_or_else(|| Status::not_found(&resource.group_resource(), &key.2))?;
        if uid.is_some_and(|uid| uid != current.meta().uid()) {
            return Err(Status::conflict(&resource.group_resource(), &key.2, "uid"));
        }
        let mut marked = current.clone();
        let own = current.view::<Pod<'_>>().filter(|_| resource.plural == "pods").map_or(0, |pod| {
            let over = matches!(pod.status().phase(), "Succeeded" | "Failed");
            if over { 0 } else { pod.spec().termination_grace_period_seconds().unwrap_or(30) }
        });
        let grace = grace.unwrap_or(own);
        if grace == 0 {
            self.remove(&key);
            return Ok(object(&marked));
        }
        let at = Time::from_unix(clock::wall().as_second() + grace).to_string();
        marked.set_at(&["metadata", "deletionTimestamp"], at);
        marked.set_at(&["metadata", "deletionGracePeriodSeconds"], grace);
        let generation = current.meta().generation();
        if generation > 0 && current.at(&["metadata", "deletionTimestamp"]).is_none() {
            marked.set_at(&["metadata", "generation"], generation + 1);
        }
        Ok(self.put(key, marked))
    }
}

/// Fails the test on a status that an API server would refuse, since a node would retry such a write for ever.
fn judge(resource: &'static Resource, new: &mut Obj, old: &Obj) {
    if resource.plural == "pods" {
        oarlock_apis::core::pod_status::pair_addresses(new);
        if new.at(&["status", "qosClass"]).is_none()
            && let Some(class) = old.at(&["status", "qosClass"]).cloned()
        {
            new.set_at(&["status", "qosClass"], class);
        }
    }
    let errors = oarlock_apis::validate_change(resource, "status", new, old);
    let of_status = |error: &&oarlock_meta::FieldError| error.field.starts_with("status");
    let refused: Vec<String> = errors.iter().filter(of_status).map(ToString::to_string).collect();
    assert!(refused.is_empty(), "{refused:?}\n{}", String::from_utf8_lossy(&encode(new)));
}

fn object(obj: &Obj) -> Object {
    Object::from_json(obj.ty(), encode(obj)).unwrap()
}

fn selected(options: &ListOptions, obj: &Obj) -> bool {
    let node = obj.at(&["spec", "nodeName"]).and_then(|v| v.as_str()).unwrap_or("");
    options.field_selector.exact("spec.nodeName").is_none_or(|wanted| wanted == node)
        && options.field_selector.exact("metadata.name").is_none_or(|wanted| wanted == obj.name())
}

#[async_trait]
impl Transport for Api {
    async fn call(&self, request: Request) -> Result<Reply, Status> {
        let resource = request.resource;
        let key = (resource.plural, request.namespace.clone(), request.name.clone());
        let slash = if request.subresource.is_empty() { "" } else { "/" };
        let verb = format!("{} {}{slash}{}", request.call.verb(), resource.plural, request.subresource);
        let mut state = self.state.lock();
        *state.calls.entry(verb).or_default() += 1;
        if state.down {
            return Err(Status::service_unavailable("down"));
        }
        let answer = match request.call {
            Call::Get(_) => {
                let found = state.objects.get(&key);
                object(found.ok_or_else(|| Status::not_found(&resource.group_resource(), &key.2))?)
            }
            Call::Create(obj, _) => state.create(resource, obj)?,
            Call::Patch(kind, body, _) => {
                let kind = if kind == PatchType::Strategic { PatchKind::Strategic } else { PatchKind::Merge };
                state.patch(resource, key, kind, &body)?
            }
            Call::Delete(options) => {
                state.delete(resource, key, options.grace_period_seconds, options.uid.as_deref())?
            }
            Call::List(options) => {
                let of = state.objects.iter().filter(|((plural, ..), _)| *plural == resource.plural);
                let items = of.filter(|(_, obj)| selected(&options, obj)).map(|(_, obj)| object(obj)).collect();
                return Ok(Reply::List(List { revision: Revision(state.revision), items, ..List::default() }));
            }
            other => panic!("not served here: {}", other.verb()),
        };
        drop(state);
        self.changed.notify_waiters();
        Ok(Reply::Object { object: answer, created: false })
    }

    async fn watch(&self, resource: &'static Resource, _: &str, options: ListOptions) -> Result<WatchStream, Status> {
        let state = self.state.lock();
        let mut first = Vec::new();
        let mut from = options.resource_version.map_or(0, Revision::get);
        if options.send_initial_events == Some(true) {
            let of = state.objects.iter().filter(|((plural, ..), _)| *plural == resource.plural);
            first.extend(of.filter(|(_, obj)| selected(&options, obj)).map(|(_, obj)| Event::Added(object(obj))));
            from = state.revision;
            first.push(Event::Bookmark { revision: Revision(from), initial_events_end: true });
        }
        drop(state);
        let plural = resource.plural;
        Ok(Box::new(Stream { api: self.clone(), plural, options, from, first, at: 0 }))
    }

    async fn raw(&self, _: RawRequest) -> Result<RawReply, Status> {
        Err(Status::service_unavailable("no raw requests here"))
    }
}

struct Stream {
    api: Api,
    plural: &'static str,
    options: ListOptions,
    from: u64,
    first: Vec<Event>,
    at: usize,
}

#[async_trait]
impl Watch for Stream {
    async fn next(&mut self) -> Option<Vec<Event>> {
        if !self.first.is_empty() {
            return Some(std::mem::take(&mut self.first));
        }
        loop {
            let changed = self.api.changed.clone();
            let mut changed = std::pin::pin!(changed.notified());
            changed.as_mut().enable();
            let mut events = Vec::new();
            {
                let state = self.api.state.lock();
                for (revision, plural, before, obj, gone) in state.log.iter().skip(self.at) {
                    if *revision > self.from && *plural == self.plural && selected(&self.options, obj) {
                        events.push(match (gone, before) {
                            (true, _) => Event::Deleted(object(obj)),
                            (false, true) => Event::Modified(object(obj)),
                            (false, false) => Event::Added(object(obj)),
                        });
                    }
                }
                self.at = state.log.len();
            }
            if !events.is_empty() {
                return Some(events);
            }
            changed.await;
        }
    }
}

/// Returns a pod with one container `main` on node `n1`, changed by `change` (merged over the whole object).
pub(crate) fn pod(name: &str, change: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "generation": 1},
        "spec": {"nodeName": "n1", "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "main", "image": "nginx:1", "imagePullPolicy": "IfNotPresent"}]},
        "status": {"phase": "Pending", "qosClass": "BestEffort", "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    });
    merge(&mut pod, change);
    pod
}

fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, change) => *into = change.clone(),
    }
}

/// Returns annotations for the simulated runtime.
pub(crate) fn says(pairs: &[(&str, &str)]) -> Value {
    let pairs = pairs.iter().map(|(key, value)| (format!("{}{key}", crate::PREFIX), Value::from(*value)));
    json!({"metadata": {"annotations": pairs.collect::<serde_json::Map<_, _>>()}})
}
