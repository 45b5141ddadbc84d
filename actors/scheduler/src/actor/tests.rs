//! Tests of the actor against an API server in memory, in virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oarlock_bus::proto::scheduler::v1 as wire;
use oarlock_bus::{Ask, Asks, Bus, Exchange, Identity, Pattern, Role, Subject};
use oarlock_client::Client;
use oarlock_mesh::{Holder, Placement, Unit};
use oarlock_meta::Revision;
use oarlock_runtime::{Options, System, Universe, clock, shutdown};
use serde_json::{Value, json};

use super::{Config, KINDS};
use crate::Scheduler;

mod claims;
mod doubt;
mod fake;
mod lives;
mod preemption;
mod restart;

use fake::{Fake, Fault, node, pod};

/// Runs a scheduler against a fake API server in a simulation of its own.
fn play<F: Future<Output = ()>>(seed: u64, story: impl Fn(Fake) -> F) {
    Universe::run(seed, || async {
        let fake = Fake::default();
        let system = System::start(Options::default()).await.unwrap();
        let client = Client::new(std::sync::Arc::new(fake.clone()));
        let _scheduler = Scheduler::spawn(&system, client, Config::default()).await.unwrap();
        story(fake).await;
        shutdown::shutdown(&system, shutdown::Graces::default()).await;
    });
}

/// Runs a scheduler that holds all shards, with three nodes and an arbiter in another process.
fn play_beside<F: Future<Output = ()>>(seed: u64, story: impl Fn(System, Fake, Decider) -> F) {
    Universe::run(seed, || async {
        let fake = Fake::default();
        for name in ["n1", "n2", "n3"] {
            fake.put("nodes", node(name));
        }
        let system = System::start(Options::default()).await.unwrap();
        let exchange = Exchange::new();
        let (holder, placement) = Placement::shared();
        let decider = Decider::new(&exchange, holder).await;
        let config = Config { placement, bus: Some(member(&exchange, "this")), ..Config::default() };
        let _scheduler = Scheduler::spawn(&system, Client::new(Arc::new(fake.clone())), config).await.unwrap();
        story(system.clone(), fake, decider).await;
        shutdown::shutdown(&system, shutdown::Graces::default()).await;
    });
}

/// The other process: the arbiter at epoch 2, which never answers.
struct Decider {
    bus: Bus,
    asks: Asks,
    unanswered: Vec<Ask>,
    holder: Holder,
}

impl Decider {
    async fn new(exchange: &Exchange, holder: Holder) -> Self {
        let (bus, arbiter) = (member(exchange, "other"), crate::arbiter_unit());
        let pattern = Pattern::unit(Role::Scheduler, arbiter.as_str(), Revision(2)).unwrap();
        holder.set_among(shards().collect(), shards().chain([(arbiter, Revision(2))]).collect());
        Self { asks: bus.serve(&pattern, 4).await.unwrap(), bus, unanswered: Vec::new(), holder }
    }

    /// Makes the tested scheduler the arbiter, at epoch 3.
    fn gives_up(&self) {
        self.holder.set(shards().chain([(crate::arbiter_unit(), Revision(3))]).collect());
    }

    /// Returns the names of the next proposed pods.
    async fn proposed(&mut self) -> Vec<String> {
        loop {
            let ask = clock::timeout(Duration::from_secs(60), self.asks.next()).await.unwrap().unwrap();
            let proposals = ask.body::<wire::Proposals>().unwrap().proposals;
            self.unanswered.push(ask);
            if !proposals.is_empty() {
                return proposals.into_iter().map(|proposal| proposal.name).collect();
            }
        }
    }
}

/// Returns all shards, claimed at epoch 1.
fn shards() -> impl Iterator<Item = (Unit, Revision)> {
    crate::shards().units().to_vec().into_iter().map(|unit| (unit, Revision(1)))
}

fn member(exchange: &Exchange, name: &str) -> Bus {
    Bus::memory(exchange, Identity::new(Role::Scheduler, name).unwrap())
}

fn on(fake: &Fake, name: &str) -> String {
    fake.get("pods", "default", name)["spec"]["nodeName"].as_str().unwrap_or_default().to_owned()
}

