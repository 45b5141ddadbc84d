//! Mailboxes: bounds, order, floods and the fate of messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use oarlock_runtime::{Error, Life, LoopCtx, SendError, Universe, clock, rng};

use super::cast::{Do, LOOPS, Payload, Player, ROBUST};
use super::{S, soon, status, system};

#[test]
fn a_flood_is_refused_at_the_bound_and_holds_no_memory() {
    Universe::run(1, || async {
        let (system, live) = (system().await, Arc::new(AtomicU32::new(0)));
        let actor = system.spawn(&ROBUST, "a", Player::default()).await.unwrap();
        actor.try_send(Do::Wait(10 * S)).unwrap();
        tokio::task::yield_now().await;
        let (mut refused, mut highest) = (0, 0);
        for _ in 0..100_000 {
            match actor.try_send(Do::Carry(Payload::new(&live))) {
                Ok(()) => {}
                Err(SendError::Overloaded) => refused += 1,
                Err(other) => panic!("{other}"),
            }
            highest = highest.max(live.load(Ordering::Relaxed));
            assert!(actor.queued() <= ROBUST.mailbox);
        }
        assert!(highest <= ROBUST.mailbox as u32 + 1, "{highest} payloads alive at a time");
        assert!(refused >= 99_990, "{refused}");
        clock::sleep(S).await;
        let seen = status(&system, "sim.robust/a");
        assert_eq!((seen.queue_depth, seen.queue_peak, seen.mailbox), (4, 4, 4));
        assert_eq!(seen.oldest_message_ms, Some(1000));
        assert_eq!(actor.ask(Do::Who, soon()).await, Ok(1), "the flood ends and the actor is there");
        assert_eq!((live.load(Ordering::Relaxed), actor.queued()), (0, 0));
        assert_eq!(status(&system, "sim.robust/a").oldest_message_ms, None);
    });
}

#[test]
fn floods_by_a_thousand_patient_senders_stay_inside_the_bound() {
    Universe::run(2, || async {
        let (system, player) = (system().await, Player::default());
        let actor = system.spawn(&ROBUST, "a", player.clone()).await.unwrap();
        let senders = (0..1000).map(|n| {
            let actor = actor.clone();
            async move { actor.send(Do::Note(n), soon()).await }
        });
        let results = futures::future::join_all(senders).await;
        assert!(results.iter().all(Result::is_ok));
        assert_eq!(actor.ask(Do::Who, soon()).await, Ok(1));
        assert_eq!(player.notes.lock().len(), 1000);
        assert!(status(&system, "sim.robust/a").queue_peak <= ROBUST.mailbox);
    });
}

#[test]
fn an_actor_that_floods_a_peer_cannot_starve_the_others() {
    Universe::run(9, || async {
        let (system, player) = (system().await, Player::default());
        let peer = system.spawn(&ROBUST, "peer", player.clone()).await.unwrap();
        let target = peer.clone();
        let flood = move |ctx: LoopCtx| {
            let peer = target.clone();
            async move {
                while !ctx.is_stopping() {
                    // The loop continues at once, whether the message was refused or not.
                    let _ = ctx.protected(peer.send(Do::Wait(S / 10), clock::after(S / 20))).await;
                }
                Ok(())
            }
        };
        let flooder = system.spawn_loop(&LOOPS, "flooder", flood).await.unwrap();
        for _ in 0..20 {
            let began = clock::now();
            assert_eq!(peer.ask(Do::Who, soon()).await, Ok(1));
            assert!(began.elapsed() <= S, "one turn of the queue, not more: {:?}", began.elapsed());
        }
        let seen = status(&system, "sim.robust/peer");
        assert!(seen.queue_peak <= ROBUST.mailbox, "{seen:?}");
        flooder.stop();
        assert_eq!(flooder.ended(soon()).await, Ok(None));
        assert_eq!(peer.life(), Life::Running);
    });
}

