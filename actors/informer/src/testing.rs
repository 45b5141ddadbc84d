//! An in-memory apiserver that misbehaves on demand, for the tests of this crate.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oarlock_client::{
    Call, Client, Event, List, ListOptions, Object, RawReply, RawRequest, Reply, Request, Transport, Watch, WatchStream,
};
use oarlock_meta::{GroupResource, Revision, Status};
use oarlock_runtime::{Options, System, clock, rng};
use oarlock_schema::{Obj, Resource, resource};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::project::{Project, ResourceName};

/// The projection of a ConfigMap that the tests use.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) value: String,
}

impl Project for Config {
    const RESOURCE: ResourceName = ResourceName::core("configmaps");

    fn project(obj: &Obj) -> Self {
        let value = obj.at(&["data", "v"]).and_then(|v| v.as_str()).unwrap_or("").to_owned();
        Self { value }
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

pub(crate) fn configmaps() -> &'static Resource {
    resource("", "v1", "configmaps").unwrap()
}

/// The faults that the server shows.
#[derive(Clone, Debug)]
pub(crate) struct Behaviour {
    /// The error answer to list-streaming watches, if the server refuses them.
    pub(crate) refuse_streaming: Option<Status>,
    /// List-streaming watches never get their closing bookmark.
    pub(crate) never_closes: bool,
    /// The error of every call and watch.
    pub(crate) down: Option<Status>,
    /// New watches are accepted but send no events.
    pub(crate) mute: bool,
    /// Events and bookmarks are sent twice.
    pub(crate) twice: bool,
    /// The most events after which each stream breaks.
    pub(crate) break_after: Option<u64>,
    /// A continued list finds its token expired.
    pub(crate) expire_continue: bool,
}

struct State {
    revision: u64,
    uids: u64,
    objects: BTreeMap<(String, String), Object>,
    log: VecDeque<(u64, Event)>,
    floor: u64,
    generation: u64,
    behaviour: Behaviour,
    requests: Vec<String>,
    bodies: Vec<String>,
}

/// The in-memory apiserver. Clones share its state.
#[derive(Clone)]
pub(crate) struct Fake {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
}

impl Default for Fake {
    fn default() -> Self {
        let behaviour = Behaviour {
            refuse_streaming: None,
            never_closes: false,
            down: None,
            mute: false,
            twice: false,
            break_after: None,
            expire_continue: false,
        };
        let state = State {
            revision: 100,
            uids: 0,
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            floor: 100,
            generation: 0,
            behaviour,
            requests: Vec::new(),
            bodies: Vec::new(),
        };
        Self { state: Arc::new(Mutex::new(state)), changed: Arc::default() }
    }
}

fn body(namespace: &str, name: &str, uid: &str, value: &str, revision: u64) -> Object {
    let json = format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{uid}","resourceVersion":"{revision}","labels":{{"v":"{value}"}}}},"data":{{"v":"{value}"}}}}"#
    );
    Object::new(configmaps().ty, json.into(), Revision(revision))
}

impl Fake {
    pub(crate) fn client(&self) -> Client {
        Client::new(Arc::new(self.clone()))
    }

