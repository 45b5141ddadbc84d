//! Several controller managers and schedulers that share their work, in virtual time, under every fault of networks and processes.
//!
//! A seed is one world: a real API server (store, View, admission, verbs); processes with their own actors, real placement and real controllers or a
//! real scheduler, each connected by its own wires; and users who scale, create and delete Deployments, run Jobs, and change DaemonSets and nodes. The
//! faults: a process is killed, is shut down in order, sleeps while its sent messages are on the wire, receives nothing, or is not received; the wall
//! clock is set. After the last fault the result is judged:
//!
//! * **F1** every write under `unit@epoch` lies in the log between that epoch and the unit's next.
//! * **C1** within [`HEALED`](world::HEALED) every workload is at its spec: as many pods as wanted, each bound, none without an owner; every Job
//!   complete, each end of a pod counted once and no pod kept; on each node that is to have one, one pod of each DaemonSet, of its last template.
//! * **S2** a pod is bound once: its node never changes.
//!
//! ```text
//! OARLOCK_SEED=17 cargo test -p oarlock-tests-sim crew              # one seed
//! OARLOCK_SEEDS=1000 cargo test -p oarlock-tests-sim crew           # many; prints the effects of faults
//! ```

mod alone;
mod cloud;
mod daemons;
mod door;
mod half;
mod hour;
mod jobs;
mod judge;
mod lives;
mod lost_answers;
mod member;
mod spans;
mod told;
mod unseen;
mod users;
mod world;

use std::collections::BTreeMap;

use oarlock_runtime::Universe;

/// Number of seeds of a whole sweep.
const SEEDS: u64 = 200;

/// Faults that must have had an effect in enough of the seeds.
const KINDS: [&str; 10] = [
    "killed",
    "ended",
    "partition",
    "answers lost",
    "asleep",
    "late",
    "no bus",
    "clock set",
    "unit moved",
    "stale owner refused",
];

#[test]
fn units_move_under_faults_and_nothing_is_done_twice_or_left_undone() {
    let swept = Universe::sweep_threads(SEEDS, world::run);
    let mut seeds: BTreeMap<&str, usize> = KINDS.iter().map(|kind| (*kind, 0)).collect();
    let (mut fenced, mut bound) = (0, 0);
    for (_, outcome) in &swept {
        outcome.value.marks.keys().for_each(|kind| *seeds.entry(kind).or_default() += 1);
        fenced += outcome.value.fenced;
        bound += outcome.value.bound;
    }
    println!("{} seeds, {fenced} writes under a claim, {bound} by the arbiter", swept.len());
    seeds.iter().for_each(|(kind, seeds)| println!("{kind:<22} in {seeds} seeds"));
    if swept.len() == 1 {
        return;
    }
    let enough = |bitten: usize| Universe::happened_enough(bitten, swept.len(), SEEDS);
    let tame: Vec<_> = seeds.iter().filter(|(_, bitten)| !enough(**bitten)).collect();
    assert!(tame.is_empty(), "these did not bite in enough of {} seeds: {tame:?}", swept.len());
    assert_eq!(seeds.len(), KINDS.len(), "a fault that is not in the table");
    assert!(fenced > swept.len() as u64 * 20, "{fenced}");
    assert!(bound > swept.len() as u64 * 5, "{bound}");
}
