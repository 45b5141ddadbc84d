//! Panics, errors, hangs, crash loops, bad starts.

use std::sync::atomic::Ordering;

use oarlock_runtime::{ActorKind, Exhausted, Life, OnFailure, SendError, Universe, clock, trace};

use super::cast::{Do, ESCALATES, Player, ROBUST, ROBUST_ROW, STOPS, restart};
use super::{S, assert_incarnations_never_overlap, soon, status, system};

#[test]
fn an_actor_that_panics_is_restarted_and_its_handle_still_works() {
    let outcome = Universe::run(1, || async {
        trace::expect_panic("sim.robust/a");
        let (system, player) = (system().await, Player::default());
        let actor = system.spawn(&ROBUST, "a", player.clone()).await.unwrap();
        assert_eq!(actor.ask(Do::Who, soon()).await, Ok(1));
        actor.try_send(Do::Panic).unwrap();
        assert_eq!(actor.ask(Do::Who, soon()).await, Err(SendError::Stopped), "it waited behind the panic");
        assert_eq!(actor.ask(Do::Who, soon()).await, Ok(2), "an ask waits for the next incarnation");
        let status = status(&system, "sim.robust/a");
        assert_eq!((status.incarnation, status.restarts, status.life), (2, 1, Life::Running));
        assert_eq!(status.last_error.as_deref(), Some("panicked: told to"));
        assert_eq!(player.overlaps(), 0);
    });
    assert_incarnations_never_overlap(&outcome.events);
    assert!(outcome.elapsed >= S - S / 5 && outcome.elapsed <= S, "one back-off: {:?}", outcome.elapsed);
}

#[test]
fn an_actor_that_errs_is_restarted_and_its_status_keeps_the_whole_chain() {
    Universe::run(2, || async {
        let (system, player) = (system().await, Player::default());
        let actor = system.spawn(&ROBUST, "a", player.clone()).await.unwrap();
        actor.try_send(Do::Fail).unwrap();
        clock::sleep(S / 2).await;
        assert_eq!(actor.life(), Life::BackingOff);
        assert_eq!(actor.try_send(Do::Note(1)), Err(SendError::Stopped), "nobody is there to take it");
        assert_eq!(actor.ask(Do::Who, clock::after(S / 100)).await, Err(SendError::Stopped));
        assert_eq!(actor.ask(Do::Who, soon()).await, Ok(2));
        let error = "broken: an error occurred when formatting an argument";
        assert_eq!(status(&system, "sim.robust/a").last_error.as_deref(), Some(error));
        assert_eq!(player.stops.load(Ordering::Relaxed), 0, "stop is for those that were asked to");
        actor.stop();
        assert_eq!(actor.ended(soon()).await, Ok(None), "an old error is not why it ended");
    });
}

#[test]
fn an_actor_that_hangs_is_killed_and_replaced_only_after_its_termination() {
    let outcome = Universe::run(3, || async {
        let (system, player) = (system().await, Player::default());
        let actor = system.spawn(&ROBUST, "a", player.clone()).await.unwrap();
        actor.try_send(Do::Work(3600 * S)).unwrap();
        let began = clock::now();
        assert_eq!(actor.ask(Do::Who, soon()).await, Err(SendError::Stopped));
        let killed_after = began.elapsed();
        assert!(killed_after >= 10 * S && killed_after <= 11 * S, "{killed_after:?}");
        assert_eq!(actor.ask(Do::Who, soon()).await, Ok(2));
        assert!(status(&system, "sim.robust/a").last_error.unwrap().starts_with("no progress for 10"));
        assert_eq!(player.overlaps(), 0, "two incarnations lived at the same time");
    });
    assert_incarnations_never_overlap(&outcome.events);
}

#[test]
fn heartbeats_and_protected_zones_are_progress() {
    Universe::run(4, || async {
        let system = system().await;
        let actor = system.spawn(&ROBUST, "a", Player::default()).await.unwrap();
        actor.try_send(Do::Labour(100 * S)).unwrap();
        actor.try_send(Do::Wait(100 * S)).unwrap();
        actor.try_send(Do::Work(9 * S)).unwrap();
        assert_eq!(actor.ask(Do::Who, soon()).await, Ok(1));
        clock::sleep(600 * S).await;
        assert_eq!(actor.ask(Do::Who, soon()).await, Ok(1), "idleness is no lack of progress");
    });
}

/// Fails the actor four times within the window, one time more than its kind's limit of restarts.
async fn crash_loop(actor: &oarlock_runtime::Handle<Do>) {
    for n in 1..=4 {
        while actor.ask(Do::Who, soon()).await != Ok(n) {}
        actor.try_send(Do::Fail).unwrap();
    }
}

#[test]
fn a_crash_loop_ends_as_the_row_says_give_up() {
    Universe::run(5, || async {
        let (system, player) = (system().await, Player::default());
        let actor = system.spawn(&ROBUST, "a", player.clone()).await.unwrap();
        crash_loop(&actor).await;
        assert!(actor.ended(soon()).await.unwrap().unwrap().starts_with("broken"));
        assert_eq!(player.starts.lock().len(), 4);
        assert_eq!(actor.ask(Do::Who, soon()).await, Err(SendError::Stopped));
        assert_eq!(system.fatal(), None);
        let status = status(&system, "sim.robust/a");
        assert_eq!((status.life, status.restarts), (Life::Ended, 3), "operators still see it");
    });
}

