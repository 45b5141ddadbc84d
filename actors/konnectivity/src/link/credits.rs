//! Credit that waits to be sent, by connection.

use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};

use oarlock_contracts::konnectivity::Packet;
use parking_lot::Mutex;

use crate::packet;

/// Credit that waits to be sent. What waits for one connection becomes one packet: there are never more than connections, however little the peer reads.
#[derive(Debug, Default)]
pub(crate) struct Credits {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: BTreeMap<i64, usize>,
    waker: Option<Waker>,
}

impl Credits {
    /// Adds credit of a connection, in bytes.
    pub(crate) fn give(&self, connect_id: i64, bytes: usize) {
        let mut state = self.state.lock();
        *state.waiting.entry(connect_id).or_default() += bytes;
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// Waits for credit, and returns the packet that gives it.
    pub(super) fn poll_next(&self, context: &Context<'_>) -> Poll<Packet> {
        let mut state = self.state.lock();
        match state.waiting.pop_first() {
            Some((connect_id, bytes)) => Poll::Ready(packet::window(connect_id, bytes)),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
