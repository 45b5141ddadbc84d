use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use oarlock_meta::{GroupResource, Revision};
use oarlock_runtime::{ActorStatus, Universe, clock, rng, shutdown, trace};
use parking_lot::Mutex;

mod lives;
mod placed;

use super::*;
use crate::item::Item;
use crate::testing::{Config, object, soon, system, until};

const S: Duration = Duration::from_secs(1);

/// What the reconciler does with a key, by its name.
type Script = dyn Fn(&Key, usize) -> Step + Send + Sync;

enum Step {
    Done(Requeue),
    Fail(Failure),
    Panic,
    Hang,
}

#[derive(Default)]
struct Seen {
    calls: BTreeMap<Key, Vec<clock::Instant>>,
    inside: BTreeMap<Key, usize>,
}

struct Recorded {
    seen: Arc<Mutex<Seen>>,
    most: Arc<AtomicUsize>,
    busy: Duration,
    script: Box<Script>,
}

struct Inside(Arc<Mutex<Seen>>, Key);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.lock().inside.remove(&self.1);
    }
}

#[async_trait]
impl Reconcile for Recorded {
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure> {
        let nth = {
            let mut seen = self.seen.lock();
            let calls = seen.calls.entry(key.clone()).or_default();
            calls.push(clock::now());
            let nth = calls.len();
            assert!(seen.inside.insert(key.clone(), 1).is_none(), "two reconciles of one key at once");
            self.most.fetch_max(seen.inside.len(), Ordering::SeqCst);
            nth
        };
        let _inside = Inside(self.seen.clone(), key.clone());
        clock::sleep(self.busy).await;
        match (self.script)(key, nth) {
            Step::Done(requeue) => Ok(requeue),
            Step::Fail(error) => Err(error),
            Step::Panic => panic!("reconcile panics"),
            Step::Hang => std::future::pending().await,
        }
    }
}

struct Bench {
    system: System,
    cache: Arc<Cache<Config>>,
    seen: Arc<Mutex<Seen>>,
    most: Arc<AtomicUsize>,
}

impl Bench {
    async fn new() -> Self {
        Self { system: system().await, cache: Arc::default(), seen: Arc::default(), most: Arc::default() }
    }

    fn reconciler(&self, busy: Duration, script: impl Fn(&Key, usize) -> Step + Send + Sync + 'static) -> Recorded {
        Recorded { seen: self.seen.clone(), most: self.most.clone(), busy, script: Box::new(script) }
    }

    fn fill(&self, names: impl IntoIterator<Item = (&'static str, &'static str)>, revision: u64) {
        let item = |(name, value): (&str, &str)| {
            Item::of(&object(name, name, value, revision).obj().unwrap(), Revision(revision))
        };
        self.cache.fill(names.into_iter().map(item), Revision(revision));
    }

    fn calls(&self, name: &str) -> usize {
        self.seen.lock().calls.get(&Key::new("d", name)).map_or(0, Vec::len)
    }

