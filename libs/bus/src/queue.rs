//! A bounded queue between the transport and one consumer.

use std::collections::VecDeque;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::envelope;
use crate::proto::bus::v1::{Stopping, answer::Outcome};
use crate::reply::ReplyChannel;
use crate::stats::KindStats;

/// Retry time given to an asker that finds a full queue: a queue drains within milliseconds or not soon.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// A message as the transport delivers it.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) subject: String,
    pub(crate) payload: Bytes,
    pub(crate) at: Instant,
    pub(crate) reply: Option<Box<dyn ReplyChannel>>,
}

/// The next item for the consumer.
#[derive(Debug)]
pub(crate) enum QueueItem {
    Message(Delivery),
    /// This many messages were lost; 0 stands for an unknown number.
    Lost(u64),
    Closed,
}

/// A bounded queue of received messages with one consumer; counts messages that are lost.
#[derive(Debug)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    ready: Notify,
    stats: Arc<KindStats>,
}

/// Why the queue refused a message.
#[derive(Debug)]
enum Refused {
    Full(Delivery),
    Closed(Delivery),
}

/// Content of a [`Queue`].
#[derive(Debug)]
struct Inner {
    waiting: VecDeque<Delivery>,
    capacity: usize,
    lost: u64,
    missed: bool,
    closed: bool,
}

impl Queue {
    pub(crate) fn new(capacity: usize, stats: Arc<KindStats>) -> Self {
        let inner =
            Inner { waiting: VecDeque::new(), capacity: capacity.max(1), lost: 0, missed: false, closed: false };
        Self { inner: Mutex::new(inner), ready: Notify::new(), stats }
    }

    /// Queues a message. When that is impossible, an ask is answered at once and a lost hint is counted.
    pub(crate) fn deliver(&self, message: Delivery) {
        self.stats.heard.count(message.payload.len());
        let (message, outcome) = match self.push(message) {
            Ok(()) => return,
            Err(Refused::Full(message)) => (message, envelope::overloaded(RETRY_AFTER)),
            Err(Refused::Closed(message)) => (message, Outcome::Stopping(Stopping {})),
        };
        match message.reply {
            Some(reply) => {
                self.stats.declined(&outcome);
                // Does not wait: if the answer cannot be sent now, the asker meets its deadline.
                let _ = reply.send(envelope::answer(outcome)).now_or_never();
            }
            None => self.lose(),
        }
    }

    fn push(&self, message: Delivery) -> Result<(), Refused> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err(Refused::Closed(message));
        }
        if inner.waiting.len() >= inner.capacity {
            return Err(Refused::Full(message));
        }
        inner.waiting.push_back(message);
        drop(inner);
        self.ready.notify_one();
        Ok(())
    }

    /// Counts one lost message.
    pub(crate) fn lose(&self) {
        self.stats.lost();
        self.inner.lock().lost += 1;
        self.ready.notify_one();
    }

    /// Records the loss of an unknown number of messages.
    pub(crate) fn miss(&self) {
        self.inner.lock().missed = true;
        self.ready.notify_one();
    }

    /// Waits for the next item. Losses come first, so that a consumer that reads the state anew treats queued messages as later ones. Cancel safe.
    pub(crate) async fn next(&self) -> QueueItem {
        loop {
            let ready = self.ready.notified();
            if let Some(next) = self.take() {
                return next;
            }
            ready.await;
        }
    }

    fn take(&self) -> Option<QueueItem> {
        let mut inner = self.inner.lock();
        if std::mem::take(&mut inner.missed) {
            inner.lost = 0;
            return Some(QueueItem::Lost(0));
        }
        match std::mem::take(&mut inner.lost) {
            0 => {}
            lost => return Some(QueueItem::Lost(lost)),
        }
        match inner.waiting.pop_front() {
            Some(message) => Some(QueueItem::Message(message)),
            None => inner.closed.then_some(QueueItem::Closed),
        }
    }

    /// Closes the queue for new messages and returns the waiting ones.
    pub(crate) fn drain(&self) -> VecDeque<Delivery> {
        let mut inner = self.inner.lock();
        inner.closed = true;
        std::mem::take(&mut inner.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(capacity: usize) -> Queue {
        Queue::new(capacity, Arc::default())
    }

    fn message(n: u8) -> Delivery {
        Delivery { subject: String::new(), payload: Bytes::from(vec![n]), at: Instant::now(), reply: None }
    }

    #[tokio::test]
    async fn what_is_lost_is_told_before_what_waits() {
        let queue = queue(2);
        (1..=3).for_each(|n| queue.deliver(message(n)));
        assert!(matches!(queue.next().await, QueueItem::Lost(1)));
        assert!(matches!(queue.next().await, QueueItem::Message(m) if m.payload[0] == 1));
        queue.deliver(message(4));
        assert_eq!(queue.drain().iter().map(|m| m.payload[0]).collect::<Vec<_>>(), [2, 4]);
        queue.deliver(message(5));
        assert!(matches!(queue.next().await, QueueItem::Lost(1)));
        assert!(matches!(queue.next().await, QueueItem::Closed));
    }

    #[tokio::test]
    async fn a_taker_that_gives_up_takes_nothing() {
        let queue = queue(2);
        assert!(queue.next().now_or_never().is_none());
        queue.deliver(message(1));
        assert!(matches!(queue.next().now_or_never(), Some(QueueItem::Message(_))));
    }
}
