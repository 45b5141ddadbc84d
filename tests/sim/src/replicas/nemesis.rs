//! The source of faults: draws faults from the seed's selection, one after the other, until it is stopped.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use oarlock_runtime::{Rng, clock};
use oarlock_storage::Log;

use super::replica::Replica;
use super::truth::Truth;
use super::wire::{EVERYTHING, Kind, Way, Wire};
use super::world::World;

/// A fault of a replica.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// The process is killed and started again.
    Crash,
    /// The process is ended in order and started again.
    Bounce,
    /// Messages between the replica and the log, or between the replica and its clients, are delayed, held or lost.
    Wire { name: &'static str, back: bool, what: &'static [Kind], way: Way },
    /// The replica's tail of the log is cancelled.
    CancelTail,
    /// History is compacted up to the present while the replica's tail is held.
    Compact,
}

const LATE: Way = Way::Late(Duration::from_millis(700));
const TOLD: &[Kind] = &[Kind::Answer, Kind::Stream];

const fn back(name: &'static str, what: &'static [Kind], way: Way) -> Fault {
    Fault::Wire { name, back: true, what, way }
}

const fn front(name: &'static str, what: &'static [Kind], way: Way) -> Fault {
    Fault::Wire { name, back: false, what, way }
}

/// All faults.
pub(super) const FAULTS: [Fault; 13] = [
    Fault::Crash,
    Fault::Bounce,
    Fault::CancelTail,
    Fault::Compact,
    back("log: partition", EVERYTHING, Way::Lost),
    back("log: requests lost", &[Kind::Request], Way::Lost),
    back("log: answers lost", TOLD, Way::Lost),
    back("log: held", EVERYTHING, Way::Held),
    back("log: tail held", &[Kind::Stream], Way::Held),
    back("log: late", EVERYTHING, LATE),
    front("clients: partition", EVERYTHING, Way::Lost),
    front("clients: answers lost", TOLD, Way::Lost),
    front("clients: held", EVERYTHING, Way::Held),
];

/// Makes faults until the world's flag says to stop; every fault is over when the function returns.
pub(super) async fn run(world: Arc<World>, menu: Vec<Fault>, mut rng: Rng) {
    while !world.enough.load(Ordering::Relaxed) {
        clock::sleep(rng.jitter(Duration::from_millis(1800), 90)).await;
        let replica = Arc::clone(rng.pick(&world.replicas).unwrap());
        let fault = *rng.pick(&menu).unwrap();
        strike(Arc::clone(&world.truth), replica, fault, &mut rng).await;
    }
}

async fn strike(truth: Arc<Truth>, replica: Arc<Replica>, fault: Fault, rng: &mut Rng) {
    let a_while = rng.jitter(Duration::from_secs(3), 95);
    match fault {
        Fault::Crash | Fault::Bounce => {
            // Another task is restarting this replica.
            let Ok(_ours) = Arc::clone(&replica.life).try_lock_owned() else { return };
            if matches!(fault, Fault::Crash) {
                replica.crash().await
            } else {
                replica.bounce().await
            }
            clock::sleep(a_while / 4).await;
            replica.start().await;
        }
        Fault::Wire { name, back, what, way } => {
            during(if back { &replica.back } else { &replica.front }, (name, what, way), a_while).await;
        }
        Fault::CancelTail => replica.cancel_tails.notify_waiters(),
        Fault::Compact => {
            let held = replica.back.cut("log: tail held", &[Kind::Stream], Way::Held);
            clock::sleep(a_while / 2).await;
            truth.trim(truth.revision()).await.unwrap();
            clock::sleep(a_while / 4).await;
            replica.back.heal(held);
        }
    }
}

async fn during(wire: &Wire, (fault, what, way): (&'static str, &'static [Kind], Way), a_while: Duration) {
    let cut = wire.cut(fault, what, way);
    clock::sleep(a_while).await;
    wire.heal(cut);
}