fn condition(fake: &Fake, name: &str) -> Value {
    fake.get("pods", "default", name)["status"]["conditions"][0].clone()
}

fn events(fake: &Fake, name: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let about = |event: &&Value| event["involvedObject"]["name"] == name;
    fake.list("events").iter().filter(about).map(|event| (text(&event["reason"]), text(&event["message"]))).collect()
}

#[test]
fn rows_keep_the_rules() {
    for kind in KINDS {
        oarlock_runtime::kind::check_row(kind).unwrap();
    }
}

#[test]
fn a_pod_gets_a_node_and_users_are_told() {
    play(1, |fake| async move {
        fake.put("nodes", node("n1"));
        fake.put("pods", pod("a", "1"));
        fake.until("a is bound", |fake| on(fake, "a") == "n1").await;
        fake.until("an event", |fake| !events(fake, "a").is_empty()).await;
        assert_eq!(events(&fake, "a"), [("Scheduled".to_owned(), "Successfully assigned default/a to n1".to_owned())]);
    });
}

#[test]
fn an_unschedulable_pod_waits_with_a_condition_until_it_fits() {
    play(2, |fake| async move {
        fake.put("nodes", node("n1"));
        fake.put("pods", pod("big", "3"));
        fake.until("a condition", |fake| condition(fake, "big").is_object()).await;
        let message = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
        let told = condition(&fake, "big");
        assert_eq!(
            (&told["type"], &told["status"], &told["reason"]),
            (&json!("PodScheduled"), &json!("False"), &json!("Unschedulable"))
        );
        assert_eq!((&told["message"], &told["observedGeneration"]), (&json!(message), &json!(1)));
        fake.until("an event", |fake| !events(fake, "big").is_empty()).await;
        assert_eq!(events(&fake, "big"), [("FailedScheduling".to_owned(), message.to_owned())]);
        let mut large = node("n2");
        large["status"]["allocatable"]["cpu"] = json!("8");
        fake.put("nodes", large);
        fake.until("big is bound", |fake| on(fake, "big") == "n2").await;
    });
}

#[test]
fn what_is_said_of_a_waiting_pod_is_not_said_of_a_bound_one() {
    play(12, |fake| async move {
        fake.put("nodes", node("n1"));
        fake.hold_conditions(true);
        fake.put("pods", pod("big", "3"));
        fake.until("an event", |fake| !events(fake, "big").is_empty()).await;
        // Another client changes the pod: the pending condition is written nevertheless.
        let mut changed = fake.get("pods", "default", "big");
        changed["metadata"]["labels"]["seen"] = json!("once");
        fake.put("pods", changed);
        fake.hold_conditions(false);
        fake.until("a condition", |fake| condition(fake, "big").is_object()).await;
        assert_eq!(fake.get("pods", "default", "big")["metadata"]["labels"]["seen"], "once");
        assert_eq!(fake.conflicts(), 1);

        // This pod is bound before its condition arrives.
        fake.hold_conditions(true);
        fake.put("pods", pod("late", "3"));
        fake.until("an event", |fake| !events(fake, "late").is_empty()).await;
        let mut large = node("n2");
        large["status"]["allocatable"]["cpu"] = json!("8");
        fake.put("nodes", large);
        fake.until("late is bound", |fake| on(fake, "late") == "n2").await;
        fake.hold_conditions(false);
        fake.until("what is late has come", |fake| fake.conflicts() == 2 || condition(fake, "late").is_object()).await;
        assert_eq!(condition(&fake, "late"), Value::Null);
    });
}

