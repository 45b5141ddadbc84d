//! Four schedulers on a real nats-server fill nodes, under churn and preemption. Intruders bind pods without the schedulers, and the process with the arbiter
//! is killed every five seconds. `oarlock-check`'s placement rules judge every version of every node and pod.

use std::collections::BTreeMap;
use std::time::Duration;

use oarlock_check::placement::{Log, Rule, Rules, judge};
use oarlock_testkit::http::{Http, Who};
use oarlock_testkit::nats::Nats;
use oarlock_testkit::wait::{Deadline, eventually, gradually, pause};
use oarlock_testkit::{Cluster, Process};
use serde_json::Value;

use super::load::{Load, MANY};
use super::{API_ONLY, part};
use crate::faults::truth::{EmbeddedStore, placed};

const NODES: usize = 50;
/// Pods of half a core that a node of two cores takes.
const EACH: usize = 4;
/// How often the arbiter's holder is killed, and for how long another then decides.
const KILLS: usize = 6;
const DECIDES: Duration = Duration::from_secs(5);
/// Pods that others have to leave for, in each round; and how many have to leave at least.
const PRESSING: usize = 3;
const LEAVE: usize = 6;
/// Number of pods that must find a node in the end; each gets a node in a zone of its own.
const LAST: usize = 10;
const NEW: usize = 12;
/// Number of revisions by which the arbiter's knowledge of other clients may lag: the writes of some hundred milliseconds under this load.
const LAG: u64 = 300;

/// Holders by unit.
fn holders(http: &Http) -> BTreeMap<String, String> {
    let list = http.get("/apis/oarlock.dev/v1/assignments").json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let each = list["items"].as_array().unwrap().iter();
    each.map(|unit| (text(&unit["metadata"]["name"]), text(&unit["spec"]["holderIdentity"]))).collect()
}

/// The holder of the arbiter's unit, by the logs, in which members report their identity on the bus.
fn arbiter(http: &Http, schedulers: &[Process]) -> Option<usize> {
    let name = format!("member=scheduler/{} ", holders(http).get("arbiter")?);
    schedulers.iter().position(|process| process.said().contains(&name))
}

/// Kills the process with the arbiter, and starts another in its place.
fn kill_again_and_again(http: &Http, schedulers: &mut Vec<Process>, start: impl Fn() -> Process) {
    for _ in 0..KILLS {
        let victim = eventually("somebody decides", || arbiter(http, schedulers).ok_or("nobody"));
        schedulers[victim].kill();
        schedulers.push(start());
        eventually("somebody else decides", || match arbiter(http, schedulers) {
            Some(other) if other != victim => Ok(()),
            other => Err(format!("{other:?}")),
        });
        let enough = Deadline::after(DECIDES);
        while !enough.passed() {
            pause();
        }
    }
}

fn log(cluster: &Cluster) -> Log {
    let mut lines = Vec::new();
    EmbeddedStore(cluster.data_dir().store()).records(|record| {
        lines.extend(placed(record.key.as_str(), record.revision.get(), record.value.as_deref()));
    });
    Log::of(lines)
}

#[test]
fn shards_fill_the_nodes_while_whoever_decides_is_killed() {
    let nats = match Nats::start("") {
        Ok(nats) => nats,
        Err(why) => {
            oarlock_testkit::skipped!("{why}");
            return;
        }
    };
    let mut cluster = Cluster::up(&API_ONLY);
    let mut load = Load::new(cluster.http(Who::Admin), "default-scheduler", MANY);
    load.prepare();
    load.nodes(0..NODES, "2");
    let url = nats.url();
    let flags = ["--nats-servers", &url, "--log", "info,oarlock_scheduler=debug"];
    let start = || part(&cluster, "scheduler", &flags);
    let mut schedulers = vec![start(), start(), start(), start()];
    eventually("shards are spread", || {
        let mut loads: BTreeMap<String, usize> = BTreeMap::new();
        for (unit, holder) in holders(&load.http) {
            *loads.entry(holder).or_default() += usize::from(unit.starts_with("shards-"));
        }
        // There are 17 units, one of which is the arbiter's.
        let even = loads.len() == 4 && loads.values().all(|load| (3..=5).contains(load));
        if even { Ok(()) } else { Err(format!("{loads:?}")) }
    });
    load.create(NODES * EACH);
    // Pods with constraints may find no node once all nodes are full.
    load.settled(NODES);
    let mut rounds = 0;
    let mut round = |load: &mut Load| {
        load.churn();
        load.intrude(2, NODES);
        load.press(PRESSING);
        load.settled(NODES + 10 * rounds);
        rounds += 1;
    };
    std::thread::scope(|scope| {
        let killing = scope.spawn(|| kill_again_and_again(&cluster.http(Who::Admin), &mut schedulers, start));
        while !killing.is_finished() {
            round(&mut load);
        }
        killing.join().unwrap();
    });
    // On a busy machine the preemption may not have begun before the arbiter was killed.
    gradually("some leave for others", || match load.left.get() {
        LEAVE.. => Ok(()),
        left => {
            round(&mut load);
            Err(left)
        }
    });
    // Not all pods with an anti-affinity find a node; the test only requires room for some of them.
    let waiting = load.pods().into_iter().filter(|(_, bound)| !bound);
    waiting.skip(LAST).for_each(|(name, _)| load.delete(&name));
    load.nodes(NODES..NODES + NEW, "2");
    load.settled(0);
    let said: String = schedulers.iter().map(Process::said).collect();
    drop(schedulers);
    assert_eq!(cluster.stop(), Some(0));
    let findings = judge(&log(&cluster), &Rules { lag: LAG, ..Rules::default() });
    // A scheduler that proposes a pod that is already bound is refused without a conflict.
    let refused = said.lines().filter(|line| line.contains("proposal refused") && !line.contains("Unplaced"));
    let refusals = refused.count();
    let full = findings.fullest.values().filter(|fullest| **fullest >= 100).count();
    println!("{}refusals {refusals}, full nodes {full}", findings.show(10));
    assert!(findings.broken.is_empty(), "{}", findings.show(10));
    assert!(refusals > 0, "void: no two shards were in each other's way");
    let asked = [Rule::Once, Rule::Resources, Rule::Ports, Rule::AntiAffinity, Rule::Spread, Rule::Victims];
    let unasked: Vec<_> = asked.iter().filter(|rule| !findings.asked.contains_key(rule)).collect();
    assert!(unasked.is_empty(), "void: nobody asked for {unasked:?}");
    assert!(full * 10 >= NODES * 9, "void: only {full} nodes were ever full");
    assert!(!said.contains(" ERROR "), "{said}");
}
