//! The shutdown of a process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use oarlock_runtime::shutdown::{End, Graces, run, shutdown};
use oarlock_runtime::{ActorKind, Error, Life, LoopCtx, OnShutdown, Phase, SendError, Universe, clock};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::cast::{Do, LOOPS, Player, ROBUST, ROBUST_ROW, STOPS};
use super::{S, soon, system};

static ANNOUNCE: ActorKind = ActorKind { name: "sim.announce", phase: Phase::Announce, ..ROBUST_ROW };
static CREW: ActorKind = ActorKind { name: "sim.crew", phase: Phase::Crew, ..ROBUST_ROW };
static INFORMERS: ActorKind = ActorKind { name: "sim.informers", phase: Phase::Informers, ..ROBUST_ROW };
static INGRESS: ActorKind = ActorKind { name: "sim.ingress", phase: Phase::Ingress, ..ROBUST_ROW };
static PIPELINE: ActorKind = ActorKind { name: "sim.pipeline", phase: Phase::Pipeline, ..ROBUST_ROW };
static STORAGE: ActorKind = ActorKind { name: "sim.storage", phase: Phase::Storage, ..ROBUST_ROW };
static TELEMETRY: ActorKind = ActorKind { name: "sim.telemetry", phase: Phase::Telemetry, ..ROBUST_ROW };
static FINISHES: ActorKind = ActorKind { name: "sim.finishes", on_shutdown: OnShutdown::Finish, ..ROBUST_ROW };
static KILLED: ActorKind = ActorKind { name: "sim.killed", on_shutdown: OnShutdown::Kill, ..ROBUST_ROW };

/// A loop that notes its phase one second after it was asked to stop.
fn noting(
    log: &Arc<Mutex<Vec<Phase>>>,
) -> impl Fn(LoopCtx) -> futures::future::BoxFuture<'static, Result<(), oarlock_runtime::Failure>> + use<> {
    let log = log.clone();
    move |ctx| {
        let log = log.clone();
        Box::pin(async move {
            ctx.protected(ctx.cancelled()).await;
            clock::sleep(S).await;
            log.lock().push(ctx.kind().phase);
            Ok(())
        })
    }
}

#[test]
fn phases_stop_one_after_the_other_and_report_their_time() {
    Universe::run(1, || async {
        let (system, log) = (system().await, Arc::new(Mutex::new(Vec::new())));
        for kind in [&TELEMETRY, &STORAGE, &PIPELINE, &INGRESS, &INFORMERS, &CREW, &ANNOUNCE] {
            system.spawn_loop(kind, "a", noting(&log)).await.unwrap();
            system.spawn_loop(kind, "b", noting(&log)).await.unwrap();
        }
        let report = shutdown(&system, Graces::default()).await;
        let expected: Vec<Phase> = Phase::ALL.into_iter().flat_map(|phase| [phase, phase]).collect();
        assert_eq!(*log.lock(), expected);
        assert_eq!(report.phases.iter().map(|p| p.took).collect::<Vec<_>>(), [S; 7]);
        assert_eq!(report.phases.iter().map(|p| p.stopped).collect::<Vec<_>>(), [2; 7]);
        assert_eq!(report.late().count(), 0);
        assert!(
            report.to_string().starts_with("announce 1000 ms, crew 1000 ms, informers 1000 ms, ingress"),
            "{report}"
        );
        assert!(system.snapshot().is_empty());
        let refused = system.spawn(&ROBUST, "late", Player::default()).await.err();
        assert_eq!(refused, Some(Error::Closing("sim.robust/late".to_owned())));
    });
}

#[test]
fn drain_handles_what_waits_finish_only_what_is_in_hand_kill_not_even_that() {
    Universe::run(2, || async {
        let system = system().await;
        let mut outcomes = Vec::new();
        for kind in [&ROBUST, &FINISHES, &KILLED] {
            let player = Player::default();
            let actor = system.spawn(kind, "a", player.clone()).await.unwrap();
            actor.try_send(Do::Wait(S)).unwrap();
            tokio::task::yield_now().await;
            actor.try_send(Do::Note(1)).unwrap();
            let began = clock::now();
            let waiting = actor.ask(Do::Who, soon());
            let stopping = async {
                tokio::task::yield_now().await;
                actor.stop();
                let refused = actor.send(Do::Note(2), soon()).await;
                (refused, actor.ended(soon()).await)
            };
            let (asked, (refused, ended)) = futures::join!(waiting, stopping);
            assert_eq!((refused, ended), (Err(SendError::Stopped), Ok(None)));
            let notes = player.notes.lock().len();
            outcomes.push((asked, notes, player.stops.load(Ordering::Relaxed), began.elapsed()));
            assert_eq!(player.live(), 0);
        }
        let stopped = Err(SendError::Stopped);
        let expected = [(Ok(1), 1, 1, S), (stopped, 0, 1, S), (stopped, 0, 0, Duration::ZERO)];
        assert_eq!(outcomes, expected);
    });
}

