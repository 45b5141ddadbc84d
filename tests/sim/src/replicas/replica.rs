//! One API server: its successive processes, and its connections to clients and to the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oarlock_client::{Event, ListOptions, Reply, Request, Transport, WatchStream};
use oarlock_meta::Status;
use oarlock_runtime::{Gate, Rng, clock};
use oarlock_schema::Resource;
use oarlock_storage::testing::faulty::{Faults, FaultyLog};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use super::link::Link;
use super::process::Process;
use super::truth::Truth;
use super::wire::{Kind, Marks, Wire};

/// Time after which a client gives up a call without an answer. Longer than the time limit of any call.
const CALL_TIMEOUT: Duration = Duration::from_secs(3);
/// The pause before a process that could not start is started again.
const RESTART_DELAY: Duration = Duration::from_millis(300);

/// One API server: its successive processes, and its connections to clients and to the log.
pub(crate) struct Replica {
    pub(crate) name: String,
    /// The wire between clients and the replica.
    pub(crate) front: Arc<Wire>,
    /// The wire between the replica and the log.
    pub(crate) back: Arc<Wire>,
    pub(crate) log: FaultyLog,
    /// Held by the task that starts or ends a process.
    pub(crate) life: Arc<tokio::sync::Mutex<()>>,
    pub(crate) cancel_tails: Arc<Notify>,
    truth: Arc<Truth>,
    net: Gate,
    marks: Arc<Marks>,
    processes: AtomicU64,
    running: Mutex<Option<Arc<Process>>>,
}

/// The outcome of a call.
pub(crate) enum Answer {
    Replied(Result<Reply, Status>),
    /// The call was refused and certainly not begun.
    Refused,
    /// No answer was received.
    Lost,
}

/// A watch on a connection that faults can break.
pub(crate) struct Stream {
    process: Arc<Process>,
    front: Arc<Wire>,
    marks: Arc<Marks>,
    events: WatchStream,
    /// The batch that is being received, kept here so that a cancelled wait loses nothing.
    coming: Option<Option<Vec<Event>>>,
}

impl Replica {
    pub(crate) fn new(
        name: String,
        rng: &mut Rng,
        truth: Arc<Truth>,
        faults: Faults,
        net: Gate,
        marks: Arc<Marks>,
    ) -> Self {
        let log = FaultyLog::new(Arc::clone(&truth) as _, faults, rng.u64());
        let [front, back] = [(); 2].map(|()| Arc::new(Wire::new(rng.fork(), Arc::clone(&marks))));
        let (life, cancel_tails) = (Arc::default(), Arc::default());
        let (processes, running) = (AtomicU64::new(0), Mutex::default());
        Self { name, front, back, log, life, cancel_tails, truth, net, marks, processes, running }
    }

    /// Starts a process; repeats until a process can read the log.
    pub(crate) async fn start(&self) {
        loop {
            let host = format!("{}-{}", self.name, self.processes.fetch_add(1, Ordering::Relaxed));
            let link = Link {
                log: self.log.clone(),
                truth: Arc::clone(&self.truth),
                wire: Arc::clone(&self.back),
                net: self.net.clone(),
                cancel: Arc::clone(&self.cancel_tails),
                life: CancellationToken::new(),
                marks: Arc::clone(&self.marks),
                lost: Arc::default(),
            };
            if let Some(process) = Process::start(host, link).await {
                *self.running.lock() = Some(Arc::new(process));
                return;
            }
            clock::sleep(RESTART_DELAY).await;
        }
    }

    /// Kills the process.
    pub(crate) async fn crash(&self) {
        let Some(process) = self.running.lock().take() else { return };
        self.marks.note("crash", process.requests.inside() as u64);
        self.net.spawn("burial", process.kill()).unwrap();
    }

    /// Shuts the process down in order and starts another one.
    pub(crate) async fn bounce(&self) {
        let Some(process) = self.running.lock().clone() else { return };
        self.marks.note("bounce", process.requests.inside() as u64);
        process.end().await;
        *self.running.lock() = None;
    }

    /// Makes a call at the replica.
    pub(crate) async fn call(&self, request: Request) -> Answer {
        let process = self.running.lock().clone();
        let Some(process) = process else {
            clock::sleep(Duration::from_millis(1)).await;
            return Answer::Refused;
        };
        let deadline = clock::after(CALL_TIMEOUT);
        let ((sender, answer), front, marks) = (oneshot::channel(), Arc::clone(&self.front), Arc::clone(&self.marks));
        let message = async move {
            if !front.pass(Kind::Request).await {
                return;
            }
            let answer = match process.requests.enter("request") {
                Err(_) => Answer::Refused,
                Ok(_inside) => tokio::select! {
                    biased;
                    () = process.life.cancelled() => Answer::Lost,
                    told = process.api.call(request) => Answer::Replied(told),
                },
            };
            if matches!(answer, Answer::Refused) {
                marks.note("bounce", 1);
            }
            // A broken connection is noticed at once; a message lost on a cut wire is not.
            if matches!(answer, Answer::Lost) || front.pass(Kind::Answer).await {
                let _gave_up = sender.send(answer);
            }
        };
        self.net.spawn("to a server", message).unwrap();
        match clock::timeout_at(deadline, answer).await {
            Ok(Ok(answer)) => answer,
            _ => {
                clock::sleep_until(deadline).await;
                Answer::Lost
            }
        }
    }

    /// Begins a watch; `None` when the replica does not answer.
    pub(crate) async fn watch(
        &self,
        resource: &'static Resource,
        namespace: &str,
        options: ListOptions,
    ) -> Option<Stream> {
        let process = self.running.lock().clone()?;
        let (front, marks) = (Arc::clone(&self.front), Arc::clone(&self.marks));
        let begin = async {
            if process.requests.is_closed() || !self.front.pass(Kind::Request).await {
                return None;
            }
            let events = process.api.watch(resource, namespace, options).await.ok()?;
            self.front.pass(Kind::Answer).await.then_some(events)
        };
        let events = clock::timeout(CALL_TIMEOUT, process.or_killed(begin)).await.ok()???;
        Some(Stream { process, front, marks, events, coming: None })
    }

    /// Whether a process is running that has not failed.
    pub(crate) fn is_running(&self) -> bool {
        self.running.lock().as_ref().is_some_and(|process| {
            process.sound();
            true
        })
    }
}

impl Stream {
    /// Returns the next events; `Ok(None)` when the watch ended in order. Cancel safe.
    ///
    /// # Errors
    /// The connection broke.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Event>>, ()> {
        if self.coming.is_none() {
            self.coming = self.process.or_killed(self.events.next()).await;
        }
        if self.coming.is_none() {
            self.marks.note("crash", 1);
            return Err(());
        }
        let way = clock::timeout(CALL_TIMEOUT, self.process.or_killed(self.front.pass(Kind::Stream))).await;
        let events = self.coming.take().flatten();
        if way != Ok(Some(true)) {
            return Err(());
        }
        if events.is_none() && self.process.server.state().is_stopping() {
            self.marks.note("bounce", 1);
        }
        Ok(events)
    }
}
