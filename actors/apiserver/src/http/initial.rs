//! The seat of a watch that sends what there is at its start: that is the work of a list (upstream's flow control: a watch counts until it is
//! initialized).

use std::convert::Infallible;
use std::time::Duration;

use oarlock_runtime::{Gate, clock};
use tokio::sync::oneshot;

use crate::inflight::Seat;

/// A client that does not read what it asked for holds a seat no longer than this: seats are for the server's work, and nobody works for it then.
const LONGEST: Duration = Duration::from_secs(10);

/// Holds a seat until it is dropped, or for [`LONGEST`].
#[derive(Debug)]
pub(super) struct Initial {
    /// The task waits for its end.
    _held: oneshot::Sender<Infallible>,
}

impl Initial {
    /// The task that can give a seat back while nobody asks for the watch's next frame is of this gate.
    pub(super) fn new(gate: &Gate, seat: Seat) -> Self {
        let (held, gone) = oneshot::channel();
        let stop = gate.token();
        // A gate that is closed takes no task, and the seat goes with it: the server is ending.
        let _ = gate.spawn_until("initial events", clock::after(LONGEST), async move {
            let _seat = seat;
            tokio::select! {
                _ = gone => {}
                () = stop.cancelled() => {}
            }
        });
        Self { _held: held }
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
        let start = || Some(Initial::new(&gate, inflight.enter(&user, &info).ok()?));
        let first = start().unwrap();
        clock::sleep(LONGEST / 2).await;
        assert!(start().is_none(), "the only seat is taken");
        drop(first);
        clock::sleep(Duration::from_millis(1)).await;
        let _unread = start().unwrap();
        clock::sleep(LONGEST / 2).await;
        assert!(start().is_none());
        clock::sleep(LONGEST).await;
        assert!(start().is_some());
    }
}