#[test]
fn who_is_late_is_named_and_does_not_hold_up_the_rest() {
    Universe::run(3, || async {
        let (system, log) = (system().await, Arc::new(Mutex::new(Vec::new())));
        let deaf = |_: LoopCtx| async {
            clock::sleep(9 * S).await;
            std::future::pending::<Result<(), _>>().await
        };
        system.spawn_loop(&CREW, "deaf", deaf).await.unwrap();
        system.spawn_loop(&STORAGE, "good", noting(&log)).await.unwrap();
        let gate = system.gate("requests", Phase::Ingress);
        let quick = gate.spawn("quick", clock::sleep(S)).unwrap();
        gate.spawn("slow", clock::sleep(3600 * S)).unwrap();
        let report = shutdown(&system, Graces::all(5 * S)).await;
        assert_eq!(report.late().collect::<Vec<_>>(), ["sim.crew/deaf", "requests/slow"]);
        assert_eq!(quick.await, Ok(()), "a request gets its grace");
        assert_eq!(*log.lock(), [Phase::Storage]);
        assert!(report.took() >= 11 * S && report.took() < 12 * S, "{report}");
        assert!(report.to_string().contains("(late: sim.crew/deaf)"), "{report}");
    });
}

#[test]
fn an_actor_in_its_back_off_is_stopped_at_once() {
    Universe::run(4, || async {
        let system = system().await;
        let actor = system.spawn(&ROBUST, "a", Player::default()).await.unwrap();
        actor.try_send(Do::Fail).unwrap();
        clock::sleep(S / 10).await;
        assert_eq!(actor.life(), Life::BackingOff);
        let report = shutdown(&system, Graces::default()).await;
        assert_eq!((report.took(), actor.life()), (Duration::ZERO, Life::Ended));
    });
}

#[test]
fn later_phases_still_restart_while_earlier_ones_stop() {
    Universe::run(5, || async {
        let (system, player) = (system().await, Player::default());
        let store = system.spawn(&STORAGE, "s", player.clone()).await.unwrap();
        let user = store.clone();
        let crew = move |ctx: LoopCtx| {
            let store = user.clone();
            async move {
                ctx.protected(ctx.cancelled()).await;
                store.try_send(Do::Fail)?;
                clock::sleep(S / 10).await;
                let again = store.ask(Do::Who, soon()).await?;
                if again == 2 { Ok(()) } else { Err("the store did not come back".into()) }
            }
        };
        let crew = system.spawn_loop(&LOOPS, "c", crew).await.unwrap();
        let report = shutdown(&system, Graces::default()).await;
        assert_eq!((crew.ended(soon()).await, report.late().count()), (Ok(None), 0));
        assert_eq!(player.stops.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn one_signal_stops_in_phases() {
    Universe::run(6, || async {
        let (system, log) = (system().await, Arc::new(Mutex::new(Vec::new())));
        system.spawn_loop(&CREW, "a", noting(&log)).await.unwrap();
        let (signal, signals) = mpsc::channel(2);
        let (end, ()) = futures::join!(run(&system, signals, Graces::default()), async {
            clock::sleep(S).await;
            signal.send("SIGTERM").await.unwrap();
        });
        assert!(matches!(&end, End::Asked(report) if report.late().count() == 0), "{end:?}");
        assert_eq!(end.exit_code(), 0);
    });
}

#[test]
fn a_second_signal_exits_at_once() {
    Universe::run(7, || async {
        let system = system().await;
        let deaf = |ctx: LoopCtx| async move { ctx.protected(std::future::pending()).await };
        system.spawn_loop(&CREW, "deaf", deaf).await.unwrap();
        let (signal, signals) = mpsc::channel(2);
        signal.send("SIGINT").await.unwrap();
        let began = clock::now();
        let (end, ()) = futures::join!(run(&system, signals, Graces::default()), async {
            clock::sleep(S).await;
            signal.send("SIGINT").await.unwrap();
        });
        assert_eq!((&end, end.exit_code(), began.elapsed()), (&End::Forced, 130, S));
    });
}

#[test]
fn a_fatal_failure_stops_the_process_in_phases_and_names_itself() {
    Universe::run(8, || async {
        let (system, log) = (system().await, Arc::new(Mutex::new(Vec::new())));
        system.spawn_loop(&TELEMETRY, "t", noting(&log)).await.unwrap();
        let actor = system.spawn(&STOPS, "a", Player::default()).await.unwrap();
        let (_signal, signals) = mpsc::channel(2);
        actor.try_send(Do::Fail).unwrap();
        let end = run(&system, signals, Graces::default()).await;
        let End::Failed(fatal, report) = &end else { panic!("{end:?}") };
        assert_eq!((fatal.actor.as_str(), end.exit_code()), ("sim.stops/a", 1));
        assert_eq!((report.late().count(), log.lock().len()), (0, 1), "the others stopped in good order");
    });
}

#[test]
fn a_failed_process_waits_for_nobody_for_long() {
    Universe::run(9, || async {
        let system = system().await;
        let waits = |ctx: LoopCtx| async move { ctx.protected(std::future::pending()).await };
        system.spawn_loop(&CREW, "waits", waits).await.unwrap();
        let actor = system.spawn(&STOPS, "a", Player::default()).await.unwrap();
        let (_signal, signals) = mpsc::channel(2);
        actor.try_send(Do::Fail).unwrap();
        let began = clock::now();
        let end = run(&system, signals, Graces::all(60 * S)).await;
        assert!(matches!(&end, End::Failed(_, report) if report.late().eq(["sim.crew/waits"])), "{end:?}");
        assert!(began.elapsed() < 10 * S, "{:?}", began.elapsed());
    });
}
