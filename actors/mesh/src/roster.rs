//! Who was heard, and when.

use std::collections::BTreeMap;
use std::time::Duration;

use oarlock_bus::{Identity, Role};
use oarlock_runtime::Instant;

/// Members that are kept in mind; further ones are forgotten at once.
const MOST: usize = 20_000;

/// How often members say that they live whose work others take over.
pub const BEAT: Duration = Duration::from_millis(250);

/// How often a member says that it lives: nodes are many.
pub(crate) const fn period(role: Role) -> Duration {
    match role {
        Role::Node => Duration::from_secs(30),
        Role::Controllers | Role::Scheduler | Role::Cloud => BEAT,
        _ => Duration::from_secs(5),
    }
}

/// For how long a member is kept in mind that is silent.
const fn memory(role: Role) -> Duration {
    match role {
        Role::Node => Duration::from_secs(360),
        _ => Duration::from_secs(60),
    }
}

/// Members that were heard lately.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    heard: BTreeMap<Identity, Instant>,
}

impl Roster {
    pub(crate) fn hear(&mut self, who: Identity, now: Instant) {
        if self.heard.len() < MOST || self.heard.contains_key(&who) {
            self.heard.insert(who, now);
        }
    }

    /// Everybody, and how long ago they were heard.
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
        roster.hear(scheduler.clone(), start);
        roster.hear(node.clone(), start);
        roster.hear(node.clone(), start + Duration::from_secs(10));
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(
            roster.list(at(59)),
            [(scheduler, Duration::from_secs(59)), (node.clone(), Duration::from_secs(49))]
        );
        assert_eq!(roster.list(at(60)), [(node, Duration::from_secs(50))]);
        assert_eq!(roster.list(at(370)), []);
    }
}
