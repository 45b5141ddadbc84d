//! A process's connection to the API server, with its own wire and timeouts. Sent messages arrive even when the process has ended.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use oarlock_client::{
    Call, Event, ListOptions, RawBody, RawReply, RawRequest, Reply, Request, Transport, Watch, WatchStream,
};
use oarlock_meta::Status;
use oarlock_runtime::{Gate, Rng, clock, rng};
use oarlock_schema::Resource;
use oarlock_storage::testing::faulty::Faults;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::replicas::history::Recorder;
use crate::replicas::replica::{Answer, Replica, Stream};
use crate::replicas::truth::Truth;
use crate::replicas::wire::{Kind, Marks, Wire};

/// The time after which a call without an answer is given up.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// The time after which a silent connection is given up.
const SILENCE: Duration = Duration::from_secs(10);
/// The time between two attempts of a refused request.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// A log without faults.
pub(super) const FAITHFUL: Faults =
    Faults { lose_answer: 0, drop: 0, late: 0, refuse: 0, stall: 0, repeat: 0, compact: 0 };

/// A process's connection to the API server. Clones share the connection.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) server: Arc<Replica>,
    pub(super) wire: Arc<Wire>,
    pub(super) net: Gate,
    /// The life of the process: a dead process neither receives nor sends.
    pub(super) life: CancellationToken,
    /// Writes of members that required a claim and had none.
    pub(super) missing: Arc<Mutex<Vec<String>>>,
    /// Whether the connection is a member's, whose writes are for units.
    pub(super) member: bool,
    pub(super) marks: Arc<Marks>,
}

impl Door {
    /// Starts a server without faults, and connects to it. Returns the server's log, too.
    pub(super) async fn to_new_server() -> (Self, Arc<Truth>) {
        let mut rng = rng::with(Rng::fork);
        let (net, marks) = (Gate::new("net"), Arc::new(Marks::default()));
        let truth = Arc::new(Truth::new(Arc::new(Recorder::new())).await);
        let log = Arc::clone(&truth);
        let server = Replica::new("api".to_owned(), &mut rng, log, FAITHFUL, net.clone(), Arc::clone(&marks));
        server.start().await;
        let wire = Arc::new(Wire::new(rng.fork(), Arc::clone(&marks)));
        let (life, missing) = (CancellationToken::new(), Arc::default());
        (Self { server: Arc::new(server), wire, net, life, missing, member: false, marks }, truth)
    }

    async fn alive(&self) {
        if self.life.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }

    /// Records what the server did, whether or not the caller still waits. The server itself logs writes under claims ([`super::told`]).
    fn note(&self, request: &Request, told: &Result<Reply, Status>) {
        match (&request.fence, told) {
            (None, Ok(_)) if self.member && !is_own(request) => {
                let (verb, resource, name) = (request.call.verb(), request.resource.plural, &request.name);
                self.missing.lock().push(format!("{verb} {resource}/{} {name}", request.subresource));
            }
            (Some(_), Err(status)) if status.is_stale_owner() => self.marks.note("stale owner refused", 1),
            _ => {}
        }
    }
}

/// Whether a member may make the request without a claim: reads, heartbeats, Assignments, and Events, which are true whoever writes them.
fn is_own(request: &Request) -> bool {
    match (&request.call, request.resource.plural) {
        (call, _) if call.is_read() => true,
        (_, "leases" | "assignments" | "events") => true,
        // The accounts of the member's own controllers, which exist before the member holds a unit; a controller makes the account `default`.
        (Call::Create(account, _), "serviceaccounts") => {
            request.namespace == "kube-system" && account.meta().name() != "default"
        }
        _ => false,
    }
}

#[async_trait]
impl Transport for Door {
    async fn call(&self, request: Request) -> Result<Reply, Status> {
        self.alive().await;
        let deadline = clock::after(CALL_TIMEOUT.min(request.timeout));
        let ((sender, answer), door) = (oneshot::channel(), self.clone());
        let message = async move {
            if !door.wire.pass(Kind::Request).await {
                return;
            }
            let told = loop {
                match door.server.call(request.clone()).await {
                    Answer::Replied(told) => break Some(told),
                    Answer::Refused => clock::sleep(RETRY_INTERVAL).await,
                    Answer::Lost => break None,
                }
            };
            let Some(told) = told else { return };
            door.note(&request, &told);
            if door.wire.pass(Kind::Answer).await {
                let _gave_up = sender.send(told);
            }
        };
        self.net.spawn("to the server", message).map_err(|closed| Status::service_unavailable(closed.to_string()))?;
        let told = clock::timeout_at(deadline, answer).await;
        self.alive().await;
        match told {
            Ok(Ok(told)) => told,
            _ => {
                clock::sleep_until(deadline).await;
                self.alive().await;
                Err(Status::timeout("no answer: outcome unknown", 0))
            }
        }
    }

    async fn watch(
        &self,
        resource: &'static Resource,
        namespace: &str,
        options: ListOptions,
    ) -> Result<WatchStream, Status> {
        self.alive().await;
        let begin = async {
            if !self.wire.pass(Kind::Request).await {
                return None;
            }
            let stream = self.server.watch(resource, namespace, options).await?;
            self.wire.pass(Kind::Answer).await.then_some(stream)
        };
        let begun = clock::timeout(CALL_TIMEOUT, begin).await;
        self.alive().await;
        match begun {
            Ok(Some(stream)) => Ok(Box::new(Through { stream, door: self.clone(), coming: None, over: false })),
            _ => Err(Status::service_unavailable("no watch")),
        }
    }

    /// Members read discovery to learn whether the server knows Assignments; this server does.
    async fn raw(&self, _: RawRequest) -> Result<RawReply, Status> {
        self.alive().await;
        let passed = clock::timeout(CALL_TIMEOUT, async {
            self.wire.pass(Kind::Request).await && self.wire.pass(Kind::Answer).await
        });
        match passed.await {
            Ok(true) => Ok(RawReply { code: 200, headers: Vec::new(), body: Box::new(Nothing) }),
            _ => Err(Status::timeout("no answer", 0)),
        }
    }
}

struct Nothing;

#[async_trait]
impl RawBody for Nothing {
    async fn next(&mut self) -> Option<Result<Bytes, Status>> {
        None
    }
}

struct Through {
    stream: Stream,
    door: Door,
    /// The batch that is being received, kept here so that a cancelled wait loses nothing.
    coming: Option<Result<Option<Vec<Event>>, ()>>,
    over: bool,
}

#[async_trait]
impl Watch for Through {
    async fn next(&mut self) -> Option<Vec<Event>> {
        if self.over {
            return None;
        }
        if self.coming.is_none() {
            self.coming = Some(self.stream.next().await);
        }
        let arrived = clock::timeout(SILENCE, self.door.wire.pass(Kind::Stream)).await;
        self.door.alive().await;
        let broken = match (self.coming.take(), arrived) {
            (Some(Ok(events)), Ok(true)) => return events,
            (Some(Ok(_)), _) => "the connection is silent",
            _ => "the connection broke",
        };
        self.over = true;
        Some(vec![Event::Error(Status::service_unavailable(broken))])
    }
}
