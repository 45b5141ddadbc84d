//! The in-process transport: the semantics of NATS without a server, driven only by tokio's clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use crate::credentials::Seed;
use crate::error::{AnswerError, AskError, HintError};
use crate::link::Link;
use crate::queue::{Delivery, Queue};
use crate::reply::ReplyChannel;
use crate::role::{Identity, Role};
use crate::subject::{Pattern, Subject};
use crate::subjects::Traffic;
use crate::transport::{DEFAULT_MAX_PAYLOAD, Proof, Subscription, Transport};

/// In-memory message exchange between members of one process. Clones share the exchange.
///
/// Tests stop and restart the exchange ([`stop`](Self::stop), [`start`](Self::start)), or disconnect one member ([`cut`](Self::cut), [`heal`](Self::heal)). A simulated kill
/// must cut the member first, because an orderly drop still sends farewell messages.
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    shared: Arc<Shared>,
}

/// State of an [`Exchange`].
#[derive(Debug, Default)]
struct Shared {
    table: Mutex<Table>,
    members: AtomicU64,
}

/// Members and subscriptions of an exchange.
#[derive(Debug, Default)]
struct Table {
    stopped: bool,
    members: Vec<Weak<Member>>,
    subscriptions: Vec<Entry>,
    next: u64,
    /// Round-robin position of queue groups.
    turn: usize,
}

/// One member of an exchange, with its connection state.
#[derive(Debug)]
struct Member {
    identity: Identity,
    link: Link,
    cut: Mutex<bool>,
}

/// One subscription of a member.
#[derive(Clone, Debug)]
struct Entry {
    id: u64,
    member: Arc<Member>,
    pattern: Pattern,
    queue: Arc<Queue>,
}

impl Exchange {
    /// Creates an exchange without members.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Disconnects all members, as if the server had stopped.
    pub fn stop(&self) {
        self.shared.table.lock().stopped = true;
        self.shared.update();
    }

    /// Reconnects all members.
    pub fn start(&self) {
        self.shared.table.lock().stopped = false;
        self.shared.update();
    }

    /// Disconnects one member.
    pub fn cut(&self, who: &Identity) {
        self.set_cut(who, true);
    }

    /// Reconnects one member.
    pub fn heal(&self, who: &Identity) {
        self.set_cut(who, false);
    }

    fn set_cut(&self, who: &Identity, cut: bool) {
        let members = self.shared.members();
        for member in members.iter().filter(|member| member.identity == *who) {
            *member.cut.lock() = cut;
        }
        self.shared.update();
    }
}

impl Shared {
    fn members(&self) -> Vec<Arc<Member>> {
        let mut table = self.table.lock();
        table.members.retain(|member| member.strong_count() > 0);
        table.members.iter().filter_map(Weak::upgrade).collect()
    }

    /// Sets each member's link to its current state.
    fn update(&self) {
        let stopped = self.table.lock().stopped;
        for member in self.members() {
            let (wanted, is) = (!stopped && !*member.cut.lock(), member.link.get().connected);
            if wanted && !is {
                // Hints sent meanwhile were missed; report the loss before any message of the new connection.
                let entries = self.table.lock().subscriptions.clone();
                let own = entries.iter().filter(|entry| Arc::ptr_eq(&entry.member, &member));
                own.filter(|entry| entry.pattern.row().carries == Traffic::Hints).for_each(|entry| entry.queue.miss());
                member.link.connected();
            } else if !wanted && is {
                member.link.disconnected();
            }
        }
    }

    /// Returns the recipients of a message: all subscribers of the subject, but one per queue group.
    fn route(&self, subject: &Subject) -> Vec<Entry> {
        let mut table = self.table.lock();
        let hears = |entry: &&Entry| entry.member.link.get().connected && entry.pattern.selects(subject.as_str());
        let mut found: Vec<Entry> = table.subscriptions.iter().filter(hears).cloned().collect();
        if subject.row().group && !found.is_empty() {
            table.turn = table.turn.wrapping_add(1);
            found = vec![found.swap_remove(table.turn % found.len())];
        }
        found
    }
}

/// Transport of one member.
#[derive(Debug)]
pub(crate) struct Memory {
    shared: Arc<Shared>,
    member: Arc<Member>,
    number: u64,
    messages: AtomicU64,
}

