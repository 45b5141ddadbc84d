//! The connection of a scheduler process to the API server: every message takes time. A dead process receives nothing more, but its sent messages
//! arrive.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use oarlock_apiserver::InProcess;
use oarlock_client::{
    Event, ListOptions, RawBody, RawReply, RawRequest, Reply, Request, Transport, Watch, WatchStream,
};
use oarlock_meta::Status;
use oarlock_runtime::{Gate, Instant, Rng, clock};
use oarlock_schema::Resource;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Longest delay of most messages, in milliseconds.
const USUAL_DELAY_MS: u64 = 3;
/// One message in this many has a longer delay.
const ONE_IN_DELAYED: u64 = 40;
/// Longest of the longer delays, in milliseconds.
const LONG_DELAY_MS: u64 = 400;
/// One write in this many is held on the wire until its client has stopped waiting for the answer.
const ONE_IN_HELD: u64 = 150;
/// Longest time by which a held write arrives after its client has given up, in milliseconds.
const HELD_MS: u64 = 4_000;
/// The time that a client waits for the answer of a delayed message.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// Longest time from a client's request until the server has a held write.
pub(super) const LONGEST_WAY: Duration = Duration::from_millis(ANSWER_TIMEOUT.as_millis() as u64 + HELD_MS);

/// A scheduler process's connection to the API server, on which messages take time.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) api: Arc<InProcess>,
    pub(super) life: CancellationToken,
    pub(super) net: Gate,
    pub(super) rng: Arc<Mutex<Rng>>,
    /// Number of held writes.
    pub(super) held: Arc<AtomicU64>,
}

impl Line {
    fn delay(&self) -> Duration {
        let mut rng = self.rng.lock();
        let most = if rng.chance(1, ONE_IN_DELAYED) { LONG_DELAY_MS } else { USUAL_DELAY_MS };
        Duration::from_millis(rng.below(most))
    }

    /// Returns how long after its client has given up a held write arrives; `None` for a write that is not held.
    fn held(&self, request: &Request) -> Option<Duration> {
        let mut rng = self.rng.lock();
        let held = !request.call.is_read() && rng.chance(1, ONE_IN_HELD);
        held.then(|| Duration::from_millis(rng.below(HELD_MS)))
    }

    async fn or_dead<T>(&self, future: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            () = self.life.cancelled() => std::future::pending().await,
            value = future => value,
        }
    }
}

#[async_trait]
impl Transport for Line {
    async fn call(&self, request: Request) -> Result<Reply, Status> {
        let (there, back, api) = (self.delay(), self.delay(), self.api.clone());
        let held = self.held(&request);
        let there = held.map_or(there, |later| ANSWER_TIMEOUT + later);
        let sent = self.net.spawn("call", async move {
            clock::sleep(there).await;
            let answer = api.call(request).await;
            clock::sleep(back).await;
            answer
        });
        let sent = sent.map_err(|closed| Status::service_unavailable(closed.to_string()))?;
        if held.is_some() {
            self.held.fetch_add(1, Ordering::Relaxed);
            self.or_dead(clock::sleep(ANSWER_TIMEOUT)).await;
            return Err(Status::timeout("no answer: outcome unknown", 0));
        }
        let answer = self.or_dead(sent).await;
        answer.map_err(|error| Status::internal_error(error.to_string()))?
    }

    async fn watch(
        &self,
        resource: &'static Resource,
        namespace: &str,
        options: ListOptions,
    ) -> Result<WatchStream, Status> {
        let stream = self.or_dead(self.api.watch(resource, namespace, options)).await?;
        Ok(Box::new(Late { stream, line: self.clone(), come: VecDeque::new(), ended: false }))
    }

    /// Members ask whether the server knows Assignments. There is no discovery in process.
    async fn raw(&self, request: RawRequest) -> Result<RawReply, Status> {
        assert_eq!(request.path, "/apis/oarlock.dev/v1");
        self.or_dead(clock::sleep(self.delay())).await;
        Ok(RawReply { code: 200, headers: Vec::new(), body: Box::new(Nothing) })
    }
}

struct Nothing;

#[async_trait]
impl RawBody for Nothing {
    async fn next(&mut self) -> Option<Result<Bytes, Status>> {
        None
    }
}

/// A watch whose events come late, in their order.
struct Late {
    stream: WatchStream,
    line: Line,
    come: VecDeque<(Instant, Vec<Event>)>,
    ended: bool,
}

#[async_trait]
impl Watch for Late {
    async fn next(&mut self) -> Option<Vec<Event>> {
        loop {
            if let Some((at, _)) = self.come.front() {
                let at = *at;
                self.line.or_dead(clock::sleep_until(at)).await;
                return self.come.pop_front().map(|(_, events)| events);
            }
            if self.ended {
                return None;
            }
            match self.line.or_dead(self.stream.next()).await {
                Some(events) => self.come.push_back((clock::after(self.line.delay()), events)),
                None => self.ended = true,
            }
        }
    }
}
