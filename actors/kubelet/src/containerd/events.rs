//! Reports state changes of containers from containerd's event service (CRI's GetContainerEvents is missing in 1.6), and lists all containers whenever events
//! may have been missed: after each connection, and every few minutes. The follower has no task of its own: the future of [`Follower::next`] does all the work,
//! and may be dropped at any await point.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::BoxFuture;
use oarlock_contracts::containerd::{Envelope, Events, SubscribeRequest, TaskExit};
use oarlock_runtime::{Instant, clock};
use oarlock_schema::Str;
use prost::Message;
use tonic::Streaming;

use super::{Containerd, Socket, v1};
use crate::cri::{self, ContainerState, RuntimeEvent};

/// Pause before reconnecting to a runtime that closed the connection.
const RECONNECT_PAUSE: Duration = Duration::from_millis(250);
/// Delay between the subscription and the listing of all containers. The server does not acknowledge a subscription, so an earlier listing could miss events.
const LIST_DELAY: Duration = Duration::from_secs(1);
/// Period of listing all containers, in case an event was missed (as upstream's evented PLEG).
const LIST_PERIOD: Duration = Duration::from_secs(300);
/// First pause before asking for a container's status again. CRI learns of an exit after the event has been sent, so the status is asked for with doubling
/// pauses until it shows the exit.
const FIRST_STATUS_PAUSE: Duration = Duration::from_millis(10);
const STATUS_ATTEMPTS: u32 = 10;

enum Link {
    Down,
    Opening(BoxFuture<'static, cri::Result<Streaming<Envelope>>>),
    Open(Box<Streaming<Envelope>>),
}

/// A pending status request about a container.
#[derive(Clone, Copy)]
struct StatusRequest {
    at: Instant,
    /// Whether an event reported the container's end, whatever CRI's first answer says.
    ended: bool,
    tries: u32,
}

/// Follower of the container events of one runtime.
pub(super) struct Follower {
    link: Link,
    retry: Instant,
    relist: Instant,
    requests: BTreeMap<Str, StatusRequest>,
    /// Sandboxes found ended; the pod that owns a sandbox recognizes its id.
    dead: BTreeSet<Str>,
    /// Last reported state of each container; state and attempt tell changes apart.
    reported: BTreeMap<Str, ContainerState>,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").field("requests", &self.requests.len()).finish_non_exhaustive()
    }
}

impl Follower {
    pub(super) fn new() -> Self {
        let now = clock::now();
        Self {
            link: Link::Down,
            retry: now,
            relist: now,
            requests: BTreeMap::new(),
            dead: BTreeSet::new(),
            reported: BTreeMap::new(),
        }
    }

    /// Returns the next event. Cancel safe: an event stays queued until returned.
    pub(super) async fn next(&mut self, runtime: &Containerd) -> RuntimeEvent {
        loop {
            let now = clock::now();
            if let Some((id, look)) = self.due(now)
                && let Some(event) = self.look(runtime, id, look).await
            {
                return event;
            }
            if let Some(id) = self.dead.pop_first() {
                return RuntimeEvent::Sandbox { id };
            }
            if self.relist <= now {
                self.list(runtime).await;
                continue;
            }
            if matches!(self.link, Link::Down) && self.retry <= now {
                self.link = open(&runtime.socket);
                self.relist = now + LIST_DELAY;
            }
            let wake = self.requests.values().map(|look| look.at).chain([self.relist]).min().unwrap_or(self.relist);
            let wake = if matches!(self.link, Link::Down) { wake.min(self.retry) } else { wake };
            let envelope = tokio::select! {
                biased;
                envelope = listen(&mut self.link) => envelope,
                () = clock::sleep_until(wake) => continue,
            };
            match envelope {
                Ok(envelope) => self.handle(&envelope),
                Err(why) => {
                    tracing::debug!(%why, "no more events of the container runtime; connecting again");
                    self.link = Link::Down;
                    self.retry = clock::after(RECONNECT_PAUSE);
                }
            }
        }
    }

