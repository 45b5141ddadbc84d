//! Tests of the queue in virtual time.

use std::sync::Arc;
use std::time::Duration;

use super::{Queue, Stamp, Waiting};
use crate::cluster::Cluster;
use crate::event::Event;
use crate::model::PodInfo;
use crate::table::PLUGINS;
use crate::testing;

struct Bench {
    cluster: Cluster,
    queue: Queue,
    now: Stamp,
}

/// The set of NodeResourcesFit (row 7), whose events are growing nodes and deleted pods.
const FIT: u32 = 1 << 7;

impl Bench {
    fn new() -> Self {
        Self { cluster: Cluster::default(), queue: Queue::new(PLUGINS), now: Stamp(1_000_000_000_000) }
    }

    fn info(&mut self, name: &str, text: &str) -> Arc<PodInfo> {
        Arc::new(testing::pod(&mut self.cluster.names, name, text))
    }

    fn add(&mut self, name: &str, text: &str) {
        let pod = self.info(name, text);
        self.queue.add(pod, self.now);
    }

    fn update(&mut self, name: &str, text: &str) {
        let pod = self.info(name, text);
        self.queue.update(&self.cluster, pod, self.now);
    }

    fn pop(&mut self) -> Option<String> {
        self.queue.pop(self.now).map(|popped| popped.pod.name.to_string())
    }

    fn wait(&mut self, time: Duration) {
        self.now = self.now.after(time);
        self.queue.flush(&self.cluster, self.now);
    }

