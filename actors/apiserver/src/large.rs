//! Runs large requests apart from small ones, so that they do not delay them.
//!
//! Decoding, patching, validating and authorizing a body of megabytes takes seconds of processor time without an await. On the threads that serve all
//! connections no other request would be served for that long. Therefore a large request
//!
//! * waits for one of a few lanes; users take turns, so that many requests of one user do not delay another user's;
//! * runs in a task of its own, each poll of which moves the thread's other tasks to another thread (`block_in_place`) and runs on a thread of low
//!   priority: when there is more work than processors, small requests and probes come first. A single-threaded runtime has no other thread and polls
//!   the task directly, so virtual time keeps its order;
//! * is answered with 429 when too many requests wait. If its user has no waiting request yet, the newest request of the user with the most waiting
//!   ones is refused instead, so that a user with many requests cannot shut out a user with one;
//! * is answered with 504 at its deadline. A task past its deadline keeps its lane until it really ends, so there are never more tasks than lanes.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use oarlock_codec::negotiate::Format;
use oarlock_meta::Status;
use oarlock_runtime::{Gate, Instant, Task, TaskError, clock};
use oarlock_schema::Str;
use oarlock_seeded_bug::seeded_bug;
use oarlock_telemetry::traces;
use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

/// Number of bytes from which a body, or the stored object that a request changes, is large.
const LARGE_BYTES: usize = 256 << 10;
/// Number of values from which a body is large: many short values cost more than one long value.
const LARGE_VALUES: usize = 16 << 10;
/// Number of bytes from which a protobuf body is large: the format has no separators to count, and a value may take only two bytes.
const LARGE_PROTOBUF_BYTES: usize = 64 << 10;
/// Maximum number of waiting large requests.
const MAX_WAITING: usize = 64;
/// Maximum number of waiting large requests of one user.
const MAX_WAITING_PER_USER: usize = 32;

/// Whether a body takes long to process. Separators inside strings are counted too: an estimate is enough.
pub(crate) fn is_large(format: Format, body: &[u8]) -> bool {
    let nodes = |separator| memchr::memchr_iter(separator, body).take(LARGE_VALUES).count() == LARGE_VALUES;
    body.len() >= LARGE_BYTES
        || match format {
            _ if body.len() < LARGE_VALUES => false,
            Format::Json => nodes(b','),
            Format::Yaml => nodes(b'\n') || nodes(b','),
            Format::Protobuf => body.len() >= LARGE_PROTOBUF_BYTES,
        }
}

/// Whether a stored object takes long to change, judged by the length of its JSON.
pub(crate) fn is_large_stored(length: usize) -> bool {
    length >= LARGE_BYTES
}

/// The lanes in which large requests run.
#[derive(Clone, Debug)]
pub(crate) struct Lanes {
    queue: Arc<Mutex<Queue>>,
    gate: Gate,
}

/// The waiting requests of one user in order of arrival, each with its number.
#[derive(Debug)]
struct Waiters {
    user: Str,
    /// Whether these requests are exempt from the bounds on waiting requests, and are not counted among them.
    exempt: bool,
    senders: VecDeque<(u64, oneshot::Sender<Lane>)>,
}

/// The free lanes, and the requests that wait for a lane.
#[derive(Debug)]
struct Queue {
    free: usize,
    next: u64,
    /// Users in the order of their turns; only users with a waiting request.
    users: VecDeque<Waiters>,
}

impl Queue {
    /// Removes the next request from the queue; its user moves to the end of the turns.
    fn pop(&mut self) -> Option<oneshot::Sender<Lane>> {
        let mut waiters = self.users.pop_front()?;
        let first = waiters.senders.pop_front();
        if !waiters.senders.is_empty() {
            self.users.push_back(waiters);
        }
        first.map(|(_, sender)| sender)
    }

    /// Returns the number of waiting requests that count against the bounds.
    fn waiting(&self) -> usize {
        self.users.iter().filter(|waiters| !waiters.exempt).map(|waiters| waiters.senders.len()).sum()
    }

