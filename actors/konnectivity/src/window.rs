//! Flow control of one connection by credit, apart from any I/O (`docs/adr/0008-credit-in-the-tunnel.md`).
//!
//! Upstream's protocol has none. A peer that knows it offers in its metadata ([`OFFER`]) a window: the credit with which the other side begins on each connection.
//! If both sides have offered one, every packet of data takes credit, and the receiver gives it back in `WINDOW` packets as the connection's reader takes the data.
//! A sender without credit waits; it neither reads from its own source nor takes room in queues that connections share. What waits for the reader of one
//! connection is therefore never more than the window.

use oarlock_seeded_bug::seeded_bug;

/// The metadata key of an offered window, in bytes.
pub(crate) const OFFER: &str = "oarlock-window";
/// What a packet takes from the credit besides its bytes, so that many small packets are bounded as few large ones are. Part of the protocol.
pub(crate) const PACKET_COST: usize = 64;
/// The smallest window: some packets fit.
pub(crate) const MIN_WINDOW: usize = 4 << 10;
/// The largest window.
const MAX_WINDOW: usize = 1 << 30;

/// Returns what a packet with so many bytes takes from the credit.
pub(crate) const fn cost(bytes: usize) -> usize {
    bytes + PACKET_COST
}

/// Reads an offered window. `None` if it is no number of bytes within the bounds.
pub(crate) fn parse(text: &str) -> Option<usize> {
    text.parse().ok().filter(is_valid)
}

fn is_valid(window: &usize) -> bool {
    (MIN_WINDOW..=MAX_WINDOW).contains(window)
}

/// The windows of a stream whose two sides have both offered one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Windows {
    /// What this side offered: bounds what it receives.
    pub(crate) own: usize,
    /// What the peer offered: bounds what it is sent.
    pub(crate) peer: usize,
}

impl Windows {
    /// Returns the windows that two offers result in; `None` without one of them.
    pub(crate) fn agreed(own: Option<usize>, peer: Option<usize>) -> Option<Self> {
        let (own, peer) = (own.filter(is_valid)?, peer.filter(is_valid)?);
        Some(Self { own, peer })
    }
}

/// The peer has exceeded a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exceeded;

/// The window of received data. The credit of the peer, and what it has used of the window, are together the window.
#[derive(Debug)]
pub(crate) struct ReceiveWindow {
    size: usize,
    /// What packets took that wait for the reader, or whose credit is not given back yet.
    used: usize,
    /// The part of `used` that the reader has taken.
    taken: usize,
}

impl ReceiveWindow {
    pub(crate) const fn new(size: usize) -> Self {
        Self { size, used: 0, taken: 0 }
    }

    /// Counts a received packet.
    ///
    /// # Errors
    /// [`Exceeded`]: the peer had not so much credit.
    pub(crate) fn receive(&mut self, cost: usize) -> Result<(), Exceeded> {
        if cost > self.size - self.used {
            return Err(Exceeded);
        }
        self.used += cost;
        Ok(())
    }

    /// Counts a packet that the reader has taken. Returns the credit to give back: none, until it is half of the window.
    pub(crate) fn take(&mut self, cost: usize) -> Option<usize> {
        self.taken += cost;
        if self.taken < self.size / 2 || seeded_bug!("tunnel_credit_is_not_given_back") {
            return None;
        }
        let credit = std::mem::take(&mut self.taken);
        self.used -= credit;
        Some(credit)
    }
}

/// The window of sent data.
#[derive(Debug)]
pub(crate) struct SendWindow {
    size: usize,
    credit: usize,
}

impl SendWindow {
    pub(crate) const fn new(size: usize) -> Self {
        Self { size, credit: size }
    }

    /// Returns the most bytes that the next packet may have; 0 if the sender must wait.
    pub(crate) fn room(&self) -> usize {
        if seeded_bug!("tunnel_sends_beyond_credit") {
            return usize::MAX;
        }
        self.credit.saturating_sub(PACKET_COST)
    }