#[test]
fn what_is_written_is_written_under_the_claim_that_it_is_for() {
    Universe::run(11, || async {
        let fake = Fake::default();
        fake.put("nodes", node("n1"));
        fake.put("pods", pod("small", "1"));
        fake.put("pods", pod("big", "3"));
        let system = System::start(Options::default()).await.unwrap();
        let client = Client::new(std::sync::Arc::new(fake.clone()));
        let (holder, placement) = Placement::shared();
        // Another process holds the small pod's shard, and is silent because there is no bus.
        let of = |name: &str| crate::shards().unit("default", name).unwrap().clone();
        assert_ne!(of("small"), of("big"));
        holder.set(BTreeMap::from([(crate::arbiter_unit(), Revision(2)), (of("big"), Revision(1))]));
        let config = Config { placement, ..Config::default() };
        let _scheduler = Scheduler::spawn(&system, client, config).await.unwrap();
        fake.until("small is bound", |fake| on(fake, "small") == "n1").await;
        fake.until("events", |fake| !events(fake, "big").is_empty() && !events(fake, "small").is_empty()).await;
        let shard = format!("{}@1", of("big"));
        let under = |what: &str| {
            let fences = fake.fences().into_iter().filter(|(written, _)| written == what);
            fences.map(|(_, fence)| fence).collect::<std::collections::BTreeSet<String>>()
        };
        assert_eq!(under("pods/binding"), ["arbiter@2".to_owned()].into());
        assert_eq!(under("pods/status"), [shard.clone()].into());
        // The Event of a binding carries no claim, because the binding is a fact.
        assert_eq!(under("events/"), [shard, String::new()].into());
        shutdown::shutdown(&system, shutdown::Graces::default()).await;
    });
}

#[test]
fn a_pod_that_was_proposed_to_who_decides_no_more_is_not_kept_waiting() {
    play_beside(12, |_, fake, mut decider| async move {
        fake.put("pods", pod("a", "1"));
        assert_eq!(decider.proposed().await, ["a"]);
        // The store's revision rises without a pod event, so no cache of pods reaches it.
        fake.put("nodes", node("n4"));
        let since = clock::now();
        decider.gives_up();
        fake.until("a is bound", |fake| !on(fake, "a").is_empty()).await;
        assert!(since.elapsed() < Duration::from_millis(100), "{:?}", since.elapsed());
    });
}

#[test]
fn what_the_arbiter_s_process_reads_of_pods_is_believed_until_a_unit_comes() {
    play_beside(13, |system, fake, mut decider| async move {
        fake.put("pods", pod("watched", "100m"));
        assert_eq!(decider.proposed().await, ["watched"]);
        // Once a published message continues the watch's revision, the cache follows the published messages.
        let (bus, feed) = (decider.bus.clone(), Subject::feed(Role::Scheduler, "pods").unwrap());
        let tell = |epoch, from: u64, name: Option<&str>| {
            let change = |name: &str| wire::Change {
                revision: from + 1,
                name: name.to_owned(),
                uid: name.to_owned(),
                like: 1,
                ..wire::Change::default()
            };
            let samples = vec![serde_json::to_vec(&pod("sample", "100m")).unwrap().into()];
            let changes = name.into_iter().map(change).collect();
            bus.hint(&feed, &wire::Stretch { epoch, series: 5, from, to: from + 1, samples, changes }).unwrap();
        };
        tell(2, 3, None);
        // In virtual time this waits until every task is idle.
        clock::sleep(Duration::from_millis(1)).await;
        fake.put("pods", pod("next", "100m"));
        assert_eq!(decider.proposed().await, ["next"]);
        // Only the messages contain these pods. A message under an old epoch is not applied.
        tell(1, 5, Some("unbelieved"));
        tell(2, 5, Some("told"));
        assert_eq!(decider.proposed().await, ["told"]);
        // As the arbiter, the scheduler reads its own watch.
        decider.gives_up();
        fake.put("nodes", node("n4"));
        tell(2, 6, Some("too-late"));
        fake.put("pods", pod("seen", "100m"));
        fake.until("it is bound", |fake| !on(fake, "seen").is_empty()).await;
        let reflector = system.snapshot().into_iter().find(|actor| actor.key.contains("/pods/")).unwrap();
        assert_eq!((&reflector.state["told"], &reflector.state["untold"]), (&json!(1), &json!(1)));
    });
}

#[test]
fn pods_of_other_schedulers_and_bound_pods_are_left_alone_but_counted() {
    play(3, |fake| async move {
        fake.put("nodes", node("n1"));
        let mut other = pod("other", "1");
        other["spec"]["schedulerName"] = json!("somebody-else");
        fake.put("pods", other);
        let mut bound = pod("bound", "1500m");
        bound["spec"]["nodeName"] = json!("n1");
        fake.put("pods", bound);
        fake.put("pods", pod("a", "1"));
        fake.until("a waits", |fake| condition(fake, "a").is_object()).await;
        assert_eq!(on(&fake, "other"), "");
        fake.delete("pods", "default", "bound");
        fake.until("a is bound", |fake| on(fake, "a") == "n1").await;
        assert_eq!(on(&fake, "other"), "");
    });
}

