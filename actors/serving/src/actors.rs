//! The actors of a process as `/debug/actors`, health checks and metrics show them.

use std::collections::BTreeMap;

use oarlock_runtime::{ActorKind, ActorStatus, Life, System};
use serde_json::Value;

/// Returns the status of all actors as JSON.
#[must_use]
pub fn json(system: &System) -> String {
    serde_json::to_string(&system.snapshot()).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
}

/// Returns an actor that has failed for good: the actor ended with an error and no actor of the same kind and key is running.
pub(crate) fn given_up(statuses: &[ActorStatus]) -> Option<String> {
    let lives = |lost: &ActorStatus| {
        statuses.iter().any(|other| other.life != Life::Ended && (&other.kind, &other.key) == (&lost.kind, &lost.key))
    };
    let lost =
        statuses.iter().find(|status| status.life == Life::Ended && status.last_error.is_some() && !lives(status));
    lost.map(|lost| format!("{}/{}: {}", lost.kind, lost.key, lost.last_error.as_deref().unwrap_or_default()))
}

/// Returns a kind without a running actor, or an actor of these kinds that has not published a state or whose state has `synced: false`.
pub(crate) fn unsynced(statuses: &[ActorStatus], kinds: &[&'static ActorKind]) -> Option<String> {
    kinds.iter().find_map(|kind| {
        let mut of_kind = statuses.iter().filter(|status| status.kind == kind.name).peekable();
        if of_kind.peek().is_none() {
            return Some(format!("no {} yet", kind.name));
        }
        let waits =
            |status: &&ActorStatus| status.state.is_null() || status.state.get("synced") == Some(&Value::Bool(false));
        of_kind.find(waits).map(|status| format!("{}/{}", status.kind, status.key))
    })
}

/// The figures of all actors of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OfKind {
    pub(crate) lives: BTreeMap<String, u64>,
    pub(crate) restarts: u64,
    pub(crate) queued: u64,
}

/// Sums the actors' figures by kind, because a process has few kinds but many actors.
pub(crate) fn by_kind(statuses: Vec<ActorStatus>) -> BTreeMap<String, OfKind> {
    statuses.into_iter().fold(BTreeMap::new(), |mut kinds: BTreeMap<String, OfKind>, status| {
        let kind = kinds.entry(status.kind).or_default();
        *kind.lives.entry(format!("{:?}", status.life)).or_default() += 1;
        kind.restarts += u64::from(status.restarts);
        kind.queued += status.queue_depth as u64;
        kinds
    })
}

#[cfg(test)]
mod tests {
    use oarlock_runtime::Phase;
    use serde_json::json;

    use super::*;

    static SHARD: ActorKind = ActorKind { name: "scheduler.shard", ..ActorKind::DEFAULT };
    static REFLECTOR: ActorKind = ActorKind { name: "informer.reflector", ..ActorKind::DEFAULT };

    fn status(kind: &str, key: &str, life: Life, state: Value) -> ActorStatus {
        ActorStatus {
            kind: kind.to_owned(),
            key: key.to_owned(),
            host: "h".to_owned(),
            phase: Phase::Crew,
            life,
            incarnation: 3,
            restarts: 2,
            handled: 0,
            queue_depth: 5,
            queue_peak: 5,
            mailbox: 256,
            oldest_message_ms: None,
            last_error: (life == Life::Ended).then(|| "it panicked".to_owned()),
            state,
        }
    }

    #[test]
    fn who_was_given_up_is_missed_until_somebody_of_its_name_lives() {
        let lost = status("a.b", "one", Life::Ended, Value::Null);
        let others = [status("a.b", "two", Life::Running, Value::Null), lost.clone()];
        assert_eq!(given_up(&others), Some("a.b/one: it panicked".to_owned()));
        assert_eq!(given_up(&[status("a.b", "one", Life::Running, Value::Null), lost]), None);
    }

    #[test]
    fn whoever_shows_nothing_yet_or_says_so_is_not_synced() {
        let kinds = [&SHARD, &REFLECTOR];
        let shard = status("scheduler.shard", "default-scheduler", Life::Running, json!({"nodes": 1}));
        let reads = |synced: bool| status("informer.reflector", "pods", Life::Running, json!({"synced": synced}));
        assert_eq!(unsynced(&[], &kinds), Some("no scheduler.shard yet".to_owned()));
        assert_eq!(unsynced(&[shard.clone(), reads(false)], &kinds), Some("informer.reflector/pods".to_owned()));
        assert_eq!(unsynced(&[shard.clone(), reads(true)], &kinds), None);
        let silent = ActorStatus { state: Value::Null, ..shard };
        assert_eq!(unsynced(&[silent, reads(true)], &kinds), Some("scheduler.shard/default-scheduler".to_owned()));
    }

    #[test]
    fn figures_of_a_kind_add_up() {
        let both =
            vec![status("a.b", "one", Life::Running, Value::Null), status("a.b", "two", Life::Starting, Value::Null)];
        let lives = BTreeMap::from([("Running".to_owned(), 1), ("Starting".to_owned(), 1)]);
        assert_eq!(by_kind(both), BTreeMap::from([("a.b".to_owned(), OfKind { lives, restarts: 4, queued: 10 })]));
    }
}
