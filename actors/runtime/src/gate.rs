//! Gates: owners of short-lived tasks.
//!
//! A gate counts the tasks inside. Closing a gate refuses new tasks, asks those inside to finish, waits, and names and aborts the late ones.
//! Requests, connections, watches and reconciles are gated tasks. A panic in a task becomes an error of that task and is counted; no thread and no
//! other task is affected.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use oarlock_seeded_bug::seeded_bug;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::clock::{self, Instant};
use crate::error::panic_text;
use crate::kind::OnSpin;
use crate::progress::Spot;
use crate::spin::Spin;
use crate::trace;

/// How long a closing gate waits for the tasks it aborted; an abort takes effect at a task's next await.
const ABORT_GRACE: Duration = Duration::from_secs(1);

/// An owner of short-lived tasks that can be closed. Clones share the gate.
#[derive(Clone, Debug)]
pub struct Gate {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: Arc<str>,
    token: CancellationToken,
    table: Mutex<Table>,
    changed: Notify,
    panics: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    closed: bool,
    next: u64,
    holders: BTreeMap<u64, Holder>,
}

#[derive(Debug)]
struct Holder {
    name: &'static str,
    since: Instant,
    abort: Option<AbortHandle>,
    spot: Option<Arc<Spot>>,
}

/// The gate is closed and refuses new tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("gate is closed")]
pub struct Closed;

/// The tasks that were still inside when the grace of a closing gate ran out; they were aborted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("gate {gate}: {} late: {}", holders.len(), holders.join(", "))]
pub struct Late {
    /// The gate's name.
    pub gate: String,
    /// The names of the late tasks, longest inside first.
    pub holders: Vec<String>,
    /// Whether some tasks did not end even after the abort.
    pub stuck: bool,
}

/// A task ended without a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// The task panicked with this message.
    #[error("task panicked: {0}")]
    Panicked(String),
    /// The task's deadline passed.
    #[error("task met its deadline")]
    Deadline,
    /// The task was aborted: by [`Task::abort`], or by its gate for being late.
    #[error("task was aborted")]
    Aborted,
}

