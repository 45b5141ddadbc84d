//! Tests of a controller that reconciles the units its process holds.

use std::collections::BTreeSet;

use oarlock_client::fence;
use oarlock_mesh::{Holder, Unit};
use oarlock_meta::Status;

use super::*;

/// The reconciles of each key, with their claims.
#[derive(Default)]
struct Claimed {
    calls: Mutex<Vec<(String, String)>>,
    refused: Mutex<bool>,
}

struct Claiming(Arc<Claimed>);

#[async_trait]
impl Reconcile for Claiming {
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure> {
        let fence = fence::current().unwrap();
        self.0.calls.lock().push((key.name.to_string(), fence.to_string()));
        if *self.0.refused.lock() {
            let resource = GroupResource::new("oarlock.dev", "assignments");
            return Err(Status::stale_owner(&resource, fence.unit.as_str(), &fence).into());
        }
        Ok(Requeue::No)
    }
}

impl Claimed {
    fn take(&self) -> BTreeSet<(String, String)> {
        let calls = std::mem::take(&mut *self.calls.lock());
        let set: BTreeSet<_> = calls.iter().cloned().collect();
        assert_eq!(set.len(), calls.len(), "twice: {calls:?}");
        set
    }
}

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

async fn bench() -> (Bench, Arc<Claimed>, Holder, Scope) {
    let (bench, claimed, scope) = (Bench::new().await, Arc::new(Claimed::default()), Scope::parts("controllers"));
    let (holder, placement) = Placement::shared();
    let controller = Controller::new(ControllerRow::new("test", 2), Claiming(claimed.clone()))
        .reconciles(&bench.cache)
        .placed(&placement, scope.clone());
    controller.spawn(&bench.system).await.unwrap();
    (bench, claimed, holder, scope)
}

/// The names whose unit is among `units`, with their claim at an epoch.
fn of(scope: &Scope, units: &[Unit], epoch: u64) -> BTreeSet<(String, String)> {
    let unit = |name: &&str| scope.unit("d", name).filter(|unit| units.contains(unit)).cloned();
    NAMES.iter().filter_map(|name| Some((name.to_string(), format!("{}@{epoch}", unit(name)?)))).collect()
}

fn hold(holder: &Holder, units: &[Unit], epoch: u64) {
    holder.set(units.iter().map(|unit| (unit.clone(), Revision(epoch))).collect());
}

#[test]
fn a_unit_is_worked_on_when_it_is_held_and_the_caches_show_its_epoch() {
    Universe::sweep(0..4, || async {
        let (bench, claimed, holder, scope) = bench().await;
        bench.fill(NAMES.map(|name| (name, "1")), 5);
        clock::sleep(60 * S).await;
        assert_eq!(claimed.take(), BTreeSet::new(), "nothing is held");
        let mine: Vec<Unit> = ["a", "b", "c"].iter().map(|name| scope.unit("d", name).unwrap().clone()).collect();
        hold(&holder, &mine, 9);
        clock::sleep(60 * S).await;
        assert_eq!(claimed.take(), BTreeSet::new(), "the cache does not show what the former holder did");
        bench.fill(NAMES.map(|name| (name, "1")), 9);
        clock::sleep(S).await;
        assert_eq!(claimed.take(), of(&scope, &mine, 9));
        // Changes of keys of other units are not reconciled here.
        bench.fill(NAMES.map(|name| (name, "2")), 10);
        clock::sleep(S).await;
        assert_eq!(claimed.take(), of(&scope, &mine, 9));
        // The same unit under another epoch is another claim; units that are not held any more are not reconciled.
        hold(&holder, &mine[..1], 10);
        clock::sleep(S).await;
        assert_eq!(claimed.take(), of(&scope, &mine[..1], 10));
        bench.fill(NAMES.map(|name| (name, "3")), 11);
        clock::sleep(S).await;
        assert_eq!(claimed.take(), of(&scope, &mine[..1], 10));
    });
}

#[test]
fn who_is_refused_for_its_claim_stops() {
    Universe::sweep(0..4, || async {
        let (bench, claimed, holder, scope) = bench().await;
        bench.fill(NAMES.map(|name| (name, "1")), 5);
        *claimed.refused.lock() = true;
        let unit = [scope.unit("d", "a").unwrap().clone()];
        hold(&holder, &unit, 5);
        clock::sleep(300 * S).await;
        let calls = claimed.take();
        assert!(!calls.is_empty() && calls.is_subset(&of(&scope, &unit, 5)), "{calls:?}");
        bench.fill(NAMES.map(|name| (name, "2")), 6);
        clock::sleep(300 * S).await;
        assert_eq!(claimed.take(), BTreeSet::new(), "it knows that the unit is lost");
        *claimed.refused.lock() = false;
        hold(&holder, &unit, 7);
        bench.fill(NAMES.map(|name| (name, "2")), 7);
        clock::sleep(S).await;
        assert_eq!(claimed.take(), of(&scope, &unit, 7));
    });
}