    /// Adds a request to the queue; `None` when the queue is full.
    fn push(&mut self, user: &Str, exempt: bool) -> Option<(u64, oneshot::Receiver<Lane>)> {
        let at = self.users.iter().position(|waiters| waiters.exempt == exempt && waiters.user == *user);
        let own = at.and_then(|at| self.users.get(at)).map_or(0, |waiters| waiters.senders.len());
        if !exempt
            && (own >= MAX_WAITING_PER_USER || self.waiting() >= MAX_WAITING && (own > 0 || !self.refuse_newest()))
        {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        let number = self.next;
        self.next += 1;
        match at.and_then(|at| self.users.get_mut(at)) {
            Some(waiters) => waiters.senders.push_back((number, sender)),
            None => {
                let senders = VecDeque::from([(number, sender)]);
                self.users.push_back(Waiters { user: user.clone(), exempt, senders });
            }
        }
        Some((number, receiver))
    }

    /// Refuses the newest request of the user with the most waiting requests, and returns whether there was one. A user's only request is never
    /// refused: it has as much right to wait as the new one.
    fn refuse_newest(&mut self) -> bool {
        if seeded_bug!("two_users_fill_the_lanes") {
            return false;
        }
        let most = self.users.iter_mut().filter(|waiters| !waiters.exempt).max_by_key(|waiters| waiters.senders.len());
        most.filter(|waiters| waiters.senders.len() > 1).is_some_and(|waiters| waiters.senders.pop_back().is_some())
    }

    /// Removes a request that no longer waits.
    fn remove(&mut self, number: u64) {
        for waiters in &mut self.users {
            waiters.senders.retain(|(other, _)| *other != number);
        }
        self.users.retain(|waiters| !waiters.senders.is_empty());
    }
}

/// The permission to run one large request, returned to the queue when dropped.
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
                // The waiting request was cancelled. Dropping the returned lane must not hand it on again: the drops would nest, one for each
                // cancelled request.
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
        self.queue.lock().remove(self.number);
    }
}

impl Lanes {
    /// Creates half as many lanes as there are processors: the other half is for small requests. Tasks are spawned in `gate`.
    pub(crate) fn new(gate: Gate) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::of(gate, processors.div_ceil(2))
    }

    fn of(gate: Gate, free: usize) -> Self {
        let queue = Queue { free, next: 0, users: VecDeque::new() };
        Self { queue: Arc::new(Mutex::new(queue)), gate }
    }

    /// Takes a free lane or waits for one.
    async fn lane(&self, user: &Str, exempt: bool, deadline: Instant) -> Result<Lane, Status> {
        let (number, receiver) = {
            let mut queue = self.queue.lock();
            if queue.free > 0 {
                queue.free -= 1;
                return Ok(Lane { queue: Some(Arc::clone(&self.queue)) });
            }
            queue.push(user, exempt).ok_or_else(too_many)?
        };
        let _waiter = Waiter { queue: &self.queue, number };
        match clock::timeout_at(deadline, receiver).await {
            Ok(Ok(lane)) => Ok(lane),
            // Refused in favour of another user's request.
            Ok(Err(_)) => Err(too_many()),
            Err(_) => Err(timed_out()),
        }
    }

    /// Runs a large request. `exempt` frees it from the bounds on waiting requests.
    ///
    /// # Errors
    /// 429 when too many requests wait, 504 at the deadline, 503 when the server shuts down, and the error of `work`.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        user: &Str,
        exempt: bool,
        deadline: Instant,
        work: impl Future<Output = Result<T, Status>> + Send + 'static,
    ) -> Result<T, Status> {
        let lane = self.lane(user, exempt, deadline).await?;
        let work = traces::within(Some(traces::current()), work);
        let work = BlockInPlace(Box::pin(async move {
            let done = work.await;
            drop(lane);
            done
        }));
        let closed = |_| Status::service_unavailable("the server is shutting down");
        let mut running = Running(self.gate.spawn_until("large", deadline, work).map_err(closed)?);
        match clock::timeout_at(deadline, &mut running.0).await {
            Ok(Ok(done)) => done,
            Err(_) | Ok(Err(TaskError::Deadline)) => Err(timed_out()),
            Ok(Err(TaskError::Aborted)) => Err(Status::service_unavailable("the server is shutting down")),
            Ok(Err(TaskError::Panicked(why))) => Err(Status::internal_error(why)),
        }
    }
}

fn too_many() -> Status {
    Status::too_many_requests("Too many requests, please try again later.", 1)
}

/// Returns the 504 answer to a request at its deadline, with upstream's text.
pub(crate) fn timed_out() -> Status {
    Status::timeout("request did not complete within the allotted timeout", 0)
}

/// A running task, aborted at its next await when the request that waits for it is dropped.
struct Running<T>(Task<T>);

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Niceness of the threads on which large requests are polled: about a tenth of the processor time of a thread of the server that has work at the same
/// time. Raising the niceness needs no privilege, and lowering it again does, so these threads are not those of the runtime.
const NICENESS: i32 = 10;

/// A future whose polls may block the thread for long.
struct BlockInPlace<F>(Pin<Box<F>>);

impl<F> Future for BlockInPlace<F>
where
    F: Future + Send,
    F::Output: Send,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let mut future = self.0.as_mut();
        match Handle::try_current() {
            Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => {
                let polled = tokio::task::block_in_place(|| poll_apart(future.as_mut(), context.waker(), &runtime));
                polled.unwrap_or_else(|| future.poll(context))
            }
            _ => future.poll(context),
        }
    }
}

