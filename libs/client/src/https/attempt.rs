//! Whether an attempt that failed is made again: a pure decision.

use std::time::Duration;

use oarlock_meta::Status;
use oarlock_seeded_bug::seeded_bug;
use tokio::time::Instant;

use super::Response;

/// The pauses between attempts double from here …
const FIRST: Duration = Duration::from_millis(50);
/// … to here.
const MAX: Duration = Duration::from_secs(2);
/// A server is asked again so often when it says when to come back (as client-go).
const REFUSALS: u32 = 10;
/// A read is sent again so often when its connection breaks.
const BREAKS: u32 = 5;

pub(super) const UNAUTHORIZED: &str = "unauthorized";

/// Why an attempt brought no answer that can be used as it is.
pub(super) enum Failure {
    /// Nothing was sent: no server could be reached.
    Unreachable(String),
    /// The server certainly did not begin with the request: a stream or connection that it refused.
    NotBegun(String),
    /// The connection broke; what became of the request is unknown.
    Broken(String),
    /// The request cannot even be written.
    Request(String),
    /// The server answered that it did not do it.
    Refused(Refusal, Box<Response>),
    /// 401 for a token that may have been renewed.
    Unauthorized(Box<Response>),
    /// The budget of the call is spent.
    Deadline,
}

/// An answer that invites another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: u16,
    /// When to come back, if the server says so.
    pub(super) after: Option<Duration>,
    /// Another server may do it now.
    pub(super) elsewhere: bool,
}

/// What to do.
pub(super) enum Verdict {
    /// Take the answer for what it is.
    Answer(Box<Response>),
    /// No answer.
    GiveUp(Status),
    /// Another attempt after a pause, for this reason.
    Again(Duration, &'static str),
}

/// The attempts at one call.
pub(super) struct Retry {
    safe: bool,
    deadline: Instant,
    attempts: u32,
    refusals: u32,
    breaks: u32,
    renewed: bool,
}

impl Retry {
    /// `safe`: doing it twice is as good as once.
    pub(super) fn new(safe: bool, deadline: Instant) -> Self {
        Self { safe, deadline, attempts: 0, refusals: 0, breaks: 0, renewed: false }
    }

    pub(super) fn judge(&mut self, failure: Failure) -> Verdict {
        self.attempts += 1;
        self.safe |= seeded_bug!("retry_unknown_write");
        match failure {
            Failure::Request(why) => Verdict::GiveUp(Status::bad_request(why)),
            Failure::Deadline if self.safe => Verdict::GiveUp(late()),
            Failure::Deadline => Verdict::GiveUp(unknown("the deadline passed")),
            Failure::Unreachable(why) | Failure::NotBegun(why) => {
                self.again("not sent").unwrap_or_else(|| Verdict::GiveUp(Status::service_unavailable(why)))
            }
            Failure::Broken(why) if self.safe => {
                self.breaks += 1;
                let again = if self.breaks <= BREAKS { self.again("connection broke") } else { None };
                again.unwrap_or_else(|| Verdict::GiveUp(Status::service_unavailable(why)))
            }
            Failure::Broken(why) => Verdict::GiveUp(unknown(&why)),
            Failure::Unauthorized(_) if !self.renewed => {
                self.renewed = true;
                Verdict::Again(Duration::ZERO, UNAUTHORIZED)
            }
            Failure::Unauthorized(response) => Verdict::Answer(response),
            Failure::Refused(refusal, response) => self.refused(refusal, response),
        }
    }

    fn refused(&mut self, refusal: Refusal, response: Box<Response>) -> Verdict {
        self.refusals += 1;
        // Without a time to come back, a 503 may be a proxy's that lost the server on the way.
        if self.refusals > REFUSALS || (refusal.after.is_none() && !self.safe && refusal.code != 429) {
            return Verdict::Answer(response);
        }
        let pause = match refusal.elsewhere {
            true => Duration::ZERO,
            false => refusal.after.unwrap_or_else(|| self.pause()).max(FIRST),
        };
        if self.left() <= pause { Verdict::Answer(response) } else { Verdict::Again(pause, "refused") }
    }

    /// Another attempt, if there is time for it.
    fn again(&self, why: &'static str) -> Option<Verdict> {
        let pause = self.pause();
        (self.left() > pause).then_some(Verdict::Again(pause, why))
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Doubles; up to half of it is left to chance, so that clients of a server that comes back do not come all at once. The first
    /// attempt after a clean refusal costs nothing: another connection will do.
    fn pause(&self) -> Duration {
        if self.attempts <= 1 {
            return Duration::ZERO;
        }
        let whole = FIRST.saturating_mul(1 << self.attempts.min(10)).min(MAX);
        let half = whole / 2;
        let span = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX).max(1);
        half + Duration::from_nanos(getrandom::u64().unwrap_or(span / 2) % span)
    }
}

/// A read did not come back in time.
pub(super) fn late() -> Status {
    Status::timeout("the server did not answer before the deadline", 0)
}

/// A write of which nobody knows what became of it.
pub(super) fn unknown(why: &str) -> Status {
    Status::timeout(format!("{why}; the outcome of the request is unknown"), 0)
}
