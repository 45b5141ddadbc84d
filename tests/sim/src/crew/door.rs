//! A process's connection to the API server, with a wire and timeouts of its own. Sent messages arrive even when the process has ended.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use oarlock_client::{
    Call, Event, ListOptions, RawBody, RawReply, RawRequest, Reply, Request, Transport, Watch, WatchStream,
};
use oarlock_meta::Status;
use oarlock_runtime::{Gate, clock};
use oarlock_schema::Resource;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::replicas::replica::{Answer, Replica, Stream};
use crate::replicas::wire::{Kind, Marks, Wire};

/// The time after which a call without an answer is given up.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// The time after which a silent connection is given up.
const SILENCE: Duration = Duration::from_secs(10);
/// The time between two attempts of a refused request.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// A process's connection to the API server. Clones share the connection.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) server: Arc<Replica>,
    pub(super) wire: Arc<Wire>,
    pub(super) net: Gate,
    /// The life of the process: a dead one neither receives nor sends.
    pub(super) life: CancellationToken,
    /// What members have written under no claim, and had to.
    pub(super) missing: Arc<Mutex<Vec<String>>>,
    /// Whether the door is a member's, whose writes are for units.
    pub(super) member: bool,
    pub(super) marks: Arc<Marks>,
}

impl Door {
    async fn alive(&self) {
        if self.life.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }

    /// What the server did, whoever waits for it. What it wrote under a claim it says itself ([`super::told`]).
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

/// Whether a member may do it under no claim: it reads, or it says that it lives, who holds what, or what users are told, which is true whoever tells it.
fn is_own(request: &Request) -> bool {
    match (&request.call, request.resource.plural) {
        (call, _) if call.is_read() => true,
        (_, "leases" | "assignments" | "events") => true,
        // Its controllers' own, which are there before it holds anything; `default` is a controller's work.
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

    /// Discovery is asked for, whether the server knows Assignments; it does.
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
    /// What the server has said and is still on its way.
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
