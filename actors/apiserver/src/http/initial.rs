//! What a watch holds while it sends initial events: a seat, since these are the work of a list (upstream's flow control: a watch counts until it is
//! initialized), and room for the events that are not yet read.

use std::convert::Infallible;
use std::time::Duration;

use oarlock_runtime::{Gate, clock};
use tokio::sync::oneshot;

use crate::inflight::Seat;

/// Maximum time for which a watch holds a seat while it sends initial events. Seats are for the server's work, and the server does none while the client does not read.
const MAX_SEAT_TIME: Duration = Duration::from_secs(10);

/// The seat and the room of a watch, held until dropped; the seat at most for [`MAX_SEAT_TIME`].
#[derive(Debug)]
pub(super) struct Initial {
    /// Dropping the sender ends the task that holds the seat.
    _held: oneshot::Sender<Infallible>,
    _room: Seat,
}

impl Initial {
    /// Number of bytes that a watch counts for among the unread answers: those of its objects that wait to be encoded, of encoded events, and of events
    /// in the buffer of the connection. An object that is longer by itself takes more.
    pub(super) const BYTES: usize = 512 << 10;

    /// Spawns a task in `gate` that holds the seat. The task can release the seat even while the connection does not poll the watch.
    pub(super) fn new(gate: &Gate, seat: Seat, room: Seat) -> Self {
        let (held, gone) = oneshot::channel();
        let stop = gate.token();
        // A closed gate accepts no task and the seat is released: the server is shutting down.
        let _ = gate.spawn_until("initial events", clock::after(MAX_SEAT_TIME), async move {
            let _seat = seat;
            tokio::select! {
                _ = gone => {}
                () = stop.cancelled() => {}
            }
        });
        Self { _held: held, _room: room }
    }
}

#[cfg(test)]
mod tests {
    use oarlock_auth::UserInfo;

    use super::*;
    use crate::http::request_info::RequestInfo;
    use crate::inflight::{Inflight, Limits};

    #[tokio::test(start_paused = true)]
    async fn a_watch_holds_its_seat_until_its_initial_events_are_sent_but_not_for_one_who_does_not_read() {
        let inflight = Inflight::new(Limits { reads: 1, ..Limits::default() });
        let (gate, user) = (Gate::new("streams"), UserInfo::new("a", ["g"]));
        let info = RequestInfo { resource_request: true, verb: "watch", ..RequestInfo::default() };
        let room = || inflight.answer(&user, &info, Initial::BYTES).unwrap();
        let start = || Some(Initial::new(&gate, inflight.enter(&user, &info).ok()?, room()));
        let first = start().unwrap();
        clock::sleep(MAX_SEAT_TIME / 2).await;
        assert!(start().is_none(), "the only seat is taken");
        drop(first);
        clock::sleep(Duration::from_millis(1)).await;
        let _unread = start().unwrap();
        clock::sleep(MAX_SEAT_TIME / 2).await;
        assert!(start().is_none());
        clock::sleep(MAX_SEAT_TIME).await;
        assert!(start().is_some());
    }
}
