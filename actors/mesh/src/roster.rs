//! The roster: the members of the bus from which a heartbeat was received recently.

use std::collections::BTreeMap;
use std::time::Duration;

use oarlock_bus::{Identity, Role};
use oarlock_runtime::Instant;

/// The most members that a roster holds; heartbeats of further members are ignored.
const MAX_MEMBERS: usize = 20_000;

/// The heartbeat period of members whose work other members take over.
pub const HEARTBEAT_PERIOD: Duration = Duration::from_millis(250);

/// Returns the heartbeat period of a role's members. Nodes have the longest, because they are many.
pub(crate) const fn period(role: Role) -> Duration {
    match role {
        Role::Node => Duration::from_secs(30),
        Role::Controllers | Role::Scheduler | Role::Cloud => HEARTBEAT_PERIOD,
        _ => Duration::from_secs(5),
    }
}

/// Returns the time after which a silent member of a role is removed from the roster.
const fn memory(role: Role) -> Duration {
    match role {
        Role::Node => Duration::from_secs(360),
        _ => Duration::from_secs(60),
    }
}

/// The members of the bus with the times of their last heartbeats.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    heard: BTreeMap<Identity, Instant>,
}

impl Roster {
    pub(crate) fn record_heartbeat(&mut self, who: Identity, now: Instant) {
        if self.heard.len() < MAX_MEMBERS || self.heard.contains_key(&who) {
            self.heard.insert(who, now);
        }
    }

    /// Removes silent members; returns the others, each with the time since its last heartbeat.
    pub(crate) fn list(&mut self, now: Instant) -> Vec<(Identity, Duration)> {
        self.heard.retain(|who, at| now - *at < memory(who.role()));
        self.heard.iter().map(|(who, at)| (who.clone(), now - *at)).collect()
    }
}

#[cfg(test)]
mod tests {
    use oarlock_runtime::clock;

    use super::*;

    #[tokio::test]
    async fn the_silent_are_forgotten_after_a_while_nodes_later() {
        let (mut roster, start) = (Roster::default(), clock::now());
        let [scheduler, node] = [Role::Scheduler, Role::Node].map(|role| Identity::new(role, "a").unwrap());
        roster.record_heartbeat(scheduler.clone(), start);
        roster.record_heartbeat(node.clone(), start);
        roster.record_heartbeat(node.clone(), start + Duration::from_secs(10));
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(
            roster.list(at(59)),
            [(scheduler, Duration::from_secs(59)), (node.clone(), Duration::from_secs(49))]
        );
        assert_eq!(roster.list(at(60)), [(node, Duration::from_secs(50))]);
        assert_eq!(roster.list(at(370)), []);
    }
}