    pub(crate) fn behave(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.state.lock().behaviour);
        self.changed.notify_waiters();
    }

    /// Creates or changes an object.
    pub(crate) fn set(&self, name: &str, value: &str) -> Revision {
        let mut state = self.state.lock();
        state.revision += 1;
        let revision = state.revision;
        let key = ("d".to_owned(), name.to_owned());
        let old = state.objects.get(&key).map(Object::uid);
        let uid = old.clone().unwrap_or_else(|| {
            state.uids += 1;
            format!("u{}", state.uids).into()
        });
        let object = body("d", name, &uid, value, revision);
        state.objects.insert(key, object.clone());
        let event = if old.is_some() { Event::Modified(object) } else { Event::Added(object) };
        state.log.push_back((revision, event));
        drop(state);
        self.changed.notify_waiters();
        Revision(revision)
    }

    pub(crate) fn delete(&self, name: &str) -> Option<Revision> {
        let mut state = self.state.lock();
        let object = state.objects.remove(&("d".to_owned(), name.to_owned()))?;
        state.revision += 1;
        let revision = state.revision;
        let last = body("d", name, &object.uid(), "gone", revision);
        state.log.push_back((revision, Event::Deleted(last)));
        drop(state);
        self.changed.notify_waiters();
        Some(Revision(revision))
    }

    /// Drops all events so far: watches from earlier revisions get 410.
    pub(crate) fn compact(&self) {
        let mut state = self.state.lock();
        state.floor = state.revision;
        state.log.clear();
        drop(state);
        self.changed.notify_waiters();
    }

    /// Breaks every open stream.
    pub(crate) fn cut(&self) {
        self.state.lock().generation += 1;
        self.changed.notify_waiters();
    }

    pub(crate) fn revision(&self) -> Revision {
        Revision(self.state.lock().revision)
    }

    /// The names and values of all objects.
    pub(crate) fn contents(&self) -> BTreeMap<String, String> {
        let state = self.state.lock();
        let read = |object: &Object| Config::project(&object.obj().unwrap()).value;
        state.objects.iter().map(|((_, name), object)| (name.clone(), read(object))).collect()
    }

    /// The number of requests whose log line begins with `what`.
    pub(crate) fn asked(&self, what: &str) -> usize {
        self.state.lock().requests.iter().filter(|request| request.starts_with(what)).count()
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.lock().requests.clone()
    }

    /// The bodies of creates and patches.
    pub(crate) fn bodies(&self) -> Vec<String> {
        self.state.lock().bodies.clone()
    }

    fn list(state: &State, options: &ListOptions) -> Result<List, Status> {
        let from: usize = options.continue_token.parse().unwrap_or(0);
        if from > 0 && state.behaviour.expire_continue {
            return Err(Status::expired("continue token expired"));
        }
        let limit = usize::try_from(options.limit).unwrap().min(3);
        let limit = if limit == 0 { usize::MAX } else { limit };
        let items: Vec<Object> = state.objects.values().skip(from).take(limit).cloned().collect();
        let end = from + items.len();
        let continue_token = if end < state.objects.len() { end.to_string().into() } else { "".into() };
        Ok(List { revision: Revision(state.revision), items, continue_token, remaining: None })
    }
}

#[async_trait]
impl Transport for Fake {
    async fn call(&self, request: Request) -> Result<Reply, Status> {
        tokio::task::yield_now().await;
        let mut state = self.state.lock();
        state.requests.push(format!("{} {}/{}", request.call.verb(), request.namespace, request.name));
        if let Some(status) = &state.behaviour.down {
            return Err(status.clone());
        }
        match request.call {
            Call::List(options) => Self::list(&state, &options).map(Reply::List),
            Call::Create(obj, _) => {
                let bytes = oarlock_client::encode(&obj);
                state.bodies.push(String::from_utf8(bytes.to_vec()).unwrap());
                state.revision += 1;
                let key = (obj.namespace().to_owned(), obj.name().to_owned());
                let object = Object::new(obj.ty(), bytes, Revision(state.revision));
                state.objects.insert(key, object.clone());
                Ok(Reply::Object { object, created: true })
            }
            Call::Patch(_, bytes, _) => {
                state.bodies.push(String::from_utf8(bytes.to_vec()).unwrap());
                let key = (request.namespace.to_string(), request.name.to_string());
                let found = state.objects.get(&key).cloned();
                let object =
                    found.ok_or_else(|| Status::not_found(&GroupResource::new("", "events"), &request.name))?;
                Ok(Reply::Object { object, created: false })
            }
            other => Err(Status::internal_error(format!("the fake does not {}", other.verb()))),
        }
    }

