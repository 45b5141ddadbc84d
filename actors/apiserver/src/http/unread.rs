//! Large answers that their client has not read yet. They hold memory after the request has given its seat back, so they are bounded by bytes and by
//! time.
//!
//! A client opens a thousand streams on one connection, asks for a long list on each, and reads none: the server would keep every list, for ever.
//! Therefore
//!
//! * the bytes of large answers are counted like those of request bodies ([`Inflight::answer`](crate::inflight::Inflight::answer)); a request whose
//!   answer finds no room is answered with 429;
//! * a client has the time limit of a request for an answer, and more time only as it reads ([`BYTES_PER_SECOND`]). Then the answer is dropped and the
//!   connection ended: upstream cuts such a request off at its deadline, too.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use oarlock_auth::UserInfo;
use oarlock_runtime::{Gate, Instant, clock};
use oarlock_seeded_bug::seeded_bug;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::request_info::RequestInfo;
use super::{Body, BodyError};
use crate::inflight::{LimitReached, Seat};
use crate::server::Server;

/// Number of bytes from which an answer is counted and timed. A connection holds this much for each of its streams in any case.
const LARGE_BYTES: usize = 64 << 10;
/// Number of bytes for which a client gets one more second. Upstream gives no more time, however slow the line is. What the buffers of the kernel and of
/// the connection hold counts as read, some megabytes.
const BYTES_PER_SECOND: u64 = 128 << 10;
/// Number of bytes that are handed to the connection at a time. It takes the next piece only when the last one is sent, up to its own buffer.
const PIECE_BYTES: usize = 128 << 10;

/// The length of an answer, as an extension of the response.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerBytes(pub(super) usize);

/// The end of a connection whose client does not read, as an extension of its requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Stalled(Arc<Notify>);

impl Stalled {
    /// Waits until an answer of the connection was given up.
    pub(super) async fn wait(&self) {
        self.0.notified().await;
    }
}

/// Counts and times an answer if it is large.
///
/// # Errors
/// When too many bytes of answers wait for their clients already.
pub(super) fn hold(
    server: &Server,
    user: &UserInfo,
    info: &RequestInfo,
    stalled: Option<Stalled>,
    mut response: Response<Body>,
) -> Result<Response<Body>, LimitReached> {
    let length = response.extensions_mut().remove::<AnswerBytes>().map_or(0, |AnswerBytes(length)| length);
    if length < LARGE_BYTES || seeded_bug!("answers_wait_for_ever") {
        return Ok(response);
    }
    let seat = server.inflight().answer(user, info, length)?;
    let answer = |body| Answer { body: Some((body, Some(seat))), rest: Bytes::new(), taken: 0 };
    Ok(timed(server, stalled, response, answer))
}

fn timed(
    server: &Server,
    stalled: Option<Stalled>,
    response: Response<Body>,
    answer: impl FnOnce(Body) -> Answer,
) -> Response<Body> {
    let (gate, time) = (server.streams(), server.config().request_timeout);
    response.map(|body| Unread::new(gate, answer(body), time, stalled.unwrap_or_default()).boxed_unsync())
}

/// A large answer and its seat; both are dropped when it has been sent, the client is no longer there, or its time is over.
struct Unread {
    answer: Arc<Mutex<Answer>>,
    /// Dropping the sender ends the task that waits for the end of the time.
    _watched: oneshot::Sender<Infallible>,
}

struct Answer {
    /// `None` when the answer was given up.
    body: Option<(Body, Option<Seat>)>,
    /// The part of the body's last frame that the connection has not taken.
    rest: Bytes,
    /// Number of bytes that the connection has taken.
    taken: u64,
}

impl Unread {
    fn new(gate: &Gate, answer: Answer, time: Duration, stalled: Stalled) -> Self {
        let answer = Arc::new(Mutex::new(answer));
        let (watched, gone) = oneshot::channel();
        let (stop, held) = (gate.token(), Arc::downgrade(&answer));
        // A closed gate accepts no task: the server is shutting down and ends its connections.
        let _ = gate.spawn("answer", async move {
            tokio::select! {
                _ = gone => {}
                () = stop.cancelled() => {}
                () = overdue(&held, clock::after(time)) => {
                    tracing::debug!("connection ended: an answer was not read");
                    stalled.0.notify_one();
                }
            }
        });
        Self { answer, _watched: watched }
    }
}

/// Waits until the time of an answer is over, and drops it then. The client has until `end`, and longer if it reads.
async fn overdue(held: &Weak<Mutex<Answer>>, end: Instant) {
    let mut until = end;
    loop {
        clock::sleep_until(until).await;
        let Some(answer) = held.upgrade() else { return std::future::pending().await };
        let mut answer = answer.lock();
        let earned = Duration::from_millis(answer.taken.saturating_mul(1000) / BYTES_PER_SECOND);
        until = end + earned;
        if until.passed() {
            (answer.body, answer.rest) = (None, Bytes::new());
            return;
        }
    }
}

impl HttpBody for Unread {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let mut answer = self.answer.lock();
        let Answer { body, rest, taken } = &mut *answer;
        let Some((body, _)) = body else { return Poll::Ready(Some(Err(BodyError::BrokenOff))) };
        if rest.is_empty() {
            match std::task::ready!(Pin::new(body).poll_frame(cx)).map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => *rest = data,
                Some(Ok(Err(trailers))) => return Poll::Ready(Some(Ok(trailers))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let piece = rest.split_to(rest.len().min(PIECE_BYTES));
        *taken += piece.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        let answer = self.answer.lock();
        answer.rest.is_empty() && answer.body.as_ref().is_some_and(|(body, _)| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let answer = self.answer.lock();
        let hint = answer.body.as_ref().map(|(body, _)| body.size_hint()).unwrap_or_default();
        let rest = answer.rest.len() as u64;
        let mut all = SizeHint::new();
        all.set_lower(hint.lower() + rest);
        if let Some(upper) = hint.upper() {
            all.set_upper(upper + rest);
        }
        all
    }
}
