//! The decision when an agent connects again: as many times as there are servers, at once when one is missing, more rarely while connecting fails.

use std::time::Duration;

/// The share by which upstream lengthens the pause after each failure, in percent.
const GROWTH_PERCENT: u32 = 150;

/// Outcome of an attempt to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// A server without a connection before is connected.
    Connected,
    /// The load balancer chose a server that is connected already.
    Duplicate,
    /// No server answered, or one refused.
    Failed,
}

/// The state of the decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sync {
    interval: Duration,
    cap: Duration,
    pause: Duration,
    /// The number of servers, as the server connected last has counted them.
    servers: usize,
}

impl Sync {
    /// Starts with an unknown number of servers, of which there is one at least. Pauses are between `interval` and `cap`.
    pub(crate) fn new(interval: Duration, cap: Duration) -> Self {
        Self { interval, cap: cap.max(interval), pause: interval, servers: 1 }
    }

    /// Whether a connection is missing.
    pub(crate) const fn wants(&self, connected: usize) -> bool {
        connected < self.servers
    }

    /// The number of servers.
    pub(crate) const fn servers(&self) -> usize {
        self.servers
    }

    /// Notes how many servers there are according to one of them. A server exists, so the number is at least 1.
    pub(crate) fn note_servers(&mut self, servers: usize) {
        self.servers = servers.max(1);
    }

    /// Returns the pause after an attempt, before jitter.
    pub(crate) fn after(&mut self, attempt: Attempt) -> Duration {
        match attempt {
            Attempt::Connected | Attempt::Duplicate => {
                self.pause = self.interval;
                self.interval
            }
            Attempt::Failed => {
                let pause = self.pause;
                self.pause = (pause * GROWTH_PERCENT / 100).min(self.cap);
                pause
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_lengthen_the_pause_up_to_a_cap_and_a_success_resets_it() {
        let mut sync = Sync::new(Duration::from_secs(1), Duration::from_secs(3));
        let pauses: Vec<_> = (0..5).map(|_| sync.after(Attempt::Failed).as_millis()).collect();
        assert_eq!(pauses, [1000, 1500, 2250, 3000, 3000]);
        assert_eq!(sync.after(Attempt::Duplicate), Duration::from_secs(1));
        assert_eq!(sync.after(Attempt::Failed), Duration::from_secs(1));
    }

    #[test]
    fn as_many_connections_are_wanted_as_there_are_servers() {
        let mut sync = Sync::new(Duration::from_secs(1), Duration::from_secs(3));
        assert!(sync.wants(0) && !sync.wants(1));
        sync.note_servers(3);
        assert!(sync.wants(2) && !sync.wants(3));
        sync.note_servers(0);
        assert!(sync.wants(0) && !sync.wants(1));
    }
}
