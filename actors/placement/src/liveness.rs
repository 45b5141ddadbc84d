//! Judges from Leases which members are alive.
//!
//! A Lease's duration counts from the moment at which this process saw the Lease change, by its own monotonic clock: no two clocks are compared, and
//! a step of the wall clock has no effect. A process that does not see its own Lease renewed judges no member. When it sees a renewal again, every
//! Lease's duration starts anew.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use oarlock_meta::Revision;
use oarlock_runtime::Instant;
use oarlock_schema::Str;

use crate::plan::State;

/// The current state of a member's Lease.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    /// The Lease's revision.
    pub(crate) revision: Revision,
    /// The Lease's duration (`leaseDurationSeconds`).
    pub(crate) lasts: Duration,
    /// Whether the Lease has the label of a member that is shutting down.
    pub(crate) leaving: bool,
}

/// The Leases of a role with the times at which this process saw them change.
#[derive(Debug)]
pub(crate) struct Liveness {
    me: Str,
    seen: BTreeMap<Str, (Revision, Instant)>,
    judges: bool,
}

impl Liveness {
    /// The state of the member `me` before any Lease was seen.
    pub(crate) fn new(me: Str) -> Self {
        Self { me, seen: BTreeMap::new(), judges: false }
    }

    /// Returns the state of each member that has a Lease, of which `silent` are silent on the bus. `None` while this process's own Lease is not renewed.
    pub(crate) fn judge(
        &mut self,
        leases: &BTreeMap<Str, Lease>,
        silent: &BTreeSet<Str>,
        now: Instant,
    ) -> Option<BTreeMap<Str, State>> {
        self.seen.retain(|name, _| leases.contains_key(name));
        for (name, lease) in leases {
            let seen = self.seen.entry(name.clone()).or_insert((lease.revision, now));
            if seen.0 != lease.revision {
                *seen = (lease.revision, now);
            }
        }
        // Half the duration: a partitioned process must stop judging before the others' Leases seem to expire.
        let renewed = leases.get(&self.me).is_some_and(|own| self.age(&self.me, now) < own.lasts / 2);
        if renewed && !self.judges {
            self.seen.values_mut().for_each(|(_, at)| *at = now);
        }
        self.judges = renewed;
        let state = |(name, lease): (&Str, &Lease)| {
            let state = match lease.leaving {
                _ if self.age(name, now) >= lease.lasts => State::Expired,
                true => State::Leaving,
                false if silent.contains(name) => State::Silent,
                false => State::Working,
            };
            (name.clone(), state)
        };
        renewed.then(|| leases.iter().map(state).collect())
    }

    /// Returns the time at which the next Lease expires unless it is renewed.
    pub(crate) fn next(&self, leases: &BTreeMap<Str, Lease>, now: Instant) -> Option<Instant> {
        let ends = |(name, lease): (&Str, &Lease)| Some(self.seen.get(name)?.1 + lease.lasts);
        leases.iter().filter_map(ends).filter(|end| *end > now).min()
    }

    fn age(&self, name: &Str, now: Instant) -> Duration {
        self.seen.get(name).map_or(Duration::ZERO, |(_, at)| now - *at)
    }
}

#[cfg(test)]
mod tests {
    use oarlock_runtime::{Universe, clock};

    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn lease(revision: u64) -> Lease {
        Lease { revision: Revision(revision), lasts: 15 * S, leaving: false }
    }

    fn leases(own: u64, other: u64) -> BTreeMap<Str, Lease> {
        BTreeMap::from([("a".into(), lease(own)), ("b".into(), lease(other))])
    }

    #[test]
    fn who_does_not_renew_is_gone_when_its_time_is_over() {
        Universe::sweep(0..1, || async {
            let mut live = Liveness::new("a".into());
            for second in 0..15 {
                let all = live.judge(&leases(second + 1, 1), &BTreeSet::new(), clock::now()).unwrap();
                assert_eq!(all["b"], State::Working, "after {second} s");
                clock::sleep(S).await;
            }
            assert_eq!(live.judge(&leases(100, 1), &BTreeSet::new(), clock::now()).unwrap()["b"], State::Expired);
            assert_eq!(
                live.judge(&leases(100, 2), &BTreeSet::new(), clock::now()).unwrap()["b"],
                State::Working,
                "it has come back"
            );
            let leaving = Lease { leaving: true, ..lease(3) };
            let all = BTreeMap::from([("a".into(), lease(100)), ("b".into(), leaving)]);
            assert_eq!(live.judge(&all, &BTreeSet::new(), clock::now()).unwrap()["b"], State::Leaving);
            let silent = BTreeSet::from(["b".into()]);
            assert_eq!(live.judge(&leases(101, 4), &silent, clock::now()).unwrap()["b"], State::Silent);
        });
    }

    #[test]
    fn who_is_cut_off_judges_nobody_and_begins_anew() {
        Universe::sweep(0..1, || async {
            let mut live = Liveness::new("a".into());
            assert!(live.judge(&leases(1, 1), &BTreeSet::new(), clock::now()).is_some());
            clock::sleep(60 * S).await;
            assert!(
                live.judge(&leases(1, 1), &BTreeSet::new(), clock::now()).is_none(),
                "its own is not renewed either"
            );
            // The process sees its own renewal first after the outage; the other's duration starts anew.
            assert_eq!(live.judge(&leases(2, 1), &BTreeSet::new(), clock::now()).unwrap()["b"], State::Working);
            clock::sleep(5 * S).await;
            assert_eq!(live.judge(&leases(3, 1), &BTreeSet::new(), clock::now()).unwrap()["b"], State::Working);
        });
    }
}
