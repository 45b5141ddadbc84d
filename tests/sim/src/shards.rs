//! Several scheduler processes over one API server, in virtual time and under faults: shards propose, one arbiter decides.
//!
//! A seed is one world: a real API server (store, View, admission, verbs) in this process; three schedulers, each with its own actors, placement,
//! caches with a delay drawn from the seed, and a connection to a bus in memory; a load that fills the nodes, deletes pods, binds pods without a
//! scheduler, and creates pods of higher priority that preempt others. The faults: processes are killed, shut down and started, the bus is cut, units
//! are reassigned, and writes arrive after their client has given up. In the end every pod has a node, and `oarlock-check`, which shares no code with
//! the scheduler, judges each binding by a replay of the log (`tests/check/src/placement.rs`).
//!
//! A sweep fails when no proposal was refused, or when a kind of fault did not occur: such a sweep has tested nothing.
//!
//! ```text
//! OARLOCK_SEED=3 cargo test -p oarlock-tests-sim shards
//! OARLOCK_SEEDS=100 cargo test -p oarlock-tests-sim shards
//! ```

mod line;
mod load;
mod log;
mod member;
mod world;

use std::collections::BTreeMap;

use oarlock_runtime::Universe;

#[test]
fn shards_bind_every_pod_once_and_break_no_constraint() {
    let swept = Universe::sweep_threads(50, world::run);
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (seed, outcome) in &swept {
        let shown = &outcome.value;
        println!("seed {seed}: {shown:?}");
        shown.iter().for_each(|(what, count)| *sums.entry(*what).or_default() += count);
    }
    println!("{} seeds: {sums:?}", swept.len());
    let lacking: Vec<&str> =
        world::SHOWN.into_iter().filter(|what| sums.get(what).is_none_or(|count| *count == 0)).collect();
    assert!(lacking.is_empty() || swept.len() == 1, "void: no {lacking:?}");
}
