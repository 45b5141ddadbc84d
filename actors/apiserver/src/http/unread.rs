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

pub(super) mod body;
pub(super) mod connection;

use std::sync::Arc;

use http::Response;
use hyper::body::Body as _;
use oarlock_auth::UserInfo;
use oarlock_runtime::{Instant, clock};

use self::body::AnswerBody;
use self::connection::{ConnectionAnswers, Pace, UnreadAnswer};
use super::Body;
use super::request_info::{self, RequestInfo};
use crate::inflight::{self, LimitReached};
use crate::server::Server;

/// Number of bytes from which an answer is large.
const LARGE_BYTES: usize = 64 << 10;
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
) -> Response<AnswerBody> {
    if let Some(WatchAnswer(answer)) = response.extensions_mut().remove() {
        return response.map(|body| AnswerBody::tracked(body, answer));
    }
    let declared = response.extensions_mut().remove::<AnswerBytes>().map(|AnswerBytes(length)| length);
    let exact = || response.body().size_hint().exact().and_then(|length| usize::try_from(length).ok());
    let length = declared.or_else(exact).unwrap_or_default();
    if length == 0 || request_info::is_streaming(&info.subresource) {
        return response.map(AnswerBody::untracked);
    }
    let tracked = |pace, seat, response: Response<Body>| {
        response.map(|body| AnswerBody::tracked(body, connection.add(pace, now, seat)))
    };
    if length >= LARGE_BYTES {
        return match server.inflight().answer(user, info, length) {
            Ok(seat) => tracked(Pace::Whole, Some(seat), response),
            Err(LimitReached) => hold(server, user, info, connection, now, inflight::refusal()),
        };
    }
    let is_probe = !info.resource_request && request_info::is_probe(&info.path);
    match server.inflight().small_answer(user, info, length) {
        Ok(seat) => tracked(Pace::Progress, Some(seat), response),
        Err(LimitReached) if is_probe && connection.waiting() < MAX_UNREAD_PROBES => {
            tracked(Pace::Progress, None, response)
        }
        Err(LimitReached) => inflight::bare_refusal().map(AnswerBody::untracked),
    }
}

/// Times the events of a watch, as [`hold`] finds it in the extensions of the answer. What a watch holds is counted when it begins ([`super::initial::Initial`]).
pub(super) fn watch(connection: &ConnectionAnswers, mut response: Response<Body>) -> Response<Body> {
    let answer = connection.add(Pace::Progress, clock::now(), None);
    response.extensions_mut().insert(WatchAnswer(answer));
    response
}

/// The account of a watch's answer, as an extension of the response.
#[derive(Clone)]
struct WatchAnswer(Arc<UnreadAnswer>);
