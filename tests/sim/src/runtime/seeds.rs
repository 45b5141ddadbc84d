//! The same seed gives the same run, another seed another.

use std::collections::BTreeSet;

use oarlock_runtime::shutdown::{Graces, shutdown};
use oarlock_runtime::{Rng, SendError, Universe, clock, rng, trace};

use super::cast::{Do, Player, ROBUST};
use super::{S, assert_incarnations_never_overlap, system};

/// Runs several actors under random messages and random faults; checks that every ask is answered and that no incarnations overlap.
async fn crowd() {
    let system = system().await;
    let players: Vec<Player> = (0..8).map(|_| Player::default()).collect();
    let mut actors = Vec::new();
    for (n, player) in players.iter().enumerate() {
        actors.push(system.spawn(&ROBUST, n.to_string(), player.clone()).await.unwrap());
    }
    let clients = (0..16).map(|client: u64| {
        let actors = actors.clone();
        let mut rng = rng::with(Rng::fork);
        async move {
            for round in 0..40 {
                clock::sleep(rng.jitter(S, 100)).await;
                let actor = rng.pick(&actors).unwrap();
                let deadline = clock::after(20 * S);
                let answer = match rng.below(12) {
                    0 => actor.send(Do::Fail, deadline).await.map(|()| 0),
                    1 => actor.send(Do::Work(rng.jitter(15 * S, 100)), deadline).await.map(|()| 0),
                    2 => actor.send(Do::Task(rng.jitter(3 * S, 100)), deadline).await.map(|()| 0),
                    3..6 => actor.send(Do::Note(client * 1000 + round), deadline).await.map(|()| 0),
                    _ => actor.ask(Do::Who, deadline).await,
                };
                let code = match answer {
                    Ok(incarnation) => u64::from(incarnation),
                    Err(SendError::Overloaded) => 1001,
                    Err(SendError::Stopped) => 1002,
                    Err(SendError::Timeout) => 1003,
                };
                trace::record("answer", actor.name(), code);
                assert!(!deadline.passed() || code > 1000, "an answer came after its deadline");
            }
        }
    });
    futures::future::join_all(clients).await;
    let report = shutdown(&system, Graces::default()).await;
    assert!(report.phases.iter().all(|phase| phase.late.iter().all(|late| !late.contains("still there"))), "{report}");
    for player in &players {
        assert_eq!((player.overlaps(), player.live()), (0, 0));
    }
}

#[test]
fn twenty_seeds_run_twice_go_alike_and_differ_from_each_other() {
    let hashes = Universe::sweep(0..20, crowd);
    let different: BTreeSet<u64> = hashes.iter().copied().collect();
    assert_eq!(different.len(), hashes.len(), "two seeds ran alike");
}

#[test]
fn a_crowd_exercises_every_end_and_never_overlaps() {
    let mut seen = BTreeSet::new();
    for seed in 0..5 {
        let outcome = Universe::run(seed, crowd);
        assert_incarnations_never_overlap(&outcome.events);
        seen.extend(outcome.events.iter().map(|event| event.what));
    }
    for what in ["launch", "handle", "failed", "stuck", "clean", "end", "answer"] {
        assert!(seen.contains(what), "{what} never happened, the crowd proves too little: {seen:?}");
    }
}

#[test]
fn wall_time_and_randomness_follow_the_seed() {
    let draw = |seed| {
        Universe::run(seed, || async {
            let first = clock::wall();
            clock::sleep(S).await;
            (first, clock::wall().duration_since(first).as_millis(), rng::uuid())
        })
        .value
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1).0, draw(2).0);
    assert_ne!(draw(1).2, draw(2).2);
    assert_eq!(draw(1).1, 1000);
}

#[test]
#[should_panic(expected = "is not deterministic: event")]
fn a_sweep_finds_what_does_not_follow_the_seed() {
    let outside = std::sync::atomic::AtomicU64::new(0);
    Universe::sweep(0..1, || async {
        trace::record("note", "x", outside.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    });
}
