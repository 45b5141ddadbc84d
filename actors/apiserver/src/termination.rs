//! How a server ends while clients use it, and nobody notices who can go elsewhere. Upstream's order and flags:
//!
//! 1. **Announce** (phase `announce`): `/readyz` fails, the server leaves the endpoints of Service `kubernetes`, and for
//!    `--shutdown-delay-duration` it goes on serving, new connections too, so that balancers can look.
//! 2. **Refuse** (phase `ingress`, only with `--shutdown-send-retry-after`): what comes now, on whatever connection, is answered with 429 and
//!    `Retry-After`, until everything that was under way is done. Watches end here, each in good order after its last event, spread
//!    over `--shutdown-watch-termination-grace-period`.
//! 3. **Close** (phase `ingress`): the socket closes when the last connection in its queue has been taken; each HTTP/2 connection gets a GOAWAY,
//!    each of HTTP/1.1 ends behind its request. What runs has [`Config::request_timeout`](crate::Config::request_timeout) to finish.
//!
//! Then the request pipeline and the store stop, as in every process.

use std::time::Duration;

use oarlock_runtime::shutdown::Graces;
use oarlock_runtime::{ActorKind, Failure, LoopCtx, Phase, clock};
use oarlock_seeded_bug::seeded_bug;

use crate::server::Server;

/// The row of the announcer.
pub static ANNOUNCER: ActorKind =
    ActorKind { name: "apiserver.announcer", phase: Phase::Announce, ..ActorKind::DEFAULT };

/// Watches that end in a second, at least (upstream: 200).
const WATCHES_A_SECOND: u32 = 200;

/// For what no flag says how long it takes: leaving the endpoints, breaking off streams.
const MARGIN: Duration = Duration::from_secs(10);

/// How a server ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Termination {
    /// How long it goes on after it has said that it goes.
    pub delay: Duration,
    /// New requests are answered with 429 until the old ones are done.
    pub send_retry_after: bool,
    /// Over how long watches are ended; zero: at once.
    pub watches: Duration,
}

impl Termination {
    /// How long the phases of a process with such a server may take.
    #[must_use]
    pub fn graces(&self, request_timeout: Duration) -> Graces {
        let ingress = request_timeout * if self.send_retry_after { 2 } else { 1 };
        Graces::default()
            .with(Phase::Announce, self.delay + MARGIN)
            .with(Phase::Ingress, ingress + self.watches + MARGIN)
    }

    /// Over how long so many watches are ended.
    #[must_use]
    pub(crate) fn spread(&self, watches: usize) -> Duration {
        let watches = u32::try_from(watches).unwrap_or(u32::MAX);
        self.watches.min(Duration::from_secs(1) * watches / WATCHES_A_SECOND)
    }
}

/// Waits for the end and says that it has come.
///
/// # Errors
/// None.
pub async fn run(ctx: LoopCtx, server: Server) -> Result<(), Failure> {
    ctx.protected(ctx.cancelled()).await;
    if !seeded_bug!("ready_while_stopping") {
        server.state().set_stopping();
    }
    // A server that has failed has nothing to go on with.
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
