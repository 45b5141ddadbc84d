//! A hundred pods, whose controllers and schedulers are all killed while half of the pods are bound. The next owners complete the lives.

use std::collections::BTreeSet;
use std::time::Duration;

use oarlock_check::traces as judge;
use oarlock_runtime::{Universe, clock};
use oarlock_telemetry::traces::{self, Settings};

use super::alone::alone;
use super::lives::World;
use super::spans::{creation, judged, life, none};

const PODS: usize = 100;
/// Longer than a message is on the wire.
const ARRIVAL: Duration = Duration::from_secs(1);

#[test]
fn a_hundred_lives_miss_no_span_although_every_owner_is_killed_half_way() {
    alone("crew::half::a_hundred_lives_miss_no_span_although_every_owner_is_killed_half_way", || {
        assert!(traces::start(Settings::ring()));
        let ((web, set, pods), early) = Universe::run(44, killed_half_way).value;
        let lives: Vec<u128> = [&web, &set].into_iter().chain(&pods).map(|uid| life(uid)).collect();
        let spans = judged(&traces::ring().unwrap().all());
        let spans: Vec<_> = spans.into_iter().filter(|span| lives.contains(&span.trace)).collect();
        // No kubelet ends the creations of pods.
        let going_on: Vec<_> = pods.iter().map(|uid| creation(uid)).collect();
        none(&judge::connected(&spans, &lives, &going_on));
        let (owners, pods) = lives.split_at(2);
        let early: BTreeSet<u128> = early.iter().map(|uid| life(uid)).collect();
        let late: Vec<u128> = pods.iter().copied().filter(|pod| !early.contains(pod)).collect();
        assert!(
            pods.len() == PODS && !early.is_empty() && !late.is_empty(),
            "{} early, {} late",
            early.len(),
            late.len()
        );
        none(&judge::none_outlives(&spans));
        none(&judge::none_missing(&spans, owners, &["commit", "reconcile"]));
        none(&judge::none_missing(&spans, pods, &["commit", "queue", "decide"]));
        none(&judge::none_missing(&spans, &late, &["bind"]));
        // A binding that was written has no other span than that of the process that wrote it, so one that was killed before the answer came leaves none.
        let unheard = judge::none_missing(&spans, &early.iter().copied().collect::<Vec<_>>(), &["bind"]).len();
        assert!(
            unheard < early.len(),
            "none of the {} pods that were bound before the kill has its binding",
            early.len()
        );
    });
}

/// Returns the UIDs of all objects, and of the pods that were bound when nobody was left.
async fn killed_half_way() -> ((String, String, Vec<String>), BTreeSet<String>) {
    let mut world = World::new(PODS).await;
    world.join().await;
    world.apply().await;
    while world.bound().await.len() < PODS / 2 {
        clock::sleep(Duration::from_millis(2)).await;
    }
    world.kill();
    clock::sleep(ARRIVAL).await;
    let early = world.bound().await;
    world.join().await;
    world.until_bound().await;
    world.until_complete().await;
    // The controllers record a root after the write of the status.
    clock::sleep(ARRIVAL).await;
    world.end().await;
    (world.uids().await, early)
}