    fn node_added(&mut self, text: &str) {
        let node = testing::node(&mut self.cluster.names, "n", text);
        self.queue.on_event(&self.cluster, &Event::NodeAdded(&node), self.now);
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn higher_priority_goes_first_then_the_older() {
    let mut bench = Bench::new();
    bench.add("a", "");
    bench.wait(SECOND);
    bench.add("b", "");
    bench.add("c", "priority=10");
    assert_eq!(
        [bench.pop(), bench.pop(), bench.pop(), bench.pop()].map(Option::unwrap_or_default),
        ["c", "a", "b", ""]
    );
}

#[test]
fn unschedulable_pods_wait_for_an_event_that_helps() {
    let mut bench = Bench::new();
    bench.add("a", "cpu=4");
    bench.pop();
    bench.queue.rejected("uid-a", FIT, bench.now);
    bench.wait(Duration::from_secs(20));
    assert_eq!(bench.pop(), None);
    bench.node_added("cpu=2 memory=1Gi");
    assert_eq!(bench.pop(), None, "the node is too small");
    bench.node_added("cpu=8 memory=1Gi");
    assert_eq!(bench.pop().as_deref(), Some("a"));
}

#[test]
fn backoff_doubles_from_one_to_ten_seconds_after_errors() {
    let mut bench = Bench::new();
    bench.add("a", "");
    for expected in [1, 2, 4, 8, 10, 10] {
        assert_eq!(bench.pop().as_deref(), Some("a"));
        bench.queue.failed("uid-a", bench.now);
        let start = bench.now;
        while bench.queue.waiting().active == 0 {
            assert_eq!(bench.pop(), None, "a pod that failed by error is not tried early");
            let wakeup = bench.queue.next_wakeup().expect("a time to wake up");
            bench.now = wakeup.max(bench.now.after(Duration::from_millis(1)));
            bench.queue.flush(&bench.cluster, bench.now);
        }
        // Back-offs end on whole seconds, one window later at most.
        let waited = bench.now.since(start).as_secs();
        assert!((expected..=expected + 1).contains(&waited), "expected {expected}, waited {waited}");
    }
}

#[test]
fn an_idle_scheduler_takes_pods_out_of_backoff_early() {
    let mut bench = Bench::new();
    bench.add("a", "cpu=1");
    bench.pop();
    bench.queue.rejected("uid-a", FIT, bench.now);
    bench.node_added("cpu=8 memory=1Gi");
    assert_eq!(bench.queue.waiting(), Waiting { backoff: 1, ..Waiting::default() });
    assert_eq!(bench.pop().as_deref(), Some("a"));
}

#[test]
fn a_backing_off_pod_never_overtakes_an_active_one() {
    let mut bench = Bench::new();
    bench.add("loser", "cpu=1 priority=100");
    bench.pop();
    bench.queue.rejected("uid-loser", FIT, bench.now);
    bench.node_added("cpu=8 memory=1Gi");
    bench.add("plain", "");
    assert_eq!(bench.pop().as_deref(), Some("plain"));
    assert_eq!(bench.pop().as_deref(), Some("loser"));
}

#[test]
fn everybody_gets_a_turn_under_constant_failure() {
    let mut bench = Bench::new();
    let mut tries = std::collections::BTreeMap::<String, u32>::new();
    for number in 0..20 {
        bench.add(&format!("p{number}"), if number < 10 { "priority=5" } else { "" });
    }
    for _ in 0..120 {
        while let Some(name) = bench.pop() {
            *tries.entry(name.clone()).or_default() += 1;
            bench.queue.failed(&format!("uid-{name}"), bench.now);
        }
        bench.wait(SECOND);
    }
    assert_eq!(tries.len(), 20);
    let (least, most) = (tries.values().min().copied().unwrap_or(0), tries.values().max().copied().unwrap_or(0));
    assert!(least >= 10 && most - least <= 1, "{tries:?}");
}

#[test]
fn leftovers_are_tried_again_after_five_minutes() {
    let mut bench = Bench::new();
    bench.wait(SECOND);
    bench.add("a", "cpu=1");
    bench.pop();
    bench.queue.rejected("uid-a", FIT, bench.now);
    for _ in 0..9 {
        bench.wait(Duration::from_secs(30));
        assert_eq!(bench.pop(), None);
    }
    for _ in 0..3 {
        bench.wait(Duration::from_secs(30));
    }
    assert_eq!(bench.pop().as_deref(), Some("a"));
}

#[test]
fn gated_pods_wait_for_their_last_gate_and_nothing_else() {
    let mut bench = Bench::new();
    bench.add("a", "gate:x gate:y");
    assert_eq!(bench.queue.waiting(), Waiting { gated: 1, ..Waiting::default() });
    bench.node_added("cpu=8 memory=1Gi");
    bench.wait(Duration::from_secs(600));
    assert_eq!(bench.pop(), None);
    bench.update("a", "gate:x version=2");
    assert_eq!(bench.pop(), None);
    bench.update("a", "version=3");
    assert_eq!(bench.pop().as_deref(), Some("a"));
}

#[test]
fn a_change_of_the_pod_itself_may_wake_it() {
    let mut bench = Bench::new();
    bench.add("a", "");
    bench.pop();
    bench.queue.rejected("uid-a", 1 << 4, bench.now); // TaintToleration
    bench.update("a", "label:x=y version=2");
    assert_eq!(bench.pop(), None);
    bench.update("a", "label:x=y tolerate:k version=3");
    assert_eq!(bench.pop().as_deref(), Some("a"));
}

#[test]
fn a_change_in_flight_is_not_lost() {
    let mut bench = Bench::new();
    bench.add("a", "cpu=4");
    bench.pop();
    bench.update("a", "cpu=1 version=2");
    bench.queue.rejected("uid-a", FIT, bench.now);
    assert_eq!(bench.queue.waiting().unschedulable, 0);
}

#[test]
fn removed_pods_leave_every_queue() {
    let mut bench = Bench::new();
    for (priority, name) in ["active", "pool", "backoff", "error"].into_iter().enumerate() {
        bench.add(name, &format!("cpu=1 priority={priority}"));
    }
    for _ in 0..3 {
        bench.pop();
    }
    bench.queue.failed("uid-error", bench.now);
    bench.queue.rejected("uid-backoff", FIT, bench.now);
    bench.node_added("cpu=8 memory=1Gi");
    bench.queue.rejected("uid-pool", FIT, bench.now);
    assert_eq!(bench.queue.waiting(), Waiting { active: 1, backoff: 2, unschedulable: 1, gated: 0 });
    for name in ["active", "backoff", "error", "pool"] {
        assert!(bench.queue.remove(&format!("uid-{name}")).is_some());
    }
    assert_eq!(bench.queue.waiting(), Waiting::default());
    assert_eq!(bench.queue.next_wakeup(), None);
}
