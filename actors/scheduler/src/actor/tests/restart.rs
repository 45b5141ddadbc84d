//! Tests of a scheduler's state after a restart.

use std::sync::Arc;
use std::time::Duration;

use oarlock_client::Client;
use oarlock_runtime::{Options, System, Universe, clock, shutdown};
use serde_json::json;
use tokio::sync::Notify;

use super::fake::{Fake, Fault, node, pod};
use super::{condition, on};
use crate::actor::{Config, SCHEDULER, Set, run};
use crate::table::PLUGINS;

/// Runs a scheduler with a node of two cores. Notifying the argument makes the scheduler fail.
fn play<F: Future<Output = ()>>(seed: u64, story: impl Fn(Fake, Arc<Notify>) -> F) {
    Universe::run(seed, || async {
        let (fake, fail) = (Fake::default(), Arc::new(Notify::new()));
        fake.put("nodes", node("n1"));
        let system = System::start(Options::default()).await.unwrap();
        let client = Client::new(Arc::new(fake.clone()));
        let (name, set) = Set::new(&system, client, Config::default(), PLUGINS).await.unwrap();
        let told = Arc::clone(&fail);
        let incarnation = move |ctx| {
            let (set, told) = (Arc::clone(&set), Arc::clone(&told));
            async move {
                tokio::select! {
                    biased;
                    () = told.notified() => Err("the test says so".into()),
                    ended = run(ctx, set) => ended,
                }
            }
        };
        system.spawn_loop(&SCHEDULER, name, incarnation).await.unwrap();
        story(fake, fail).await;
        shutdown::shutdown(&system, shutdown::Graces::default()).await;
    });
}

#[test]
fn the_room_of_a_binding_that_it_has_not_seen_is_not_given_away() {
    play(1, |fake, fail| async move {
        let bound = |fake: &Fake| ["a", "b"].iter().filter(|name| !on(fake, name).is_empty()).count();
        fake.hide_bindings(true);
        for name in ["a", "b"] {
            fake.put("pods", pod(name, "2"));
        }
        fake.until("one is bound", |fake| bound(fake) == 1).await;
        fail.notify_one();
        // Longer than any of the scheduler's own timeouts.
        clock::sleep(Duration::from_secs(120)).await;
        assert_eq!(bound(&fake), 1, "{:#?}", fake.list("pods"));
        fake.hide_bindings(false);
        let waits = |fake: &Fake| ["a", "b"].iter().any(|name| condition(fake, name)["reason"] == "Unschedulable");
        fake.until("the other waits", waits).await;
        assert_eq!(bound(&fake), 1, "{:#?}", fake.list("pods"));
        fake.put("nodes", node("n2"));
        fake.until("both are bound", |fake| bound(fake) == 2).await;
    });
}

#[test]
fn it_waits_for_no_more_than_pods_that_were_written() {
    play(2, |fake, fail| async move {
        fake.put("pods", pod("a", "1"));
        fake.until("a is bound", |fake| !on(fake, "a").is_empty()).await;
        fake.put("pods", pod("b", "1"));
        fail.notify_one();
        // The store's revision rises without a pod event, so no cache of pods reaches it.
        fake.put("nodes", node("n2"));
        let since = clock::now();
        fake.until("b is bound", |fake| !on(fake, "b").is_empty()).await;
        assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
    });
}

#[test]
fn what_it_bound_last_is_certain_before_it_decides_again() {
    play(3, |fake, fail| async move {
        fake.fail_bindings(&[Fault::Late(Duration::from_secs(4))]);
        fake.put("pods", pod("a", "2"));
        clock::sleep(Duration::from_millis(10)).await;
        fail.notify_one();
        // A scheduler without knowledge of the first binding would schedule this pod first.
        let mut important = pod("b", "2");
        important["spec"]["priority"] = json!(9);
        important["spec"]["preemptionPolicy"] = json!("Never");
        fake.put("pods", important);
        fake.until("b waits", |fake| condition(fake, "b")["reason"] == "Unschedulable").await;
        clock::sleep(Duration::from_secs(120)).await;
        assert_eq!((on(&fake, "a"), on(&fake, "b")), ("n1".to_owned(), String::new()));
    });
}
