//! Flow control of a connection: its two windows, and the way of credit to the peer.

use std::sync::Arc;

use crate::link::Link;
use crate::link::credits::Credits;
use crate::window::{Exceeded, ReceiveWindow, SendWindow, Windows};

/// Flow control of a connection whose stream's sides have both offered a window.
#[derive(Debug)]
pub(crate) struct Flow {
    receive: ReceiveWindow,
    send: SendWindow,
    credits: Arc<Credits>,
    /// Grows whenever the connection's bytes move in either direction.
    progress: u64,
}

impl Flow {
    /// Creates the flow control of a new connection on the stream that `link` sends on.
    pub(crate) fn new(windows: Windows, link: &Link) -> Self {
        let (receive, send) = (ReceiveWindow::new(windows.own), SendWindow::new(windows.peer));
        Self { receive, send, credits: link.credits(), progress: 0 }
    }

    /// Counts a received packet.
    pub(super) fn received(&mut self, cost: usize) -> Result<(), Exceeded> {
        self.receive.receive(cost)
    }

    /// Counts a packet that the reader has taken, and gives its credit back; `open` is the id of a connection whose peer may send more.
    pub(super) fn taken(&mut self, cost: usize, open: Option<i64>) {
        self.progress += 1;
        if let (Some(credit), Some(connect_id)) = (self.receive.take(cost), open) {
            self.credits.give(connect_id, credit);
        }
    }

    /// Returns the most bytes that may be sent in one packet.
    pub(super) fn room(&self) -> usize {
        self.send.room()
    }

    /// Takes a packet that is about to be sent from the credit.
    pub(super) fn spend(&mut self, cost: usize) {
        self.progress += 1;
        self.send.spend(cost);
    }

    /// Adds credit that the peer has given.
    pub(super) fn grant(&mut self, bytes: u64) -> Result<(), Exceeded> {
        self.progress += 1;
        self.send.grant(bytes)
    }

    pub(super) fn progress(&self) -> u64 {
        self.progress
    }
}
