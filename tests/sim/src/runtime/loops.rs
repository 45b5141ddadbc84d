//! Actors that are one long loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use oarlock_runtime::{Life, LoopCtx, SendError, Universe, clock};
use tokio::sync::Notify;

use super::cast::LOOPS;
use super::{S, assert_incarnations_never_overlap, soon, status, system};

#[test]
fn a_loop_stops_when_asked_and_shows_what_it_publishes() {
    Universe::run(1, || async {
        let system = system().await;
        let rounds = Arc::new(AtomicU32::new(0));
        let counter = rounds.clone();
        let actor = system
            .spawn_loop(&LOOPS, "a", move |ctx: LoopCtx| {
                let rounds = counter.clone();
                async move {
                    while ctx.sleep(20 * S).await {
                        ctx.publish(&rounds.fetch_add(1, Ordering::Relaxed));
                    }
                    Ok(())
                }
            })
            .await
            .unwrap();
        clock::sleep(101 * S).await;
        assert_eq!(rounds.load(Ordering::Relaxed), 5, "waiting in ctx.sleep is not held against it");
        assert_eq!(status(&system, "sim.loops/a").state, 4);
        actor.stop();
        assert_eq!(actor.ended(clock::after(S / 10)).await, Ok(None));
    });
}

#[test]
fn a_loop_that_fails_is_restarted_and_one_that_returns_has_ended() {
    let outcome = Universe::run(2, || async {
        let system = system().await;
        let actor = system
            .spawn_loop(&LOOPS, "a", |ctx: LoopCtx| async move {
                clock::sleep(S).await;
                if ctx.incarnation() < 3 { Err("not yet".into()) } else { Ok(()) }
            })
            .await
            .unwrap();
        assert_eq!(actor.ended(soon()).await, Ok(None));
    });
    let launches = outcome.events.iter().filter(|e| e.what == "launch").count();
    assert_eq!(launches, 3);
    assert_incarnations_never_overlap(&outcome.events);
}

#[test]
fn a_loop_that_hangs_is_killed_and_replaced() {
    let outcome = Universe::run(3, || async {
        let system = system().await;
        let actor = system
            .spawn_loop(&LOOPS, "a", |ctx: LoopCtx| async move {
                if ctx.incarnation() == 1 {
                    std::future::pending::<()>().await;
                }
                ctx.cancelled().await;
                Ok(())
            })
            .await
            .unwrap();
        let replaced = async {
            while status(&system, "sim.loops/a").incarnation < 2 {
                clock::sleep(S).await;
            }
        };
        clock::timeout(20 * S, replaced).await.unwrap();
        assert!(status(&system, "sim.loops/a").last_error.unwrap().starts_with("no progress"));
        actor.stop();
        assert_eq!(actor.ended(soon()).await, Ok(None));
    });
    assert_incarnations_never_overlap(&outcome.events);
}

#[test]
fn an_event_that_comes_while_a_loop_waits_is_not_lost() {
    Universe::run(4, || async {
        let system = system().await;
        let (event, seen) = (Arc::new(Notify::new()), Arc::new(AtomicU32::new(0)));
        let (waited, count) = (event.clone(), seen.clone());
        let actor = system
            .spawn_loop(&LOOPS, "a", move |ctx: LoopCtx| {
                let (event, seen) = (waited.clone(), count.clone());
                async move {
                    while ctx.or_stop(event.notified()).await.is_some() {
                        seen.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                }
            })
            .await
            .unwrap();
        for n in 1..=3 {
            event.notify_one();
            clock::sleep(60 * S).await;
            assert_eq!(seen.load(Ordering::Relaxed), n);
        }
        assert_eq!(actor.life(), Life::Running);
        actor.stop();
        assert_eq!(actor.ended(soon()).await, Ok(None));
        assert_eq!(actor.running(soon()).await, Err(SendError::Stopped));
    });
}