impl Gate {
    /// Creates an open gate. `name` appears in logs and in [`Late`].
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            inner: Arc::new(Inner {
                name: name.into(),
                token: CancellationToken::new(),
                table: Mutex::default(),
                changed: Notify::new(),
                panics: AtomicU64::new(0),
            }),
        }
    }

    /// Returns the gate's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Enters the gate: a closing gate waits until the returned pass is dropped.
    ///
    /// # Errors
    /// [`Closed`] as soon as the gate has begun to close.
    pub fn enter(&self, name: &'static str) -> Result<Pass, Closed> {
        self.admit(name, None)
    }

    fn admit(&self, name: &'static str, spot: Option<Arc<Spot>>) -> Result<Pass, Closed> {
        let since = clock::now();
        let mut table = self.inner.table.lock();
        if table.closed {
            return Err(Closed);
        }
        let id = table.next;
        table.next += 1;
        table.holders.insert(id, Holder { name, since, abort: None, spot });
        Ok(Pass { gate: self.clone(), id })
    }

    /// Runs `future` as a task inside the gate, in the current span. The task should end soon after [`Gate::cancelled`].
    ///
    /// # Errors
    /// [`Closed`] as soon as the gate has begun to close.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &'static str,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<Task<T>, Closed> {
        self.start(name, tracing::Span::current(), Box::pin(async move { Ok(future.await) }))
    }

    /// Runs `future` as [`Gate::spawn`] does, but outside every span: for tasks that outlive the request that caused them.
    pub(crate) fn spawn_detached<T: Send + 'static>(
        &self,
        name: &'static str,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<Task<T>, Closed> {
        self.start(name, tracing::Span::none(), Box::pin(async move { Ok(future.await) }))
    }

    /// Runs `future` as [`Gate::spawn`] does; at `deadline` the task is dropped and ends with [`TaskError::Deadline`].
    ///
    /// # Errors
    /// [`Closed`] as soon as the gate has begun to close.
    pub fn spawn_until<T: Send + 'static>(
        &self,
        name: &'static str,
        deadline: Instant,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<Task<T>, Closed> {
        let bounded = async move { clock::timeout_at(deadline, future).await.map_err(|_| TaskError::Deadline) };
        self.start(name, tracing::Span::current(), Box::pin(bounded))
    }

    /// Runs a task of a library that spawns detached tasks as a task of this gate: the task is dropped when the gate begins to close. A closed gate
    /// runs nothing and logs the refusal.
    pub fn attach(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let token = self.token();
        let task = async move {
            tokio::select! {
                biased;
                () = token.cancelled() => {}
                () = task => {}
            }
        };
        if let Err(closed) = self.spawn(name, task) {
            tracing::debug!(gate = self.name(), task = name, %closed, "task not run");
        }
    }

    /// Boxed, so that a task's machinery is compiled for each kind of result and not for each future.
    fn start<T: Send + 'static>(
        &self,
        name: &'static str,
        span: tracing::Span,
        future: BoxFuture<'static, Result<T, TaskError>>,
    ) -> Result<Task<T>, Closed> {
        let spot = Arc::new(Spot::default());
        let pass = self.admit(name, Some(spot.clone()))?;
        let id = pass.id;
        let guarded = async move {
            trace::perturb().await;
            let result = AssertUnwindSafe(spot.watch(pin!(future))).catch_unwind().await;
            let result = result.unwrap_or_else(|payload| Err(pass.gate.panicked(name, panic_text(payload.as_ref()))));
            drop(pass);
            result
        };
        #[expect(clippy::disallowed_methods, reason = "this is what everybody else is told to use")]
        let join = tokio::spawn(guarded.instrument(span));
        if let Some(holder) = self.inner.table.lock().holders.get_mut(&id) {
            holder.abort = Some(join.abort_handle());
        }
        Ok(Task { join })
    }

    fn panicked(&self, name: &'static str, message: String) -> TaskError {
        self.inner.panics.fetch_add(1, Ordering::Relaxed);
        tracing::error!(gate = self.name(), task = name, message, "gated task panicked");
        trace::panicked(&format!("{}/{name}", self.name()), &message);
        TaskError::Panicked(message)
    }

    /// Completes when the gate begins to close; the tasks inside should then finish.
    pub async fn cancelled(&self) {
        self.inner.token.cancelled().await;
    }

    /// Returns a token that is cancelled when the gate begins to close.
    pub fn token(&self) -> CancellationToken {
        self.inner.token.clone()
    }

    /// Returns the number of tasks and passes inside.
    pub fn inside(&self) -> usize {
        self.inner.table.lock().holders.len()
    }

    /// Returns how many tasks of this gate have panicked.
    pub fn panics(&self) -> u64 {
        self.inner.panics.load(Ordering::Relaxed)
    }

    /// Whether the gate has begun to close.
    pub fn is_closed(&self) -> bool {
        self.inner.table.lock().closed
    }

    /// Closes the gate: refuses new tasks, asks those inside to finish, waits up to `grace`, then aborts the late ones. Returns how long closing
    /// took. May be called again, and from several tasks at once.
    ///
    /// # Errors
    /// [`Late`] with the names of the aborted tasks.
    pub async fn close(&self, grace: Duration) -> Result<Duration, Late> {
        let began = clock::now();
        self.inner.table.lock().closed = true;
        self.inner.token.cancel();
        if clock::timeout(grace, self.empty()).await.is_ok() {
            return Ok(began.elapsed());
        }
        let mut holders = Vec::new();
        for holder in self.inner.table.lock().holders.values() {
            tracing::warn!(gate = self.name(), task = holder.name, inside = ?holder.since.elapsed(), "late; aborted");
            holders.push(holder.name.to_owned());
            if let Some(abort) = &holder.abort {
                abort.abort();
            }
        }
        let stuck = clock::timeout(ABORT_GRACE, self.empty()).await.is_err();
        Err(Late { gate: self.name().to_owned(), holders, stuck })
    }

    async fn empty(&self) {
        loop {
            let mut changed = std::pin::pin!(self.inner.changed.notified());
            changed.as_mut().enable();
            if self.inside() == 0 {
                return;
            }
            changed.await;
        }
    }

    /// Returns the gated tasks that several checks of the watchdog have seen in the same poll, with the number of checks. Such a spin may never end
    /// the process, because requests are gated tasks.
    pub(crate) fn look(&self) -> Vec<Spin> {
        let on_spin = if seeded_bug!("request_ends_the_process") { OnSpin::Abort } else { OnSpin::Report };
        let table = self.inner.table.lock();
        let looks = table.holders.values().filter_map(|holder| Some((holder.name, holder.spot.as_ref()?.look())));
        let spin = |(task, looks)| Spin { name: format!("{}/{task}", self.name()), looks, on_spin, actor: false };
        looks.filter(|(_, looks)| *looks > 0).map(spin).collect()
    }
}

/// The right to be inside a gate. Dropping the pass leaves the gate.
#[derive(Debug)]
pub struct Pass {
    gate: Gate,
    id: u64,
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut table = self.gate.inner.table.lock();
        table.holders.remove(&self.id);
        if table.holders.is_empty() {
            self.gate.inner.changed.notify_waiters();
        }
    }
}

/// A gated task. Awaiting the task gives its result; dropping it detaches the task, which stays inside its gate.
#[derive(Debug)]
pub struct Task<T> {
    join: JoinHandle<Result<T, TaskError>>,
}

impl<T> Task<T> {
    /// Drops the task's future at its next await; awaiting the task then gives [`TaskError::Aborted`].
    pub fn abort(&self) {
        self.join.abort();
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.join.is_finished()
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // panics are caught inside, so a failed join can only be an abort
        Poll::Ready(ready!(Pin::new(&mut self.join).poll(context)).unwrap_or(Err(TaskError::Aborted)))
    }
}

#[cfg(test)]
mod tests;
