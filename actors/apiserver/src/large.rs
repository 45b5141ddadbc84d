//! Large requests: where they run, so that they do not hold up small ones.
//!
//! To decode, patch, validate and authorize a body of megabytes takes seconds of processor time without an await. On the threads that serve all connections
//! nobody else would be served for that long. So a large request
//!
//! * waits for one of a few lanes. Users take turns, so that many requests of one user do not delay the single request of another;
//! * runs in a task of its own, whose polls hand the other work of their thread to another thread (`block_in_place`). A runtime with a single thread has no
//!   other thread, and polls the task directly; virtual time keeps its order that way;
//! * is answered with 429 when too many requests wait, and with 504 at its deadline. A task that is past its deadline keeps its lane until it has really
//!   ended, so that there are never more running tasks than lanes.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use oarlock_codec::negotiate::Format;
use oarlock_meta::Status;
use oarlock_runtime::{Gate, Instant, Task, TaskError, clock};
use oarlock_schema::Str;
use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

/// Number of bytes from which a body is large, or the stored object that a request changes.
const BYTES: usize = 256 << 10;
/// Number of values from which a body is large: many short values cost more than a long one.
const NODES: usize = 16 << 10;
/// Number of bytes from which a protobuf body is large: it has no separators to count, and a value may take two bytes only.
const PROTOBUF: usize = 64 << 10;
/// How many large requests may wait at most, all users together.
const WAITING: usize = 64;
/// How many large requests of one user may wait at most.
const WAITING_OF_USER: usize = 32;

/// Whether a body takes long to process. Separators inside of texts are counted too: an estimate is enough.
pub(crate) fn is_large(format: Format, body: &[u8]) -> bool {
    let nodes = |separator| memchr::memchr_iter(separator, body).take(NODES).count() == NODES;
    body.len() >= BYTES
        || match format {
            _ if body.len() < NODES => false,
            Format::Json => nodes(b','),
            Format::Yaml => nodes(b'\n') || nodes(b','),
            Format::Protobuf => body.len() >= PROTOBUF,
        }
}

/// Whether a stored object takes long to change, judged by the length of its JSON.
pub(crate) fn is_large_stored(length: usize) -> bool {
    length >= BYTES
}

/// Where large requests run.
#[derive(Clone, Debug)]
pub(crate) struct Lanes {
    queue: Arc<Mutex<Queue>>,
    gate: Gate,
}

/// The waiting requests of one user in the order of their arrival, each with its number.
type Waiters = VecDeque<(u64, oneshot::Sender<Lane>)>;

/// How many lanes are free, and which requests wait for one.
#[derive(Debug)]
struct Queue {
    free: usize,
    waiting: usize,
    next: u64,
    /// Users with waiting requests, in the order of their turns.
    users: VecDeque<(Str, Waiters)>,
}

impl Queue {
    /// Takes the next request out of the queue; its user goes to the end of the turns.
    fn pop(&mut self) -> Option<oneshot::Sender<Lane>> {
        let (user, mut waiters) = self.users.pop_front()?;
        let first = waiters.pop_front();
        if !waiters.is_empty() {
            self.users.push_back((user, waiters));
        }
        self.waiting = self.waiting.saturating_sub(usize::from(first.is_some()));
        first.map(|(_, sender)| sender)
    }

