//! The order in which the packets of a link are sent.

use std::task::{Context, Poll};

use oarlock_contracts::konnectivity::Packet;
use oarlock_seeded_bug::seeded_bug;

/// The answer of a queue that was asked for its next packet; `None` at its end.
pub(super) type Next = Poll<Option<Packet>>;

/// Waits for the next packet: one that `first` returns, or else one of the queue `data`. Ends when both have ended.
///
/// A packet of `data` never overtakes one that was put into a queue of `first` before it. The queue of data is asked first for that reason, and its packet is kept in
/// `held` while `first` has packets: if `first` were asked first and had nothing, a sender of another thread could then put a `DIAL_RSP` there and the connection's first
/// bytes into `data`, and the bytes would be sent before the packet that establishes their connection. The other side would take them for those of an unknown one.
pub(super) fn next(
    context: &mut Context<'_>,
    held: &mut Option<Packet>,
    mut data: impl FnMut(&mut Context<'_>) -> Next,
    mut first: impl FnMut(&mut Context<'_>) -> Next,
) -> Next {
    let early = seeded_bug!("tunnel_data_overtakes_its_dial").then(|| first(context));
    let mut data_has_ended = false;
    if held.is_none() {
        match data(context) {
            Poll::Ready(Some(packet)) => *held = Some(packet),
            Poll::Ready(None) => data_has_ended = true,
            Poll::Pending => {}
        }
    }
    match early.unwrap_or_else(|| first(context)) {
        Poll::Ready(Some(packet)) => return Poll::Ready(Some(packet)),
        Poll::Ready(None) if data_has_ended => return Poll::Ready(None),
        _ => {}
    }
    match held.take() {
        Some(packet) => Poll::Ready(Some(packet)),
        None => Poll::Pending,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::VecDeque;
    use std::task::Waker;

    use bytes::Bytes;

    use super::*;
    use crate::packet;

    fn take(queue: &RefCell<VecDeque<Packet>>) -> Next {
        queue.borrow_mut().pop_front().map_or(Poll::Pending, |packet| Poll::Ready(Some(packet)))
    }

    #[test]
    fn data_never_overtakes_the_control_packet_before_it() {
        let sent = [packet::dialled(7, 1), packet::data(1, Bytes::from_static(b"x"))];
        // Another thread sends both just before this look at a queue.
        for moment in 0..4 {
            let (control, data) = (RefCell::<VecDeque<Packet>>::default(), RefCell::<VecDeque<Packet>>::default());
            let looks = Cell::new(0);
            let look = |queue: &RefCell<VecDeque<Packet>>| {
                if looks.replace(looks.get() + 1) == moment {
                    control.borrow_mut().push_back(sent[0].clone());
                    data.borrow_mut().push_back(sent[1].clone());
                }
                take(queue)
            };
            let (mut context, mut held, mut received) = (Context::from_waker(Waker::noop()), None, Vec::new());
            for _ in 0..6 {
                if let Poll::Ready(packet) = next(&mut context, &mut held, |_| look(&data), |_| look(&control)) {
                    received.extend(packet);
                }
            }
            assert_eq!(received, sent, "sent before look {moment}");
        }
    }

    #[test]
    fn the_end_comes_after_the_last_packet_of_both_queues() {
        let mut context = Context::from_waker(Waker::noop());
        let ended = || Poll::Ready(None);
        let mut held = Some(packet::drain());
        assert_eq!(next(&mut context, &mut held, |_| ended(), |_| ended()), Poll::Ready(Some(packet::drain())));
        assert_eq!(next(&mut context, &mut held, |_| ended(), |_| Poll::Pending), Poll::Pending);
        assert_eq!(next(&mut context, &mut held, |_| Poll::Pending, |_| ended()), Poll::Pending);
        assert_eq!(next(&mut context, &mut held, |_| ended(), |_| ended()), Poll::Ready(None));
    }
}