    async fn watch(&self, _: &'static Resource, _: &str, options: ListOptions) -> Result<WatchStream, Status> {
        tokio::task::yield_now().await;
        let mut state = self.state.lock();
        let streaming = options.send_initial_events == Some(true);
        let from = options.resource_version.unwrap_or_default().get();
        state.requests.push(if streaming { "stream".to_owned() } else { format!("watch {from}") });
        let behaviour = state.behaviour.clone();
        if let Some(status) = behaviour.down {
            return Err(status);
        }
        if let Some(status) = behaviour.refuse_streaming.filter(|_| streaming) {
            return Err(status);
        }
        let mut queue = VecDeque::new();
        let mut at = from;
        if streaming {
            queue.extend(state.objects.values().cloned().map(Event::Added));
            at = state.revision;
            if !behaviour.never_closes {
                queue.push_back(Event::Bookmark { revision: Revision(at), initial_events_end: true });
            }
        } else if from < state.floor {
            return Err(Status::too_old_resource_version(from, state.floor));
        }
        let left = behaviour.break_after.map(|most| rng::below(most) + 1);
        let (fake, generation, mute) = (self.clone(), state.generation, behaviour.mute);
        Ok(Box::new(FakeWatch { fake, at, queue, generation, left, mute, ended: false }))
    }

    async fn raw(&self, _: RawRequest) -> Result<RawReply, Status> {
        Err(Status::not_found_path())
    }
}

struct FakeWatch {
    fake: Fake,
    at: u64,
    queue: VecDeque<Event>,
    generation: u64,
    left: Option<u64>,
    mute: bool,
    ended: bool,
}

impl FakeWatch {
    /// Returns the events to send now.
    fn take(&mut self) -> Option<Vec<Event>> {
        let state = self.fake.state.lock();
        if state.generation > self.generation || self.left == Some(0) {
            self.ended = true;
            return Some(vec![Event::Error(Status::service_unavailable("the stream broke"))]);
        }
        if self.mute {
            return None;
        }
        if self.queue.is_empty() && self.at < state.floor {
            self.ended = true;
            return Some(vec![Event::Error(Status::too_old_resource_version(self.at, state.floor))]);
        }
        let from = self.at;
        for (revision, event) in state.log.iter().filter(|(revision, _)| *revision > from) {
            self.at = *revision;
            self.queue.push_back(event.clone());
            if state.behaviour.twice {
                self.queue.push_back(event.clone());
                let bookmark = Event::Bookmark { revision: Revision(*revision), initial_events_end: false };
                self.queue.extend([bookmark.clone(), bookmark]);
            }
        }
        drop(state);
        let most = self.left.unwrap_or(7).min(7).min(self.queue.len() as u64);
        self.left = self.left.map(|left| left - most);
        let batch: Vec<Event> = self.queue.drain(..usize::try_from(most).unwrap()).collect();
        (!batch.is_empty()).then_some(batch)
    }
}

#[async_trait]
impl Watch for FakeWatch {
    async fn next(&mut self) -> Option<Vec<Event>> {
        loop {
            if self.ended {
                return None;
            }
            let fake = self.fake.clone();
            let mut changed = std::pin::pin!(fake.changed.notified());
            changed.as_mut().enable();
            if let Some(batch) = self.take() {
                return Some(batch);
            }
            changed.await;
        }
    }
}

/// Starts an actor system for one test.
pub(crate) async fn system() -> System {
    System::start(Options { host: "test".into(), watchdog: None, ..Options::default() }).await.unwrap()
}

/// A deadline that only a hanging test reaches.
pub(crate) fn soon() -> clock::Instant {
    clock::after(Duration::from_secs(600))
}

/// An encoded ConfigMap, for caches that a test fills directly.
pub(crate) fn object(name: &str, uid: &str, value: &str, revision: u64) -> Object {
    body("d", name, uid, value, revision)
}

/// Waits in virtual time until `reached` returns `true`.
pub(crate) async fn until(mut reached: impl FnMut() -> bool) {
    let deadline = soon();
    while !reached() {
        assert!(!deadline.passed(), "the condition was not reached");
        clock::sleep(Duration::from_millis(1)).await;
    }
}
