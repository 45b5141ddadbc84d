//! The event recorder: writes Events about objects for users (`kubectl describe`). Best effort and bounded; repetitions become a count.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use oarlock_client::{Call, Client, Fence, PatchType, WriteOptions, fence};
use oarlock_meta::Status;
use oarlock_runtime::kind::{ActorKind, OnShutdown, Phase};
use oarlock_runtime::{Actor, Ctx, Failure, Handle, System, clock, rng};
use oarlock_schema::{Resource, Str, resource};
use serde_json::json;

use crate::obj_meta::ObjMeta;

mod body;
mod correlate;
#[cfg(test)]
mod tests;

use correlate::{Correlator, Outcome, Record};

/// The actor kind of event recorders.
pub static RECORDER: ActorKind = ActorKind {
    name: "informer.events",
    on_shutdown: OnShutdown::Finish,
    phase: Phase::Informers,
    mailbox: 1024,
    ..ActorKind::DEFAULT
};

/// The deadline of writing one Event, retries included; after the deadline the Event is lost.
const WRITE_DEADLINE: Duration = Duration::from_secs(10);

/// The type of an Event (`type` on the wire).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// The component did what it should.
    Normal,
    /// Something may be wrong with the object.
    Warning,
}

impl EventType {
    /// Returns the value on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// A reference to the object that an Event is about (upstream `v1.ObjectReference`).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Group and version.
    pub api_version: Str,
    /// Kind.
    pub kind: Str,
    /// Namespace, empty for cluster-scoped objects; their Events go to `default`.
    pub namespace: Str,
    /// Name.
    pub name: Str,
    /// Uid.
    pub uid: Str,
    /// The revision of the object that the component has read; empty if irrelevant.
    pub resource_version: Str,
    /// A part of the object, as `spec.containers{web}`.
    pub field_path: Str,
}

impl ObjectRef {
    /// A reference to an object of a cache.
    #[must_use]
    pub fn of(resource: &Resource, meta: &ObjMeta) -> Self {
        Self {
            api_version: resource.group_version().into(),
            kind: resource.kind.into(),
            namespace: meta.key.namespace.clone(),
            name: meta.key.name.clone(),
            uid: meta.uid.0.clone(),
            resource_version: meta.revision.to_string().into(),
            field_path: Str::default(),
        }
    }
}

/// Records Events about objects through an actor. Clones share the actor; recording never waits.
#[derive(Clone, Debug)]
pub struct Recorder {
    handle: Handle<RecorderMessage>,
    origin: Arc<Origin>,
}

/// The source of Events: the identity that writes, the component and host that are named, and the claim.
#[derive(Debug)]
struct Origin {
    client: Client,
    component: Str,
    host: Str,
    fence: Option<Fence>,
}

/// The message of a recorder's actor.
type RecorderMessage = (Record, Arc<Origin>);

impl Recorder {
    /// Starts a recorder for `component` (of a kubelet also on `host`; otherwise empty), which writes as `client`'s identity.
    ///
    /// # Errors
    /// When a recorder of this component and host is running already, or the system is shutting down.
    pub fn start<'a>(
        system: &'a System,
        client: Client,
        component: &'a str,
        host: &'a str,
    ) -> BoxFuture<'a, Result<Self, oarlock_runtime::Error>> {
        Box::pin(Self::begin(system, client, component, host))
    }

    async fn begin(
        system: &System,
        client: Client,
        component: &str,
        host: &str,
    ) -> Result<Self, oarlock_runtime::Error> {
        let key = if host.is_empty() { component.to_owned() } else { format!("{component}/{host}") };
        let (component, host) = (component.into(), host.into());
        let origin = Origin { client: client.with_timeout(WRITE_DEADLINE), component, host, fence: None };
        Ok(Self { handle: system.spawn(&RECORDER, key, Writer).await?, origin: Arc::new(origin) })
    }

    /// Returns a recorder for another host that writes as `client`'s identity through the same actor, so that a thousand kubelets need only one.
    #[must_use]
    pub fn on(&self, client: &Client, host: &str) -> Self {
        let client = client.with_timeout(WRITE_DEADLINE);
        let component = self.origin.component.clone();
        let origin = Origin { client, component, host: host.into(), fence: self.origin.fence.clone() };
        Self { handle: self.handle.clone(), origin: Arc::new(origin) }
    }

    /// Returns a recorder whose Events are written under a claim, or dropped if another process holds the claim; `None` removes the claim.
    #[must_use]
    pub fn under(&self, fence: Option<Fence>) -> Self {
        let Origin { client, component, host, .. } = &*self.origin;
        let origin = Origin { client: client.clone(), component: component.clone(), host: host.clone(), fence };
        Self { handle: self.handle.clone(), origin: Arc::new(origin) }
    }

    /// Records an Event about an object. The Event is lost when the recorder's mailbox is full.
    pub fn event(&self, about: &ObjectRef, kind: EventType, reason: &str, message: impl Into<String>) {
        let record = Record {
            about: about.clone(),
            kind,
            reason: reason.into(),
            message: message.into(),
            at: clock::wall().as_second(),
        };
        if let Err(error) = self.handle.try_send((record, self.origin.clone())) {
            tracing::debug!(recorder = self.handle.name(), %error, reason, "event lost");
        }
    }

    /// As [`Recorder::event`], of type Normal.
    pub fn normal(&self, about: &ObjectRef, reason: &str, message: impl Into<String>) {
        self.event(about, EventType::Normal, reason, message);
    }

    /// As [`Recorder::event`], of type Warning.
    pub fn warning(&self, about: &ObjectRef, reason: &str, message: impl Into<String>) {
        self.event(about, EventType::Warning, reason, message);
    }
}