/// Polls a future once on a thread of low priority, which ends with the poll; `None` when the system grants no thread.
fn poll_apart<F>(future: Pin<&mut F>, waker: &Waker, runtime: &Handle) -> Option<Poll<F::Output>>
where
    F: Future + Send,
    F::Output: Send,
{
    let span = tracing::Span::current();
    let poll = move || {
        // Without the lower priority the request is as fast as before, and others are slower.
        let _ = rustix::process::setpriority_process(None, NICENESS);
        let _entered = runtime.enter();
        span.in_scope(|| future.poll(&mut Context::from_waker(waker)))
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("large".to_owned()).spawn_scoped(scope, poll).ok()?;
        // A panic goes on as if it had happened here: the gate catches it.
        Some(thread.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload)))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn a_body_is_large_by_its_bytes_or_by_its_nodes() {
        let (long, many) = (vec![b'x'; LARGE_BYTES], b"1,".repeat(LARGE_VALUES));
        assert!(is_large(Format::Json, &long) && is_large(Format::Json, &many));
        assert!(!is_large(Format::Json, &long[1..]) && !is_large(Format::Json, &many[2..]));
        assert!(
            is_large(Format::Yaml, &b"-\n".repeat(LARGE_VALUES))
                && is_large(Format::Protobuf, &long[..LARGE_PROTOBUF_BYTES])
        );
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
        assert_eq!((queue.free, queue.users.len()), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_are_refused_and_a_late_one_is_told_so() {
        let lanes = lanes(1);
        let forever = || std::future::pending::<Result<(), Status>>();
        let user = Str::new("a");
        let waits = |exempt| lanes.run(&user, exempt, clock::after(10 * S), forever());
        let all = futures::future::join_all((0..MAX_WAITING_PER_USER + 3).map(|_| waits(false))).await;
        let codes: Vec<u16> = all.iter().map(|answer| answer.as_ref().unwrap_err().code).collect();
        assert_eq!(codes.iter().filter(|code| **code == 504).count(), MAX_WAITING_PER_USER + 1);
        assert_eq!(codes[MAX_WAITING_PER_USER + 1..], [429, 429]);
        assert_eq!(all.last().unwrap().as_ref().unwrap_err().retry_after(), Some(1));
        let queue = lanes.queue.lock();
        assert_eq!(queue.users.len(), 0, "who has gone is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn two_users_that_fill_the_queue_shut_out_nobody() {
        let lanes = lanes(1);
        let hold = lanes.lane(&Str::new("first"), false, clock::after(60 * S)).await.unwrap();
        let gate = Gate::new("waiters");
        let wait = |user: String, exempt| {
            let lanes = lanes.clone();
            let wait = async move {
                let lane = lanes.lane(&Str::new(&user), exempt, clock::after(60 * S)).await;
                lane.map(drop).map_err(|status| status.code)
            };
            gate.spawn("waiter", wait).unwrap()
        };
        let settle = || clock::sleep(Duration::from_millis(1));
        let system = wait("system".into(), true);
        settle().await;
        let mut greedy = Vec::new();
        for n in 0..MAX_WAITING {
            greedy.push(wait(if n % 2 == 0 { "a" } else { "b" }.into(), false));
            settle().await;
        }
        let third = wait("c".into(), false);
        settle().await;
        let second_of_third = wait("c".into(), false);
        let others: Vec<_> = (0..MAX_WAITING - 3).map(|n| wait(format!("user-{n}"), false)).collect();
        settle().await;
        let one_too_many = wait("d".into(), false);
        settle().await;
        drop(hold);
        assert_eq!((system.await.unwrap(), third.await.unwrap()), (Ok(()), Ok(())), "one each gets its turn");
        assert_eq!(second_of_third.await.unwrap(), Err(429), "who waits already pushes nobody out");
        for other in others {
            assert_eq!(other.await.unwrap(), Ok(()));
        }
        assert_eq!(one_too_many.await.unwrap(), Err(429), "when one of each waits they are all alike");
        let mut codes = Vec::new();
        for waiter in greedy {
            codes.push(waiter.await.unwrap());
        }
        assert_eq!(codes[..2], [Ok(()), Ok(())], "the oldest of each stays");
        assert!(codes[2..].iter().all(|code| *code == Err(429)), "{codes:?}");
        let queue = lanes.queue.lock();
        assert_eq!((queue.free, queue.users.len()), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_gives_its_place_back() {
        let lanes = lanes(1);
        let user = Str::new("a");
        let hold = lanes.lane(&user, false, clock::after(S)).await.unwrap();
        assert!(clock::timeout(S / 2, lanes.lane(&user, false, clock::after(60 * S))).await.is_err());
        assert_eq!(lanes.queue.lock().users.len(), 0);
        let (next, ()) = futures::join!(lanes.lane(&user, false, clock::after(S)), async { drop(hold) });
        drop(next.unwrap());
        assert_eq!(lanes.queue.lock().free, 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_blocks_its_thread_blocks_nobody_else() {
        let lanes = lanes(1);
        let (tell, told) = std::sync::mpsc::channel();
        let (gate, user) = (Gate::new("other"), Str::new("a"));
        // The work ends when another task of the only worker thread has sent the message.
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