    /// Adds a request to the queue; `None` when the queue is full. `always` requests are taken even then.
    fn push(&mut self, user: &Str, always: bool) -> Option<(u64, oneshot::Receiver<Lane>)> {
        let at = self.users.iter().position(|(name, _)| name == user);
        let own = at.and_then(|at| self.users.get(at)).map_or(0, |(_, waiters)| waiters.len());
        if !always && (self.waiting >= WAITING || own >= WAITING_OF_USER) {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        let number = self.next;
        self.next += 1;
        self.waiting += 1;
        match at.and_then(|at| self.users.get_mut(at)) {
            Some((_, waiters)) => waiters.push_back((number, sender)),
            None => self.users.push_back((user.clone(), VecDeque::from([(number, sender)]))),
        }
        Some((number, receiver))
    }

    /// Removes a request that no longer waits.
    fn forget(&mut self, number: u64) {
        let before: usize = self.waiting;
        for (_, waiters) in &mut self.users {
            let length = waiters.len();
            waiters.retain(|(other, _)| *other != number);
            self.waiting -= length - waiters.len();
        }
        if self.waiting != before {
            self.users.retain(|(_, waiters)| !waiters.is_empty());
        }
    }
}

/// The right to run a large request, given back when dropped.
#[derive(Debug)]
struct Lane {
    /// `None` once the lane has been handed to another request.
    queue: Option<Arc<Mutex<Queue>>>,
}

impl Drop for Lane {
    fn drop(&mut self) {
        let Some(queue) = self.queue.take() else { return };
        loop {
            let next = {
                let mut queue = queue.lock();
                let next = queue.pop();
                queue.free += usize::from(next.is_none());
                next
            };
            let Some(next) = next else { return };
            match next.send(Self { queue: Some(Arc::clone(&queue)) }) {
                Ok(()) => return,
                // The waiter has gone. The lane that comes back must not pass itself on when it is dropped: the drops would nest, one for each waiter that
                // has gone.
                Err(mut lane) => lane.queue = None,
            }
        }
    }
}

/// A waiting request, removed from the queue when dropped.
struct Waiter<'a> {
    queue: &'a Mutex<Queue>,
    number: u64,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.queue.lock().forget(self.number);
    }
}

impl Lanes {
    /// Half as many lanes as there are processors: the other half is for small requests. Tasks are spawned at `gate`.
    pub(crate) fn new(gate: Gate) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::of(gate, processors.div_ceil(2))
    }

    fn of(gate: Gate, free: usize) -> Self {
        let queue = Queue { free, waiting: 0, next: 0, users: VecDeque::new() };
        Self { queue: Arc::new(Mutex::new(queue)), gate }
    }

    async fn lane(&self, user: &Str, always: bool, deadline: Instant) -> Result<Lane, Status> {
        let (number, receiver) = {
            let mut queue = self.queue.lock();
            if queue.free > 0 {
                queue.free -= 1;
                return Ok(Lane { queue: Some(Arc::clone(&self.queue)) });
            }
            queue.push(user, always).ok_or_else(too_many)?
        };
        let _waiter = Waiter { queue: &self.queue, number };
        match clock::timeout_at(deadline, receiver).await {
            Ok(Ok(lane)) => Ok(lane),
            Ok(Err(_)) | Err(_) => Err(late()),
        }
    }

    /// Runs a large request. `always` lets it wait however many others do.
    ///
    /// # Errors
    /// 429 when too many wait, 504 at the deadline, 503 when the server ends, and whatever `work` returns.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        user: &Str,
        always: bool,
        deadline: Instant,
        work: impl Future<Output = Result<T, Status>> + Send + 'static,
    ) -> Result<T, Status> {
        let lane = self.lane(user, always, deadline).await?;
        let work = Aside(Box::pin(async move {
            let done = work.await;
            drop(lane);
            done
        }));
        let closed = |_| Status::service_unavailable("the server is shutting down");
        let mut running = Running(self.gate.spawn_until("large", deadline, work).map_err(closed)?);
        match clock::timeout_at(deadline, &mut running.0).await {
            Ok(Ok(done)) => done,
            Err(_) | Ok(Err(TaskError::Deadline)) => Err(late()),
            Ok(Err(TaskError::Aborted)) => Err(Status::service_unavailable("the server is shutting down")),
            Ok(Err(TaskError::Panicked(why))) => Err(Status::internal_error(why)),
        }
    }
}

fn too_many() -> Status {
    Status::too_many_requests("Too many requests, please try again later.", 1)
}

/// The answer to a request at its deadline, in upstream's words.
pub(crate) fn late() -> Status {
    Status::timeout("request did not complete within the allotted timeout", 0)
}

/// A running task, which is aborted at its next await when nobody waits for it any more.
struct Running<T>(Task<T>);

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A future whose polls may take long.
struct Aside<F>(Pin<Box<F>>);

