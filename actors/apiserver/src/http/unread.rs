//! Answers that their client has not read yet. They hold memory after the request has given its seat back, so they are bounded by bytes and by time.
//!
//! A client opens a thousand streams on one connection, asks for a long list or starts a watch on each, and reads none: the server would keep every
//! list and every snapshot, for ever. Therefore
//!
//! * the bytes of answers are counted like those of request bodies, until the connection has sent them: large answers and the initial events of watches
//!   in one account ([`Inflight::answer`](crate::inflight::Inflight::answer)), small answers in another
//!   ([`Inflight::small_answer`](crate::inflight::Inflight::small_answer)). A request whose answer finds no room is answered with 429;
//! * a client has the time limit of a request for an answer, and more time only as it reads ([`connection`]). Then the connection is ended: upstream cuts
//!   such a request off at its deadline, too. A watch has no end, so its time runs only while events wait and none is read.

pub(super) mod connection;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use oarlock_auth::UserInfo;
use oarlock_runtime::{Instant, clock};

use self::connection::{ConnectionAnswers, Pace, UnreadAnswer};
use super::request_info::{self, RequestInfo};
use super::{Body, BodyError};
use crate::inflight::{self, LimitReached, Seat};
use crate::server::Server;

/// Number of bytes from which an answer is large.
const LARGE_BYTES: usize = 64 << 10;
/// Number of bytes that are handed to the connection at a time. It takes the next piece only when the last one is sent, up to its own buffer.
const PIECE_BYTES: usize = 128 << 10;
/// Number of unread answers of a connection up to which a probe is answered although there is no room for its answer.
const MAX_UNREAD_PROBES: usize = 32;

/// The length of an answer whose body does not state it, as an extension of the response.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerBytes(pub(super) usize);

/// Counts an answer of known length that is ready now until it is read. An answer that finds no room becomes a 429. Streams of other servers are not counted: they are
/// passed on as they are read.
pub(super) fn hold(
    server: &Server,
    user: &UserInfo,
    info: &RequestInfo,
    connection: &ConnectionAnswers,
    now: Instant,
    mut response: Response<Body>,
) -> Response<Body> {
    let declared = response.extensions_mut().remove::<AnswerBytes>().map(|AnswerBytes(length)| length);
    let exact = || response.body().size_hint().exact().and_then(|length| usize::try_from(length).ok());
    let length = declared.or_else(exact).unwrap_or_default();
    if length == 0 || request_info::is_streaming(&info.subresource) {
        return response;
    }
    if length >= LARGE_BYTES {
        return match server.inflight().answer(user, info, length) {
            Ok(seat) => track(connection, Pace::Whole, now, Some(seat), response),
            Err(LimitReached) => hold(server, user, info, connection, now, inflight::refusal()),
        };
    }
    let is_probe = !info.resource_request && request_info::is_probe(&info.path);
    match server.inflight().small_answer(user, info, length) {
        Ok(seat) => track(connection, Pace::Progress, now, Some(seat), response),
        Err(LimitReached) if is_probe && connection.waiting() < MAX_UNREAD_PROBES => {
            track(connection, Pace::Progress, now, None, response)
        }
        Err(LimitReached) => inflight::bare_refusal(),
    }
}

/// Times the events of a watch. What a watch holds is counted when it begins ([`super::initial::Initial`]).
pub(super) fn watch(connection: &ConnectionAnswers, response: Response<Body>) -> Response<Body> {
    track(connection, Pace::Progress, clock::now(), None, response)
}

fn track(
    connection: &ConnectionAnswers,
    pace: Pace,
    now: Instant,
    seat: Option<Seat>,
    response: Response<Body>,
) -> Response<Body> {
    let answer = connection.add(pace, now, seat);
    response.map(|body| Unread { body, rest: Bytes::new(), answer }.boxed_unsync())
}

/// The body of an unread answer.
struct Unread {
    body: Body,
    /// The part of the body's last frame that the connection has not taken.
    rest: Bytes,
    answer: Arc<UnreadAnswer>,
}

impl HttpBody for Unread {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)).map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.rest = data,
                Some(Ok(Err(trailers))) => return Poll::Ready(Some(Ok(trailers))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let length = self.rest.len().min(PIECE_BYTES);
        let piece = self.rest.split_to(length);
        Poll::Ready(Some(Ok(Frame::data(self.answer.part(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut all = SizeHint::new();
        all.set_lower(hint.lower() + rest);
        if let Some(upper) = hint.upper() {
            all.set_upper(upper + rest);
        }
        all
    }
}