#[test]
fn a_crash_loop_ends_as_the_row_says_stop_process_or_escalate() {
    static TO_STOP: ActorKind =
        ActorKind { name: "sim.to-stop", on_failure: restart(Exhausted::StopProcess), ..ROBUST_ROW };
    static TO_ESCALATE: ActorKind =
        ActorKind { name: "sim.to-escalate", on_failure: restart(Exhausted::Escalate), ..ROBUST_ROW };
    for kind in [&TO_STOP, &TO_ESCALATE] {
        Universe::run(6, || async {
            let system = system().await;
            let actor = system.spawn(kind, "a", Player::default()).await.unwrap();
            crash_loop(&actor).await;
            let fatal = clock::timeout(60 * S, system.failed()).await.unwrap();
            assert_eq!(fatal.actor, format!("{}/a", kind.name));
            assert_eq!(actor.life(), Life::Ended);
        });
    }
}

#[test]
fn failures_outside_the_window_are_forgiven() {
    Universe::run(7, || async {
        let system = system().await;
        let actor = system.spawn(&ROBUST, "a", Player::default()).await.unwrap();
        for n in 1..=20 {
            assert_eq!(actor.ask(Do::Who, soon()).await, Ok(n));
            actor.try_send(Do::Fail).unwrap();
            clock::sleep(30 * S).await;
        }
        assert_eq!(actor.life(), Life::Running);
    });
}

#[test]
fn a_bad_start_is_a_failure_like_any_other_and_backs_off_longer_each_time() {
    Universe::run(8, || async {
        let (system, player) = (system().await, Player::default());
        player.bad_starts.store(3, Ordering::Relaxed);
        let actor = system.spawn(&ROBUST, "a", player.clone()).await.unwrap();
        assert_eq!(actor.running(soon()).await, Ok(()));
        assert_eq!(actor.ask(Do::Who, soon()).await, Ok(4));
        let starts = player.starts.lock().clone();
        let pauses: Vec<f64> = starts.windows(2).map(|w| (w[1] - w[0]).as_secs_f64()).collect();
        for (pause, full) in pauses.iter().zip([1.0, 2.0, 4.0]) {
            assert!(*pause <= full + 0.01 && *pause >= full * 0.8, "{pauses:?}");
        }
        assert_eq!(status(&system, "sim.robust/a").last_error.as_deref(), Some("bad start of 3"));
    });
}

#[test]
fn an_actor_that_never_starts_well_ends() {
    Universe::run(9, || async {
        let (system, player) = (system().await, Player::default());
        player.bad_starts.store(u32::MAX, Ordering::Relaxed);
        let actor = system.spawn(&ROBUST, "a", player.clone()).await.unwrap();
        let waiting = actor.ask(Do::Who, soon());
        assert_eq!(futures::join!(actor.running(soon()), waiting), (Err(SendError::Stopped), Err(SendError::Stopped)));
        assert_eq!(actor.ended(soon()).await, Ok(Some("bad start of 4".to_owned())));
    });
}

#[test]
fn the_rows_that_never_restart_do_not() {
    for kind in [&STOPS, &ESCALATES] {
        assert!(matches!(kind.on_failure, OnFailure::StopProcess | OnFailure::Escalate));
        Universe::run(10, || async {
            let (system, player) = (system().await, Player::default());
            let actor = system.spawn(kind, "a", player.clone()).await.unwrap();
            actor.try_send(Do::Fail).unwrap();
            assert!(system.failed().await.to_string().starts_with(&format!("{}/a: broken", kind.name)));
            clock::sleep(60 * S).await;
            assert_eq!(player.starts.lock().len(), 1);
        });
    }
}

#[test]
fn tasks_of_an_incarnation_end_before_the_next_one_starts() {
    Universe::run(11, || async {
        let (system, player) = (system().await, Player::default());
        let actor = system.spawn(&ROBUST, "a", player.clone()).await.unwrap();
        actor.try_send(Do::Task(3 * S)).unwrap();
        actor.try_send(Do::Task(3600 * S)).unwrap();
        actor.try_send(Do::Fail).unwrap();
        let began = clock::now();
        assert_eq!(actor.ask(Do::Who, soon()).await, Err(SendError::Stopped));
        assert_eq!(actor.ask(Do::Who, soon()).await, Ok(2));
        assert!(began.elapsed() >= 5 * S, "the deaf task got its grace");
        assert_eq!((player.overlaps(), player.live()), (0, 1), "only the new state lives");
    });
}

#[test]
#[should_panic(expected = "panicked unexpectedly")]
fn a_universe_fails_when_an_actor_panicked_unexpectedly() {
    Universe::run(12, || async {
        let system = system().await;
        let actor = system.spawn(&ROBUST, "a", Player::default()).await.unwrap();
        actor.try_send(Do::Panic).unwrap();
        assert_eq!(actor.ask(Do::Who, soon()).await, Err(SendError::Stopped));
    });
}

#[test]
#[should_panic(expected = "expected to panic and did not")]
fn a_universe_fails_when_an_expected_panic_did_not_come() {
    Universe::run(13, || async { trace::expect_panic("sim.robust/a") });
}
