//! The count of valid Leases, apart from any I/O.

use oarlock_meta::MicroTime;
use serde::Deserialize;

/// The fields of a Lease that decide whether the Lease is valid.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Lease {
    #[serde(default)]
    spec: Spec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    lease_duration_seconds: Option<i64>,
    acquire_time: Option<MicroTime>,
    renew_time: Option<MicroTime>,
}

/// The outcome of a count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tally<L> {
    /// The number of valid Leases.
    pub(super) valid: u32,
    /// The Leases that have expired.
    pub(super) expired: Vec<L>,
}

/// Counts Leases at a time, in microseconds since 1970. A Lease is valid for its duration from its last renewal, or else from its acquisition; without either it has expired
/// (upstream's rule).
pub(super) fn tally<L>(leases: impl IntoIterator<Item = (L, Lease)>, now: i64) -> Tally<L> {
    let mut tally = Tally { valid: 0, expired: Vec::new() };
    for (owner, Lease { spec }) in leases {
        let from = spec.renew_time.or(spec.acquire_time);
        let lasts = spec.lease_duration_seconds.unwrap_or(0).saturating_mul(1_000_000);
        if from.is_some_and(|from| from.unix_micros().saturating_add(lasts) > now) {
            tally.valid = tally.valid.saturating_add(1);
        } else {
            tally.expired.push(owner);
        }
    }
    tally
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lease_counts_for_its_duration_from_its_last_renewal() {
        let lease = |name: &'static str, spec| (name, serde_json::from_value::<Lease>(json!({"spec": spec})).unwrap());
        let (then, later) = ("2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:20.000000Z");
        let leases = [
            lease("renewed", json!({"leaseDurationSeconds": 30, "acquireTime": then, "renewTime": later})),
            lease("acquired", json!({"leaseDurationSeconds": 30, "acquireTime": then})),
            lease("old", json!({"leaseDurationSeconds": 20, "acquireTime": later, "renewTime": then})),
            lease("untimed", json!({"leaseDurationSeconds": 30})),
            lease("endless", json!({"leaseDurationSeconds": i64::MAX, "renewTime": then})),
        ];
        let now = MicroTime::parse(then).unwrap().unix_micros();
        let count = |after: i64| {
            let tally = tally(leases.clone(), now + after * 1_000_000);
            (tally.valid, tally.expired)
        };
        assert_eq!(count(20), (3, vec!["old", "untimed"]));
        assert_eq!(count(30), (2, vec!["acquired", "old", "untimed"]));
        assert_eq!(count(50), (1, vec!["renewed", "acquired", "old", "untimed"]));
    }
}