/// The actor of a recorder, which writes Events one at a time.
struct Writer;

struct State {
    events: &'static Resource,
    correlator: Correlator,
    /// The number in the last Event's name; names must differ even when the clock does not advance.
    stamp: i128,
    written: u64,
    dropped: u64,
    last_error: String,
}

impl Actor for Writer {
    type Message = RecorderMessage;
    type State = State;

    async fn start(&self, _: &Ctx<RecorderMessage>) -> Result<State, Failure> {
        let events = resource("", "v1", "events").ok_or("the schema has no events")?;
        let correlator = Correlator::default();
        Ok(State { events, correlator, stamp: 0, written: 0, dropped: 0, last_error: String::new() })
    }

    async fn handle(
        &self,
        state: &mut State,
        (record, origin): RecorderMessage,
        ctx: &Ctx<RecorderMessage>,
    ) -> Result<(), Failure> {
        let outcome = state.correlator.take(&record, clock::now());
        let written = async {
            match outcome {
                Outcome::Drop => Ok(false),
                Outcome::New { message } => self.create(state, &record, &origin, (&message, 1)).await.map(|()| true),
                Outcome::Repeat { name, count, message } => {
                    self.repeat(state, &record, &origin, &name, (&message, count)).await.map(|()| true)
                }
            }
        };
        match ctx.protected(fence::scope(origin.fence.clone(), written)).await {
            Ok(true) => state.written += 1,
            Ok(false) => state.dropped += 1,
            // The process that holds the claim now records its own Events.
            Err(status) if status.is_stale_owner() => state.dropped += 1,
            Err(status) => {
                state.dropped += 1;
                state.last_error = status.to_string();
                tracing::warn!(recorder = ctx.name(), %status, reason = %record.reason, "event not written");
            }
        }
        Ok(())
    }

    fn observe(&self, state: &State) -> serde_json::Value {
        json!({"written": state.written, "dropped": state.dropped, "lastError": state.last_error})
    }
}

impl Writer {
    async fn create(
        &self,
        state: &mut State,
        record: &Record,
        origin: &Origin,
        (message, count): (&str, u32),
    ) -> Result<(), Status> {
        let now = clock::wall().as_nanosecond();
        state.stamp = now.max(state.stamp + 1);
        let name = body::name(&record.about.name, state.stamp);
        let object = body::event(&name, record, message, count, (&origin.component, &origin.host))?;
        let namespace = body::namespace(&record.about).to_owned();
        let create = || Call::Create(object.clone(), WriteOptions::default());
        let mut answer = origin.client.call(state.events, "", &namespace, "", create()).await;
        if let Err(status) = &answer
            && (status.is_service_unavailable() || status.is_too_many_requests())
        {
            // One retry after a pause, so that a restart of the apiserver does not lose every Event.
            let pause = Duration::from_secs(status.retry_after().unwrap_or(1).clamp(1, 5).into());
            clock::sleep(rng::jitter(pause, 50)).await;
            answer = origin.client.call(state.events, "", &namespace, "", create()).await;
        }
        answer?;
        state.correlator.wrote(record, message, &name, count);
        Ok(())
    }

    async fn repeat(
        &self,
        state: &mut State,
        record: &Record,
        origin: &Origin,
        name: &str,
        (message, count): (&str, u32),
    ) -> Result<(), Status> {
        let patch = body::patch(record, message, count)?;
        let namespace = body::namespace(&record.about).to_owned();
        let patch = Call::Patch(PatchType::Strategic, patch, WriteOptions::default());
        match origin.client.call(state.events, "", &namespace, name, patch).await {
            Ok(_) => {
                state.correlator.wrote(record, message, name, count);
                Ok(())
            }
            // The Event has expired: a new one continues the count.
            Err(status) if status.is_not_found() => self.create(state, record, origin, (message, count)).await,
            Err(status) => Err(status),
        }
    }
}
