//! Decides whether a failed attempt is repeated. No I/O.

use std::time::Duration;

use oarlock_meta::Status;
use oarlock_seeded_bug::seeded_bug;
use tokio::time::Instant;

use super::Response;
use super::error::{ConnectError, RequestError};

/// First pause between attempts; further pauses double.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longest pause between attempts.
const MAX_PAUSE: Duration = Duration::from_secs(2);
/// Attempts after refusals with a `Retry-After` (as client-go).
const MAX_REFUSALS: u32 = 10;
/// Attempts of a read whose connection breaks.
const MAX_BREAKS: u32 = 5;

pub(super) const UNAUTHORIZED: &str = "unauthorized";

/// Why an attempt produced no usable answer.
pub(super) enum Failure {
    /// Nothing was sent: no server could be reached.
    Unreachable(ConnectError),
    /// The server certainly did not begin the request: it refused the stream or the connection.
    NotBegun(String),
    /// The connection broke; the outcome of the request is unknown.
    Broken(String),
    /// The request cannot be encoded.
    Request(RequestError),
    /// The server answered that it did not execute the request.
    Refused(Refusal, Box<Response>),
    /// 401 for a token that may have been renewed.
    Unauthorized(Box<Response>),
    /// The budget of the call is spent.
    Deadline,
}

/// A refusal that permits another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: u16,
    /// Time until the next attempt, if the server names one.
    pub(super) after: Option<Duration>,
    /// Whether another server may accept the request now.
    pub(super) elsewhere: bool,
}

/// Decision about a failed attempt.
pub(super) enum Verdict {
    /// Return the server's answer.
    Answer(Box<Response>),
    /// Return this Status.
    GiveUp(Status),
    /// Make another attempt after a pause, for this reason.
    Retry(Duration, &'static str),
}

/// The attempts of one call.
pub(super) struct Retry {
    safe: bool,
    deadline: Instant,
    attempts: u32,
    refusals: u32,
    breaks: u32,
    renewed: bool,
}

impl Retry {
    /// Creates the state of a call. `safe`: sending it twice has the same effect as once.
    pub(super) fn new(safe: bool, deadline: Instant) -> Self {
        Self { safe, deadline, attempts: 0, refusals: 0, breaks: 0, renewed: false }
    }

    pub(super) fn judge(&mut self, failure: Failure) -> Verdict {
        self.attempts += 1;
        self.safe |= seeded_bug!("retry_unknown_write");
        match failure {
            Failure::Request(why) => Verdict::GiveUp(Status::bad_request(why.to_string())),
            Failure::Deadline if self.safe => Verdict::GiveUp(late()),
            Failure::Deadline => Verdict::GiveUp(unknown("the deadline passed")),
            Failure::Unreachable(why) => self.unsent(&why.to_string()),
            Failure::NotBegun(why) => self.unsent(&why),
            Failure::Broken(why) if self.safe => {
                self.breaks += 1;
                let again = if self.breaks <= MAX_BREAKS { self.again("connection broke") } else { None };
                again.unwrap_or_else(|| Verdict::GiveUp(Status::service_unavailable(why)))
            }
            Failure::Broken(why) => Verdict::GiveUp(unknown(&why)),
            Failure::Unauthorized(_) if !self.renewed => {
                self.renewed = true;
                Verdict::Retry(Duration::ZERO, UNAUTHORIZED)
            }
            Failure::Unauthorized(response) => Verdict::Answer(response),
            Failure::Refused(refusal, response) => self.refused(refusal, response),
        }
    }

    fn unsent(&self, why: &str) -> Verdict {
        self.again("not sent").unwrap_or_else(|| Verdict::GiveUp(Status::service_unavailable(why)))
    }

    fn refused(&mut self, refusal: Refusal, response: Box<Response>) -> Verdict {
        self.refusals += 1;
        // Without `Retry-After`, a 503 may come from a proxy that lost the server after sending the request.
        if self.refusals > MAX_REFUSALS || (refusal.after.is_none() && !self.safe && refusal.code != 429) {
            return Verdict::Answer(response);
        }
        let pause = match refusal.elsewhere {
            true => Duration::ZERO,
            false => refusal.after.unwrap_or_else(|| self.pause()).max(FIRST_PAUSE),
        };
        if self.remaining() <= pause { Verdict::Answer(response) } else { Verdict::Retry(pause, "refused") }
    }

    /// Decides for another attempt, if there is time for one.
    fn again(&self, why: &'static str) -> Option<Verdict> {
        let pause = self.pause();
        (self.remaining() > pause).then_some(Verdict::Retry(pause, why))
    }

    fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Returns the next pause: doubled each time, with up to half of it random, so that clients of a restarted server do not return together. The first attempt after a clean
    /// refusal has no pause: another connection may accept at once.
    fn pause(&self) -> Duration {
        if self.attempts <= 1 {
            return Duration::ZERO;
        }
        let whole = FIRST_PAUSE.saturating_mul(1 << self.attempts.min(10)).min(MAX_PAUSE);
        let half = whole / 2;
        let span = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX).max(1);
        half + Duration::from_nanos(getrandom::u64().unwrap_or(span / 2) % span)
    }
}

/// Status of a read without an answer in time.
pub(super) fn late() -> Status {
    Status::timeout("the server did not answer before the deadline", 0)
}

/// Status of a write whose outcome is unknown.
pub(super) fn unknown(why: &str) -> Status {
    Status::timeout(format!("{why}; the outcome of the request is unknown"), 0)
}
