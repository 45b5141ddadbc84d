//! Graceful shutdown of a server: clients that can use another server lose no request. Upstream's order and flags:
//!
//! 1. **Announce** (phase `announce`): `/readyz` fails and the server leaves the endpoints of Service `kubernetes`. For `--shutdown-delay-duration`
//!    the server still accepts connections and requests, so that load balancers can notice.
//! 2. **Refuse** (phase `ingress`, only with `--shutdown-send-retry-after`): new requests, on new and old connections, are answered with 429 and
//!    `Retry-After` until all requests in flight are done. Watches end here, each after its last event, spread over
//!    `--shutdown-watch-termination-grace-period`.
//! 3. **Close** (phase `ingress`): the socket closes when the last connection in the accept backlog has been taken and no new one gets in. Each HTTP/2 connection gets a
//!    GOAWAY, each HTTP/1.1 connection ends after its request. Running requests have [`Config::request_timeout`](crate::Config::request_timeout) to
//!    finish.
//!
//! Then the request pipeline and the store stop, as in every process.

use std::time::Duration;

use oarlock_runtime::shutdown::Graces;
use oarlock_runtime::{ActorKind, Failure, LoopCtx, Phase, clock};
use oarlock_seeded_bug::seeded_bug;

use crate::server::Server;

/// The actor of step 1, the announcement.
pub static ANNOUNCER: ActorKind =
    ActorKind { name: "apiserver.announcer", phase: Phase::Announce, ..ActorKind::DEFAULT };

/// Minimum number of watches that are ended per second (upstream: 200).
const MIN_WATCHES_PER_SECOND: u32 = 200;

/// Time for the steps that no flag bounds: leaving the endpoints, ending streams.
const UNBOUNDED_STEPS_MARGIN: Duration = Duration::from_secs(10);

/// Settings of a graceful shutdown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Termination {
    /// How long the server still serves after it has become unready.
    pub delay: Duration,
    /// Whether new requests are answered with 429 until the requests in flight are done.
    pub send_retry_after: bool,
    /// Period over which the ends of watches are spread; zero ends them at once.
    pub watches: Duration,
}

impl Termination {
    /// Returns the time limits of the shutdown phases of a process with such a server.
    #[must_use]
    pub fn graces(&self, request_timeout: Duration) -> Graces {
        let ingress = request_timeout * if self.send_retry_after { 2 } else { 1 };
        Graces::default()
            .with(Phase::Announce, self.delay + UNBOUNDED_STEPS_MARGIN)
            .with(Phase::Ingress, ingress + self.watches + UNBOUNDED_STEPS_MARGIN)
    }

    /// Returns the period over which the ends of `watches` watches are spread.
    #[must_use]
    pub(crate) fn spread(&self, watches: usize) -> Duration {
        let watches = u32::try_from(watches).unwrap_or(u32::MAX);
        self.watches.min(Duration::from_secs(1) * watches / MIN_WATCHES_PER_SECOND)
    }
}

/// Waits for the shutdown to begin and makes the server unready.
///
/// # Errors
/// None.
pub async fn run(ctx: LoopCtx, server: Server) -> Result<(), Failure> {
    ctx.protected(ctx.cancelled()).await;
    if !seeded_bug!("ready_while_stopping") {
        server.state().set_stopping();
    }
    // After a fatal failure the server has nothing to serve with, so waiting is useless.
    if ctx.system().fatal().is_none() {
        ctx.protected(clock::sleep(server.config().termination.delay)).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_watches_end_fast_and_many_within_the_grace() {
        let within = |seconds| Termination { watches: Duration::from_secs(seconds), ..Termination::default() };
        for (grace, watches, millis) in
            [(0, 1000, 0), (10, 0, 0), (10, 1, 5), (10, 200, 1000), (10, 2000, 10_000), (10, usize::MAX, 10_000)]
        {
            assert_eq!(within(grace).spread(watches), Duration::from_millis(millis), "{watches} in {grace} s");
        }
    }
}