impl Memory {
    pub(crate) fn new(exchange: &Exchange, identity: Identity) -> Self {
        let shared = exchange.shared.clone();
        let member = Arc::new(Member { identity, link: Link::new(), cut: Mutex::new(false) });
        shared.table.lock().members.push(Arc::downgrade(&member));
        let number = shared.members.fetch_add(1, Ordering::Relaxed) + 1;
        shared.update();
        Self { shared, member, number, messages: AtomicU64::new(0) }
    }
}

#[async_trait]
impl Transport for Memory {
    async fn request(&self, subject: &Subject, payload: Bytes, deadline: Instant) -> Result<Bytes, AskError> {
        let state = self.member.link.get();
        if !state.connected {
            return Err(AskError::Disconnected);
        }
        let (sender, answer) = oneshot::channel();
        let slot = Arc::new(Mutex::new(Some(sender)));
        let receivers = self.shared.route(subject);
        if receivers.is_empty() {
            return Err(AskError::NobodyThere);
        }
        for Entry { member, queue, .. } in receivers {
            let generation = member.link.get().generation;
            let reply = Box::new(MemoryReply { slot: slot.clone(), member, generation });
            queue.deliver(Delivery {
                subject: subject.as_str().to_owned(),
                payload: payload.clone(),
                at: Instant::now(),
                reply: Some(reply),
            });
        }
        tokio::select! {
            biased;
            // `slot` is still held here, so a missing answer is waited for, as over a network.
            Ok(answer) = answer => Ok(answer),
            () = self.member.link.lost(state.generation) => Err(AskError::Lost),
            () = sleep_until(deadline) => Err(AskError::Timeout),
        }
    }

    fn publish(&self, subject: &Subject, payload: Bytes) -> Result<(), HintError> {
        if !self.member.link.get().connected {
            return Err(HintError::Disconnected);
        }
        for entry in self.shared.route(subject) {
            let (subject, at) = (subject.as_str().to_owned(), Instant::now());
            entry.queue.deliver(Delivery { subject, payload: payload.clone(), at, reply: None });
        }
        Ok(())
    }

    async fn subscribe(&self, pattern: &Pattern, queue: Arc<Queue>) -> Box<dyn Subscription> {
        let mut table = self.shared.table.lock();
        let id = table.next;
        table.next += 1;
        table.subscriptions.push(Entry { id, member: self.member.clone(), pattern: pattern.clone(), queue });
        Box::new(SubscriptionGuard { shared: self.shared.clone(), id })
    }

    async fn flush(&self) {}

    fn link(&self) -> &Link {
        &self.member.link
    }

    fn max_payload(&self) -> usize {
        DEFAULT_MAX_PAYLOAD
    }

    fn proof_of(&self, _: Role) -> Proof<'_> {
        Proof::Process
    }

    fn number(&self) -> (u64, u64) {
        (self.number, self.messages.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Removes a subscription from the exchange when dropped.
#[derive(Debug)]
struct SubscriptionGuard {
    shared: Arc<Shared>,
    id: u64,
}

impl Subscription for SubscriptionGuard {}

impl Drop for SubscriptionGuard {
    fn drop(&mut self) {
        self.shared.table.lock().subscriptions.retain(|entry| entry.id != self.id);
    }
}

/// Reply channel of an ask; the first answer takes it.
#[derive(Debug)]
struct MemoryReply {
    slot: Arc<Mutex<Option<oneshot::Sender<Bytes>>>>,
    /// The answering member, and the connection that carried the ask.
    member: Arc<Member>,
    generation: u64,
}

#[async_trait]
impl ReplyChannel for MemoryReply {
    async fn send(&self, payload: Bytes) -> Result<(), AnswerError> {
        let state = self.member.link.get();
        if !state.connected || state.generation != self.generation {
            return Err(AnswerError::Gone);
        }
        let sender = self.slot.lock().take().ok_or(AnswerError::Gone)?;
        sender.send(payload).map_err(|_| AnswerError::Gone)
    }

    fn max_payload(&self) -> usize {
        DEFAULT_MAX_PAYLOAD
    }

    fn seed(&self) -> Option<&Seed> {
        None
    }

    fn belongs_to(&self, _: &Identity) -> bool {
        true
    }
}
