//! Cloud controller managers in virtual time: each effect on the cloud happens once, whatever happens to the holder of the unit (check X1,
//! `oarlock_check::effects`).
//!
//! A seed is an API server, two members with the real controllers over real placement and a bus, a cloud that reads its state some time before it
//! acts, as real clouds do, and a user who creates, changes and deletes Services. The faults concern the holder of the unit: it is killed, is cut off
//! from the API (but not from the cloud), sends messages that are lost, sleeps, or is shut down in order.

mod provider;
mod world;

use std::collections::BTreeMap;

use oarlock_runtime::Universe;

pub(super) use provider::FakeCloud;

/// Number of seeds of a whole sweep.
const SEEDS: u64 = 200;

/// Events that must have happened in enough of the seeds.
const SHOWN: [&str; 8] =
    ["killed", "cut off", "not heard", "asleep", "ended", "unit moved", "made", "calls that were too late"];

#[test]
fn what_reaches_a_cloud_is_done_once_whatever_becomes_of_who_holds_the_unit() {
    let swept = Universe::sweep_threads(SEEDS, world::run);
    let mut seeds: BTreeMap<&str, usize> = SHOWN.iter().map(|what| (*what, 0)).collect();
    for (_, outcome) in &swept {
        outcome.value.keys().for_each(|what| *seeds.entry(what).or_default() += 1);
    }
    seeds.iter().for_each(|(what, in_seeds)| println!("{what:<26} in {in_seeds} of {} seeds", swept.len()));
    if swept.len() > 1 {
        let enough = |what: &str| Universe::happened_enough(seeds[what], swept.len(), SEEDS);
        let missing: Vec<_> = SHOWN.iter().filter(|what| !enough(what)).collect();
        assert!(missing.is_empty(), "these did not happen in enough of the seeds: {missing:?}");
    }
}