impl<F: Future> Future for Aside<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.0.as_mut();
        let threads = Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
        if threads { tokio::task::block_in_place(|| future.poll(context)) } else { future.poll(context) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn a_body_is_large_by_its_bytes_or_by_its_nodes() {
        let (long, many) = (vec![b'x'; BYTES], b"1,".repeat(NODES));
        assert!(is_large(Format::Json, &long) && is_large(Format::Json, &many));
        assert!(!is_large(Format::Json, &long[1..]) && !is_large(Format::Json, &many[2..]));
        assert!(is_large(Format::Yaml, &b"-\n".repeat(NODES)) && is_large(Format::Protobuf, &long[..PROTOBUF]));
        assert!(!is_large(Format::Json, b"{}") && !is_large(Format::Protobuf, b""));
    }

    fn lanes(count: usize) -> Lanes {
        Lanes::of(Gate::new("large"), count)
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_run_at_once_and_users_take_turns() {
        let lanes = lanes(1);
        let order = Arc::new(Mutex::new(Vec::new()));
        let one = |user: &'static str| {
            let (lanes, order) = (lanes.clone(), Arc::clone(&order));
            async move {
                let seen = Arc::clone(&order);
                let work = async move {
                    let free = {
                        seen.lock().push(user);
                        1
                    };
                    clock::sleep(S).await;
                    Ok::<_, Status>(free)
                };
                lanes.run(&Str::new(user), false, clock::after(60 * S), work).await.map_err(|status| status.code)
            }
        };
        let began = clock::now();
        let all = futures::join!(one("a"), one("a"), one("a"), one("b"), one("a"));
        assert_eq!(all, (Ok(1), Ok(1), Ok(1), Ok(1), Ok(1)));
        assert_eq!(began.elapsed(), 5 * S, "one after the other");
        assert_eq!(*order.lock(), ["a", "a", "b", "a", "a"], "b has not waited for all of a's");
        let queue = lanes.queue.lock();
        assert_eq!((queue.free, queue.waiting, queue.users.len()), (1, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_are_refused_and_a_late_one_is_told_so() {
        let lanes = lanes(1);
        let forever = || std::future::pending::<Result<(), Status>>();
        let user = Str::new("a");
        let waits = |always| lanes.run(&user, always, clock::after(10 * S), forever());
        let all = futures::future::join_all((0..WAITING_OF_USER + 3).map(|_| waits(false))).await;
        let codes: Vec<u16> = all.iter().map(|answer| answer.as_ref().unwrap_err().code).collect();
        assert_eq!(codes.iter().filter(|code| **code == 504).count(), WAITING_OF_USER + 1);
        assert_eq!(codes[WAITING_OF_USER + 1..], [429, 429]);
        assert_eq!(all.last().unwrap().as_ref().unwrap_err().retry_after(), Some(1));
        let queue = lanes.queue.lock();
        assert_eq!((queue.waiting, queue.users.len()), (0, 0), "who has gone is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_gives_its_place_back() {
        let lanes = lanes(1);
        let user = Str::new("a");
        let hold = lanes.lane(&user, false, clock::after(S)).await.unwrap();
        assert!(clock::timeout(S / 2, lanes.lane(&user, false, clock::after(60 * S))).await.is_err());
        assert_eq!(lanes.queue.lock().waiting, 0);
        let (next, ()) = futures::join!(lanes.lane(&user, false, clock::after(S)), async { drop(hold) });
        drop(next.unwrap());
        assert_eq!(lanes.queue.lock().free, 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_blocks_its_thread_blocks_nobody_else() {
        let lanes = lanes(1);
        let (tell, told) = std::sync::mpsc::channel();
        let (gate, user) = (Gate::new("other"), Str::new("a"));
        // The work ends when another task of the only worker thread has told it to.
        let work = async move { told.recv().map_err(Status::internal_error) };
        let other = gate.spawn("other", async move {
            clock::sleep(S / 10).await;
            tell.send(7).unwrap();
        });
        let done = lanes.run(&user, false, clock::after(30 * S), work).await;
        assert_eq!(done, Ok(7));
        other.unwrap().await.unwrap();
    }
}
