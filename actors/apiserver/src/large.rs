//! Large requests: where they run, so that they do not hold up small ones.
//!
//! To decode, patch, validate and authorize a body of megabytes takes seconds of processor time without an await. On the threads that serve all connections
//! nobody else would be served for that long. So a large request
//!
//! * waits for one of a few lanes, users in turns, so that one user's many requests are not before another's one;
//! * runs in a task of its own, each poll of which gives the thread's other work away (`block_in_place`). A runtime of one thread has nobody to
//!   give it to, and runs the task as it is: virtual time keeps its order;
//! * is answered with 429 when too many wait: it, or, when none of its user waits, the newest of the user of whom most do. Who sends many cannot
//!   shut out who sends one;
//! * is answered with 504 at its deadline. A task that is late keeps its lane until it really ends, so there
//!   are never more of them than lanes.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use oarlock_codec::negotiate::Format;
use oarlock_meta::Status;
use oarlock_runtime::{Gate, Instant, Task, TaskError, clock};
use oarlock_schema::Str;
use oarlock_seeded_bug::seeded_bug;
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

/// One user's, in their order: each with its number.
#[derive(Debug)]
struct Waiters {
    user: Str,
    /// Whether they are let in however many wait; then they do not count among those either.
    always: bool,
    senders: VecDeque<(u64, oneshot::Sender<Lane>)>,
}

/// How many lanes are free, and which requests wait for one.
#[derive(Debug)]
struct Queue {
    free: usize,
    next: u64,
    /// Users in the order of their turns; none is here who does not wait.
    users: VecDeque<Waiters>,
}

impl Queue {
    /// Takes the next request out of the queue; its user goes to the end of the turns.
    fn pop(&mut self) -> Option<oneshot::Sender<Lane>> {
        let mut waiters = self.users.pop_front()?;
        let first = waiters.senders.pop_front();
        if !waiters.senders.is_empty() {
            self.users.push_back(waiters);
        }
        first.map(|(_, sender)| sender)
    }

    /// How many wait of those whose number is bounded.
    fn waiting(&self) -> usize {
        self.users.iter().filter(|waiters| !waiters.always).map(|waiters| waiters.senders.len()).sum()
    }

    /// Stands in the queue; `None` when it is too long.
    fn push(&mut self, user: &Str, always: bool) -> Option<(u64, oneshot::Receiver<Lane>)> {
        let at = self.users.iter().position(|waiters| waiters.always == always && waiters.user == *user);
        let own = at.and_then(|at| self.users.get(at)).map_or(0, |waiters| waiters.senders.len());
        if !always && (own >= WAITING_OF_USER || self.waiting() >= WAITING && (own > 0 || !self.push_out())) {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        let number = self.next;
        self.next += 1;
        match at.and_then(|at| self.users.get_mut(at)) {
            Some(waiters) => waiters.senders.push_back((number, sender)),
            None => {
                let senders = VecDeque::from([(number, sender)]);
                self.users.push_back(Waiters { user: user.clone(), always, senders });
            }
        }
        Some((number, receiver))
    }

    /// Sends away the newest of the user of whom most wait; not the only one of a user, who has no less right to wait than who comes now.
    fn push_out(&mut self) -> bool {
        if seeded_bug!("two_users_fill_the_lanes") {
            return false;
        }
        let most = self.users.iter_mut().filter(|waiters| !waiters.always).max_by_key(|waiters| waiters.senders.len());
        most.filter(|waiters| waiters.senders.len() > 1).is_some_and(|waiters| waiters.senders.pop_back().is_some())
    }

    /// Somebody does not wait any more.
    fn forget(&mut self, number: u64) {
        for waiters in &mut self.users {
            waiters.senders.retain(|(other, _)| *other != number);
        }
        self.users.retain(|waiters| !waiters.senders.is_empty());
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
        let queue = Queue { free, next: 0, users: VecDeque::new() };
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
            // Pushed out.
            Ok(Err(_)) => Err(too_many()),
            Err(_) => Err(late()),
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
        assert_eq!((queue.free, queue.users.len()), (1, 0));
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
        assert_eq!(queue.users.len(), 0, "who has gone is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn two_users_that_fill_the_queue_shut_out_nobody() {
        let lanes = lanes(1);
        let hold = lanes.lane(&Str::new("first"), false, clock::after(60 * S)).await.unwrap();
        let gate = Gate::new("waiters");
        let wait = |user: String, always| {
            let lanes = lanes.clone();
            let wait = async move {
                let lane = lanes.lane(&Str::new(&user), always, clock::after(60 * S)).await;
                lane.map(drop).map_err(|status| status.code)
            };
            gate.spawn("waiter", wait).unwrap()
        };
        let settle = || clock::sleep(Duration::from_millis(1));
        let system = wait("system".into(), true);
        settle().await;
        let mut greedy = Vec::new();
        for n in 0..WAITING {
            greedy.push(wait(if n % 2 == 0 { "a" } else { "b" }.into(), false));
            settle().await;
        }
        let third = wait("c".into(), false);
        settle().await;
        let second_of_third = wait("c".into(), false);
        let others: Vec<_> = (0..WAITING - 3).map(|n| wait(format!("user-{n}"), false)).collect();
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
