//! Our scheduler beside upstream's on upstream's API server: each has pods of its own, and both use the same nodes, which are nearly full in the end. Each is
//! judged by the log; for each, the other scheduler is an intruder that binds pods without its knowledge.

use std::thread;

use oarlock_check::placement::{Line, Log, Rule, Rules, judge};
use oarlock_testkit::http::Http;
use oarlock_testkit::{Peer, Process};
use serde_json::Value;

use super::load::{Load, PODS};
use crate::swaps::{programs, unexplained};

const NODES: usize = 42;
/// Pods of each scheduler, of half a core; a node has room for 100.
const EACH: usize = 2000;
/// Number of revisions by which one scheduler's knowledge of the other may lag.
const LAG: u64 = 300;
const SCHEDULERS: [&str; 2] = ["default-scheduler", "oarlock"];
/// Of 100 pods one needs a host port, one must not share its node with its like, and two are spread.
const FEW: &[&str] = &{
    let mut wishes = ["plain"; 100];
    [wishes[0], wishes[1], wishes[2], wishes[3]] = ["port", "apart", "even", "even"];
    wishes
};

/// Rules that must have been checked. After its binding only another binding changes a pod, so the rule that a node is set once is checked only where
/// it is broken.
const ASKED: [Rule; 4] = [Rule::Resources, Rule::Ports, Rule::AntiAffinity, Rule::Spread];

fn line(kind: &str, object: Value, gone: bool) -> Line {
    let metadata = &object["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    let key = format!("{kind}/{}/{}", text("namespace"), text("name")).replace("//", "/");
    Line { revision: text("resourceVersion").parse().unwrap(), key, object: (!gone).then_some(object) }
}

/// Follows all pods until one waits for the scheduler `last`.
fn follow(http: &Http, last: &str) -> Vec<Line> {
    let mut watch = http.open("GET", "/api/v1/pods?watch=1&resourceVersion=0", &[], b"").unwrap();
    let mut lines = Vec::new();
    loop {
        let mut event = watch.event().expect("the watch goes on");
        let (gone, object) = (event["type"] == "DELETED", event["object"].take());
        if object["spec"]["schedulerName"] == last {
            return lines;
        }
        lines.push(line("pods", object, gone));
    }
}

#[test]
fn beside_upstreams_scheduler() {
    if programs(&["etcd", "kube-apiserver", "kube-scheduler"]).is_none() {
        return;
    }
    let peer = Peer::up(&["kube-scheduler"]);
    let mut command = oarlock_testkit::part("scheduler");
    command.args(["--scheduler-name", SCHEDULERS[1], "--kubeconfig"]);
    command.arg(peer.component_kubeconfig("kube-scheduler"));
    let ours = Process::start(command, "scheduler");
    let mut loads = SCHEDULERS.map(|scheduler| Load::new(peer.http(), scheduler, FEW));
    let end = Load::new(peer.http(), "nobody", &["end"]);
    end.prepare();
    end.nodes(0..NODES, "50");
    let nodes = peer.http().get("/api/v1/nodes").json();
    let mut lines = thread::scope(|scope| {
        let following = scope.spawn(|| follow(&peer.http(), "nobody"));
        let making = loads.each_mut().map(|load| scope.spawn(|| load.create(EACH)));
        making.into_iter().for_each(|made| made.join().unwrap());
        end.settled(0);
        end.post(PODS, &end.pod("end", None));
        following.join().unwrap()
    });
    lines.extend(nodes["items"].as_array().unwrap().iter().map(|node| line("nodes", node.clone(), false)));
    let log = Log::of(lines);
    for scheduler in SCHEDULERS {
        let findings = judge(&log, &Rules { schedulers: vec![scheduler.to_owned()], lag: LAG, ..Rules::default() });
        println!("{scheduler}\n{}", findings.show(10));
        assert_eq!(findings.bindings, EACH as u64, "{scheduler}");
        assert!(findings.broken.is_empty(), "{scheduler}\n{}", findings.show(10));
        let unasked: Vec<_> = ASKED.iter().filter(|rule| !findings.asked.contains_key(rule)).collect();
        assert!(unasked.is_empty(), "void: {scheduler}: nobody asked for {unasked:?}");
    }
    assert_eq!(unexplained(&ours.said(), &[]), [""; 0]);
}