    fn due(&self, now: Instant) -> Option<(Str, StatusRequest)> {
        self.requests.iter().find(|(_, look)| look.at <= now).map(|(id, look)| (id.clone(), *look))
    }

    fn handle(&mut self, envelope: &Envelope) {
        let Some(event) = &envelope.event else { return };
        let Ok(exit) = TaskExit::decode(event.value.clone()) else { return };
        if exit.id == exit.container_id {
            self.requests.insert(exit.container_id.into(), StatusRequest { at: clock::now(), ended: true, tries: 0 });
        }
    }

    /// Requests one container's status and returns what has changed.
    async fn look(&mut self, runtime: &Containerd, id: Str, look: StatusRequest) -> Option<RuntimeEvent> {
        let answer = runtime.status_of(&id).await;
        let again = match &answer {
            Ok((_, status)) => look.ended && status.state != ContainerState::Exited,
            Err(cri::Error::NotFound(_)) => false,
            Err(_) => true,
        };
        if again && look.tries < STATUS_ATTEMPTS {
            let at = clock::after(FIRST_STATUS_PAUSE * 2_u32.saturating_pow(look.tries));
            self.requests.insert(id, StatusRequest { at, tries: look.tries + 1, ..look });
            return None;
        }
        self.requests.remove(&id);
        let Ok((pod_uid, status)) = answer else {
            // A sandbox, or a container removed meanwhile; the pod that owns the sandbox recognizes its id.
            let listed = self.reported.remove(&id).is_some();
            return (look.ended && !listed).then_some(RuntimeEvent::Sandbox { id });
        };
        if self.reported.insert(id, status.state) == Some(status.state) {
            return None;
        }
        Some(RuntimeEvent::Container { pod_uid, status })
    }

    /// Requests the status of every container whose state differs from the last report.
    async fn list(&mut self, runtime: &Containerd) {
        let (Ok(containers), Ok(sandboxes)) = (runtime.containers(None).await, runtime.sandboxes(None).await) else {
            self.relist = clock::after(RECONNECT_PAUSE);
            return;
        };
        let ended = sandboxes.into_iter().filter(|sandbox| sandbox.state() != v1::PodSandboxState::SandboxReady);
        self.dead.extend(ended.map(|sandbox| Str::from(sandbox.id)));
        self.relist = clock::after(LIST_PERIOD);
        let now = clock::now();
        let present: BTreeMap<Str, i32> =
            containers.into_iter().map(|container| (container.id.into(), container.state)).collect();
        self.reported.retain(|id, _| present.contains_key(id));
        for (id, state) in present {
            let reported = self.reported.get(&id).is_some_and(|reported| super::state(state) == *reported);
            if !reported {
                self.requests.entry(id).or_insert(StatusRequest { at: now, ended: false, tries: 0 });
            }
        }
    }
}

fn open(socket: &Socket) -> Link {
    let socket = socket.clone();
    let filters = vec![r#"namespace=="k8s.io",topic=="/tasks/exit""#.to_owned()];
    Link::Opening(Box::pin(async move { socket.stream(Events::SUBSCRIBE, SubscribeRequest { filters }).await }))
}

/// Why a connection brings no more events.
#[derive(Debug, thiserror::Error)]
enum ListenError {
    /// The subscription failed.
    #[error(transparent)]
    Subscribe(#[from] cri::Error),
    /// The stream broke.
    #[error(transparent)]
    Broken(#[from] tonic::Status),
    /// The runtime closed the stream.
    #[error("the stream ended")]
    Ended,
}

/// Returns the next event. Waits without limit while there is no event.
async fn listen(link: &mut Link) -> Result<Envelope, ListenError> {
    loop {
        match link {
            Link::Down => std::future::pending().await,
            Link::Opening(opening) => match opening.await {
                Ok(stream) => *link = Link::Open(Box::new(stream)),
                Err(error) => return Err(error.into()),
            },
            Link::Open(stream) => return stream.message().await?.ok_or(ListenError::Ended),
        }
    }
}