    fn pauses(&self, name: &str) -> Vec<Duration> {
        self.seen.lock().calls[&Key::new("d", name)].windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    async fn status(&self) -> ActorStatus {
        let began = clock::now();
        let all = self.system.observe(soon()).await;
        assert_eq!(began.elapsed(), Duration::ZERO, "a loop is not waited for");
        all.into_iter().find(|actor| actor.kind == "informer.controller").unwrap()
    }
}

#[test]
fn nothing_is_reconciled_before_all_caches_are_synced_and_then_everything_is() {
    Universe::sweep(0..4, || async {
        let bench = Bench::new().await;
        let other = Arc::new(Cache::<()>::default());
        let done = bench.reconciler(Duration::ZERO, |_, _| Step::Done(Requeue::No));
        let controller = Controller::new(ControllerRow::new("test", 2), done).reconciles(&bench.cache).reads(&other);
        controller.spawn(&bench.system).await.unwrap();
        bench.fill([("a", "1"), ("b", "1")], 5);
        clock::sleep(300 * S).await;
        assert_eq!(bench.calls("a"), 0);
        other.fill([], Revision(5));
        until(|| bench.calls("a") == 1 && bench.calls("b") == 1).await;
        bench.fill([("a", "2"), ("b", "1")], 6);
        until(|| bench.calls("a") == 2).await;
        bench.fill([("b", "1")], 7);
        until(|| bench.calls("a") == 3).await;
        assert_eq!(bench.calls("b"), 1);
        let status = bench.status().await;
        assert_eq!((&status.state["synced"], &status.state["failed"]), (&true.into(), &0.into()), "{status:?}");
    });
}

#[test]
fn at_most_so_many_workers_run_and_never_two_on_one_key() {
    Universe::sweep(0..8, || async {
        let bench = Bench::new().await;
        bench.fill([("a", "1"), ("b", "1"), ("c", "1"), ("e", "1"), ("f", "1")], 5);
        let slow = bench.reconciler(S, |_, _| Step::Done(Requeue::No));
        let controller = Controller::new(ControllerRow::new("test", 3), slow).reconciles(&bench.cache).build();
        let queue = controller.queue().clone();
        controller.spawn(&bench.system).await.unwrap();
        for _ in 0..200 {
            let names = ["a", "b", "c", "e", "f"];
            let name = rng::with(|rng| *rng.pick(&names).unwrap());
            queue.add(Key::new("d", name));
            clock::sleep(Duration::from_millis(rng::below(100))).await;
        }
        until(|| queue.stats().ready == 0 && queue.stats().processing == 0).await;
        assert_eq!(bench.most.load(Ordering::SeqCst), 3);
        assert!(bench.calls("a") > 3);
    });
}

#[test]
fn a_failure_comes_back_after_growing_pauses_and_success_resets_them() {
    Universe::sweep(0..2, || async {
        let bench = Bench::new().await;
        bench.fill([("a", "1"), ("b", "1"), ("c", "1")], 5);
        let failing = bench.reconciler(Duration::ZERO, |key, nth| match (key.name.as_str(), nth) {
            ("a", 1..=4) => Step::Fail(Box::new(oarlock_meta::Status::conflict_modified(
                &GroupResource::new("", "configmaps"),
                "a",
            ))),
            ("b", 1) => Step::Fail(Box::new(oarlock_meta::Status::too_many_requests("wait", 7))),
            ("c", 1..=3) => Step::Done(Requeue::After(60 * S)),
            _ => Step::Done(Requeue::No),
        });
        let controller = Controller::new(ControllerRow::new("test", 1), failing).reconciles(&bench.cache);
        controller.spawn(&bench.system).await.unwrap();
        until(|| bench.calls("c") == 4).await;
        let close = |pauses: Vec<Duration>, wanted: &[u64]| {
            assert_eq!(pauses.len(), wanted.len(), "{pauses:?}");
            for (pause, wanted) in pauses.into_iter().zip(wanted) {
                let wanted = Duration::from_millis(*wanted);
                assert!(pause >= wanted && pause < wanted + Duration::from_millis(5), "{pause:?} for {wanted:?}");
            }
        };
        close(bench.pauses("a"), &[5, 10, 20, 40]);
        close(bench.pauses("b"), &[7000]);
        close(bench.pauses("c"), &[60_000, 60_000, 60_000]);
        let status = bench.status().await;
        assert_eq!(status.state["failed"], 5, "{status:?}");
    });
}

#[test]
fn a_panic_and_a_missed_deadline_are_failures_of_their_key_alone() {
    Universe::sweep(0..2, || async {
        trace::expect_panic("informer.controller/test/reconcile");
        let bench = Bench::new().await;
        bench.fill([("bad", "1"), ("deaf", "1"), ("good", "1")], 5);
        let odd = bench.reconciler(Duration::ZERO, |key, nth| match (key.name.as_str(), nth) {
            ("bad", 1) => Step::Panic,
            ("deaf", 1) => Step::Hang,
            _ => Step::Done(Requeue::No),
        });
        let controller = Controller::new(ControllerRow::new("test", 1), odd).reconciles(&bench.cache);
        let handle = controller.spawn(&bench.system).await.unwrap();
        until(|| bench.calls("bad") == 2 && bench.calls("deaf") == 2 && bench.calls("good") == 1).await;
        assert_eq!(bench.pauses("deaf"), [60 * S + Duration::from_millis(5)]);
        let status = bench.status().await;
        assert_eq!((status.restarts, &status.state["failed"]), (0, &2.into()), "{status:?}");
        assert!(status.state["lastError"].as_str().unwrap().contains("did not finish"), "{status:?}");
        drop(handle);
    });
}

#[test]
fn a_mapping_that_panics_restarts_the_controller() {
    Universe::sweep(0..2, || async {
        trace::expect_panic("informer.controller/test/feed");
        let bench = Bench::new().await;
        bench.fill([("a", "1")], 5);
        let done = bench.reconciler(Duration::ZERO, |_, _| Step::Done(Requeue::No));
        let times = AtomicUsize::new(0);
        let controller =
            Controller::new(ControllerRow::new("test", 1), done).watches(&bench.cache, move |change, add| {
                assert!(times.fetch_add(1, Ordering::SeqCst) != 1, "the mapping panics once");
                add(change.key.clone());
            });
        controller.spawn(&bench.system).await.unwrap();
        until(|| bench.calls("a") == 1).await;
        bench.fill([("a", "2")], 6);
        until(|| bench.calls("a") == 2).await;
        assert_eq!(bench.status().await.restarts, 1);
    });
}

#[test]
fn owners_are_reconciled_when_what_they_own_changes() {
    Universe::sweep(0..2, || async {
        let bench = Bench::new().await;
        let owned = |kind: &str, owner: &str, revision: u64| {
            let json = format!(
                r#"{{"metadata":{{"name":"x","namespace":"d","uid":"u","ownerReferences":[{{"apiVersion":"v1","kind":"{kind}","name":"{owner}","uid":"o","controller":true}}]}}}}"#
            );
            let obj = oarlock_client::decode(crate::testing::configmaps().ty, json.as_bytes()).unwrap();
            Item::<Config>::of(&obj, Revision(revision))
        };
        bench.cache.fill([owned("Owner", "one", 5)], Revision(5));
        let done = bench.reconciler(Duration::ZERO, |_, _| Step::Done(Requeue::No));
        let controller = Controller::new(ControllerRow::new("test", 1), done).owns(&bench.cache, "Owner");
        controller.spawn(&bench.system).await.unwrap();
        until(|| bench.calls("one") == 1).await;
        // The object changes its controller: both owners are reconciled.
        bench.cache.fill([owned("Owner", "two", 6)], Revision(6));
        until(|| bench.calls("one") == 2 && bench.calls("two") == 1).await;
        bench.cache.fill([owned("Another", "three", 7)], Revision(7));
        until(|| bench.calls("two") == 2).await;
        assert_eq!((bench.calls("one"), bench.calls("three")), (2, 0));
    });
}

#[test]
fn a_key_is_not_decided_again_before_its_own_writes_show() {
    Universe::sweep(0..2, || async {
        let bench = Bench::new().await;
        bench.fill([("a", "1")], 5);
        let own = Arc::new(OwnWrites::default());
        let (writes, cache) = (own.clone(), bench.cache.clone());
        let writing = bench.reconciler(Duration::ZERO, move |key, nth| {
            if nth == 1 {
                writes.wrote(key, &cache, Revision(9));
            }
            Step::Done(Requeue::No)
        });
        let controller =
            Controller::new(ControllerRow::new("test", 1), writing).reconciles(&bench.cache).own_writes(&own);
        controller.spawn(&bench.system).await.unwrap();
        until(|| bench.calls("a") == 1).await;
        bench.fill([("a", "2")], 8);
        clock::sleep(5 * S).await;
        assert_eq!(bench.calls("a"), 1);
        bench.fill([("a", "3")], 9);
        until(|| bench.calls("a") >= 2).await;
    });
}

#[test]
fn a_stop_lets_the_reconcile_in_hand_finish() {
    Universe::sweep(0..2, || async {
        let bench = Bench::new().await;
        bench.fill([("a", "1")], 5);
        let slow = bench.reconciler(3 * S, |_, _| Step::Done(Requeue::No));
        let controller = Controller::new(ControllerRow::new("test", 1), slow).reconciles(&bench.cache);
        controller.spawn(&bench.system).await.unwrap();
        until(|| bench.calls("a") == 1).await;
        let report = shutdown::shutdown(&bench.system, shutdown::Graces::default()).await;
        assert_eq!(report.late().count(), 0, "{report:?}");
        assert!(report.took() >= 2 * S, "{report:?}");
        assert!(bench.seen.lock().inside.is_empty());
    });
}

#[test]
fn an_idle_controller_ends_at_once() {
    Universe::sweep(0..2, || async {
        let bench = Bench::new().await;
        bench.fill([("a", "1")], 5);
        let quick = bench.reconciler(Duration::ZERO, |_, _| Step::Done(Requeue::No));
        let controller = Controller::new(ControllerRow::new("test", 1), quick).reconciles(&bench.cache);
        controller.spawn(&bench.system).await.unwrap();
        until(|| bench.calls("a") == 1).await;
        clock::sleep(S).await;
        let report = shutdown::shutdown(&bench.system, shutdown::Graces::default()).await;
        assert!(report.took() < S, "{report:?}");
    });
}