#[test]
fn gated_pods_wait_for_their_gates() {
    play(4, |fake| async move {
        fake.put("nodes", node("n1"));
        let mut gated = pod("a", "1");
        gated["spec"]["schedulingGates"] = json!([{"name": "example.com/g"}]);
        fake.put("pods", gated);
        clock::sleep(Duration::from_secs(60)).await;
        assert_eq!((on(&fake, "a"), condition(&fake, "a")), (String::new(), Value::Null));
        let mut open = fake.get("pods", "default", "a");
        open["spec"]["schedulingGates"] = json!([]);
        fake.put("pods", open);
        fake.until("a is bound", |fake| on(fake, "a") == "n1").await;
    });
}

#[test]
fn bindings_that_fail_are_tried_again_and_give_their_place_back() {
    play(5, |fake| async move {
        fake.put("nodes", node("n1"));
        fake.fail_bindings(&[Fault::Refuse, Fault::Timeout]);
        fake.put("pods", pod("a", "2"));
        fake.until("a is bound", |fake| on(fake, "a") == "n1").await;
        let failed: Vec<String> = events(&fake, "a").into_iter().map(|(reason, _)| reason).collect();
        assert!(failed.contains(&"FailedScheduling".to_owned()), "{failed:?}");
    });
}

#[test]
fn a_pod_deleted_while_it_is_bound_leaves_nothing_behind() {
    play(7, |fake| async move {
        fake.put("nodes", node("n1"));
        for round in 0..20 {
            fake.put("pods", pod(&format!("a{round}"), "2"));
            clock::sleep(Duration::from_millis(round % 4)).await;
            fake.delete("pods", "default", &format!("a{round}"));
        }
        fake.put("pods", pod("last", "2"));
        fake.until("the last one is bound", |fake| on(fake, "last") == "n1").await;
    });
}

#[test]
fn a_burst_is_bound_with_bounded_concurrency_and_no_node_is_overfull() {
    play(8, |fake| async move {
        for number in 0..40 {
            fake.put("nodes", node(&format!("n{number}")));
        }
        for number in 0..800 {
            fake.put("pods", pod(&format!("p{number}"), "100m"));
        }
        let all_bound = |fake: &Fake| fake.list("pods").iter().all(|pod| pod["spec"]["nodeName"].is_string());
        fake.until("all are bound", all_bound).await;
        let mut per_node: BTreeMap<String, usize> = BTreeMap::new();
        for pod in fake.list("pods") {
            *per_node.entry(pod["spec"]["nodeName"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        assert!(per_node.values().all(|count| *count == 20), "{per_node:?}");
        assert!(fake.most_binding() > 32 && fake.most_binding() <= 256, "{}", fake.most_binding());
    });
}

#[test]
fn the_same_seed_schedules_the_same_way() {
    let run = |seed| {
        Universe::run(seed, || async {
            let fake = Fake::default();
            let system = System::start(Options::default()).await.unwrap();
            let client = Client::new(std::sync::Arc::new(fake.clone()));
            let _scheduler = Scheduler::spawn(&system, client, Config::default()).await.unwrap();
            for number in 0..10 {
                fake.put("nodes", node(&format!("n{number}")));
            }
            for number in 0..30 {
                fake.put("pods", pod(&format!("p{number}"), "100m"));
            }
            let all_bound = |fake: &Fake| fake.list("pods").iter().all(|pod| pod["spec"]["nodeName"].is_string());
            fake.until("all are bound", all_bound).await;
            shutdown::shutdown(&system, shutdown::Graces::default()).await;
            (0..30).map(|number| on(&fake, &format!("p{number}"))).collect::<Vec<_>>()
        })
        .value
    };
    assert_eq!(run(9), run(9));
    assert_ne!(run(9), run(10));
}