#[test]
fn each_sender_s_messages_arrive_in_its_order() {
    Universe::sweep(0..20, || async {
        let (system, player) = (system().await, Player::default());
        let actor = system.spawn(&ROBUST, "a", player.clone()).await.unwrap();
        let senders = (0..5_u64).map(|sender| {
            let actor = actor.clone();
            async move {
                for n in 0..50 {
                    actor.send(Do::Note(sender * 1000 + n), soon()).await.unwrap();
                    if rng::below(3) == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            }
        });
        futures::future::join_all(senders).await;
        assert_eq!(actor.ask(Do::Who, soon()).await, Ok(1));
        let notes = player.notes.lock().clone();
        for sender in 0..5 {
            let of_one: Vec<u64> = notes.iter().map(|(_, n)| *n).filter(|n| n / 1000 == sender).collect();
            assert_eq!(of_one, (0..50).map(|n| sender * 1000 + n).collect::<Vec<_>>());
        }
    });
}

#[test]
fn a_full_mailbox_answers_overloaded_at_the_deadline_and_a_slow_actor_timeout() {
    Universe::run(3, || async {
        let system = system().await;
        let actor = system.spawn(&ROBUST, "a", Player::default()).await.unwrap();
        actor.try_send(Do::Wait(100 * S)).unwrap();
        tokio::task::yield_now().await;
        let began = clock::now();
        assert_eq!(actor.ask(Do::Who, clock::after(2 * S)).await, Err(SendError::Timeout));
        assert_eq!(began.elapsed(), 2 * S);
        for n in 0..3 {
            actor.try_send(Do::Note(n)).unwrap();
        }
        assert_eq!(actor.try_send(Do::Note(9)), Err(SendError::Overloaded));
        assert_eq!(actor.send(Do::Note(9), clock::after(S)).await, Err(SendError::Overloaded));
        assert_eq!(actor.ask(Do::Who, clock::after(S)).await, Err(SendError::Overloaded));
        assert_eq!(began.elapsed(), 4 * S);
        assert_eq!(actor.send(Do::Note(9), soon()).await, Ok(()));
    });
}

#[test]
fn what_waits_when_an_incarnation_dies_is_answered_stopped_and_gives_its_room_back() {
    Universe::run(4, || async {
        let (system, player) = (system().await, Player::default());
        let actor = system.spawn(&ROBUST, "a", player.clone()).await.unwrap();
        actor.try_send(Do::Wait(S)).unwrap();
        actor.try_send(Do::Fail).unwrap();
        actor.try_send(Do::Note(7)).unwrap();
        let asks = futures::future::join_all((0..2).map(|_| actor.ask(Do::Who, soon()))).await;
        assert_eq!(asks, [Err(SendError::Stopped), Err(SendError::Stopped)]);
        assert_eq!(actor.queued(), 0, "the room is free again");
        assert_eq!(actor.ask(Do::Who, soon()).await, Ok(2));
        assert_eq!(player.notes.lock().len(), 0, "a tell that waited is lost, not replayed");
    });
}

#[test]
fn a_forgotten_reply_is_never_silence() {
    Universe::run(5, || async {
        let system = system().await;
        let actor = system.spawn(&ROBUST, "a", Player::default()).await.unwrap();
        assert_eq!(actor.ask(Do::Forget, soon()).await, Err(SendError::Stopped));
        assert_eq!(actor.ask(Do::Who, soon()).await, Ok(1));
    });
}

#[test]
fn a_reserved_place_counts_against_the_bound_until_it_is_used_or_dropped() {
    Universe::run(6, || async {
        let (system, player) = (system().await, Player::default());
        let actor = system.spawn(&ROBUST, "a", player.clone()).await.unwrap();
        let mut places: Vec<_> = (0..4).map(|_| actor.try_reserve().unwrap()).collect();
        assert!(matches!(actor.try_reserve(), Err(SendError::Overloaded)));
        assert_eq!(actor.queued(), 0);
        drop(places.pop());
        places.pop().unwrap().send(Do::Note(1)).unwrap();
        drop(places);
        assert_eq!(actor.ask(Do::Who, soon()).await, Ok(1));
        assert_eq!(*player.notes.lock(), [(1, 1)]);
    });
}

#[test]
fn an_actor_lives_once_per_kind_and_key_and_its_name_is_free_again_after_its_end() {
    Universe::run(7, || async {
        let system = system().await;
        let actor = system.spawn(&ROBUST, "a", Player::default()).await.unwrap();
        let again = system.spawn(&ROBUST, "a", Player::default()).await;
        assert_eq!(again.err(), Some(Error::Duplicate("sim.robust/a".to_owned())));
        assert_eq!(actor.ask(Do::Who, soon()).await, Ok(1), "the first is not disturbed");
        actor.stop();
        assert_eq!(actor.ended(soon()).await, Ok(None));
        assert_eq!(actor.try_send(Do::Note(1)), Err(SendError::Stopped));
        assert!(system.spawn(&ROBUST, "a", Player::default()).await.is_ok());
    });
}

#[test]
fn observers_see_the_state_of_those_that_answer() {
    Universe::run(8, || async {
        let system = system().await;
        let a = system.spawn(&ROBUST, "a", Player::default()).await.unwrap();
        let b = system.spawn(&ROBUST, "b", Player::default()).await.unwrap();
        a.try_send(Do::Note(1)).unwrap();
        b.try_send(Do::Wait(100 * S)).unwrap();
        let statuses = system.observe(clock::after(S)).await;
        let shown: Vec<_> = statuses.iter().map(|s| (s.key.as_str(), s.state.to_string())).collect();
        assert_eq!(shown, [("a", r#"{"notes":1}"#.to_owned()), ("b", "null".to_owned())]);
        let json = serde_json::to_value(&statuses[0]).unwrap();
        assert_eq!(json["kind"], "sim.robust");
        assert_eq!((&json["host"], &json["life"], &json["phase"]), (&"sim".into(), &"running".into(), &"crew".into()));
        assert_eq!((&json["queueDepth"], &json["handled"], &json["restarts"]), (&0.into(), &1.into(), &0.into()));
    });
}
