//! Counts the requests in progress of a connection, from a request's arrival until the last byte of the answer was passed on.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use oarlock_runtime::{Instant, clock};
use parking_lot::Mutex;

use crate::answer::{Body, Failure};

/// The requests in progress of one connection. Clones share the count.
#[derive(Clone, Debug)]
pub(crate) struct Busy(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    requests: usize,
    /// When the last request ended.
    since: Instant,
}

impl Default for Busy {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { requests: 0, since: clock::now() })))
    }
}

impl Busy {
    /// Counts one more request, until the guard is dropped.
    pub(crate) fn enter(&self) -> RequestGuard {
        self.0.lock().requests += 1;
        RequestGuard(self.clone())
    }

    /// Waits until no request was in progress for the time `patience`.
    pub(crate) async fn idle(&self, patience: Duration) {
        loop {
            let until = {
                let state = self.0.lock();
                if state.requests > 0 { clock::after(patience) } else { state.since + patience }
            };
            if until.passed() {
                return;
            }
            clock::sleep_until(until).await;
        }
    }
}

/// The guard of a request in progress.
#[derive(Debug)]
pub(crate) struct RequestGuard(Busy);

impl RequestGuard {
    /// Keeps the request in progress until the whole body has been sent.
    pub(crate) fn until_sent(self, body: Body) -> Sending {
        Sending { body, _request: self }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.requests = state.requests.saturating_sub(1);
        state.since = clock::now();
    }
}

/// The body of an answer, whose request is in progress until the body is dropped.
#[derive(Debug)]
pub(crate) struct Sending {
    body: Body,
    _request: RequestGuard,
}

impl hyper::body::Body for Sending {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_only_without_requests_and_from_the_last_one_on() {
        let (busy, patience) = (Busy::default(), Duration::from_secs(90));
        let began = clock::now();
        let request = busy.enter();
        let ends = async {
            clock::sleep(Duration::from_secs(200)).await;
            drop(request.until_sent(crate::answer::text(200, "ok").into_body()));
        };
        tokio::join!(busy.idle(patience), ends);
        assert_eq!(began.elapsed().as_secs(), 290);
    }
}