    /// Takes a sent packet from the credit.
    pub(crate) fn spend(&mut self, cost: usize) {
        self.credit = self.credit.saturating_sub(cost);
    }

    /// Adds credit.
    ///
    /// # Errors
    /// [`Exceeded`]: the credit would be larger than the window.
    pub(crate) fn grant(&mut self, bytes: u64) -> Result<(), Exceeded> {
        let bytes = usize::try_from(bytes).map_err(|_| Exceeded)?;
        if bytes > self.size - self.credit {
            return Err(Exceeded);
        }
        self.credit += bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use oarlock_runtime::rng;

    use super::*;

    #[test]
    fn an_offer_is_a_number_within_the_bounds_and_both_must_offer() {
        for invalid in ["", "4095", "1073741825", "-1", "64k", "99999999999999999999999"] {
            assert_eq!(parse(invalid), None, "{invalid}");
        }
        assert_eq!((parse("4096"), parse("1073741824")), (Some(4096), Some(1 << 30)));
        assert_eq!(Windows::agreed(Some(8192), Some(4096)), Some(Windows { own: 8192, peer: 4096 }));
        for (own, peer) in [(None, Some(4096)), (Some(4096), None), (None, None), (Some(1), Some(4096))] {
            assert_eq!(Windows::agreed(own, peer), None);
        }
    }

    #[test]
    fn credit_is_given_back_at_half_a_window() {
        let mut window = ReceiveWindow::new(10_000);
        for _ in 0..10 {
            window.receive(1_000).unwrap();
        }
        assert_eq!(window.receive(1), Err(Exceeded));
        assert_eq!((0..4).find_map(|_| window.take(1_000)), None);
        assert_eq!(window.receive(1), Err(Exceeded), "what is not given back is not credit");
        assert_eq!(window.take(1_000), Some(5_000));
        window.receive(5_000).unwrap();
        assert_eq!(window.receive(1), Err(Exceeded));
    }

    #[test]
    fn a_sender_has_the_credit_of_the_window_and_no_more() {
        let mut window = SendWindow::new(4_096);
        assert_eq!((window.room(), window.grant(1)), (4_096 - PACKET_COST, Err(Exceeded)));
        window.spend(cost(1_000));
        assert_eq!(window.room(), 4_096 - 1_000 - 2 * PACKET_COST);
        assert_eq!(window.grant(u64::MAX), Err(Exceeded));
        window.spend(cost(window.room()));
        assert_eq!(window.room(), 0);
        window.grant(4_096).unwrap();
        assert_eq!((window.room(), window.grant(1)), (4_096 - PACKET_COST, Err(Exceeded)));
    }

    #[test]
    fn whatever_both_sides_do_credit_is_kept_and_neither_waits_for_the_other() {
        for size in [MIN_WINDOW, MIN_WINDOW + 1, 100_000] {
            let (mut sender, mut receiver) = (SendWindow::new(size), ReceiveWindow::new(size));
            let (mut queue, mut on_its_way) = (VecDeque::new(), VecDeque::new());
            for _ in 0..20_000 {
                match rng::u64() % 3 {
                    0 if sender.room() > 0 => {
                        let most = sender.room().min(40_000);
                        let bytes = 1 + usize::try_from(rng::u64()).unwrap() % most;
                        sender.spend(cost(bytes));
                        receiver.receive(cost(bytes)).unwrap();
                        queue.push_back(cost(bytes));
                    }
                    1 => on_its_way.extend(queue.pop_front().and_then(|cost| receiver.take(cost))),
                    _ => {
                        if let Some(credit) = on_its_way.pop_front() {
                            sender.grant(u64::try_from(credit).unwrap()).unwrap();
                        }
                    }
                }
                assert!(queue.iter().sum::<usize>() <= size);
                let quiet = queue.is_empty() && on_its_way.is_empty();
                assert!(!quiet || sender.room() > 0, "the sender waits although the reader has taken everything");
            }
        }
    }
}
