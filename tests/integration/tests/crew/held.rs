//! A controller manager's create is delayed on its way until its unit has moved. The store refuses the create, whether or not the API server knows
//! of the move, and whether or not the sender is running.

use std::collections::BTreeMap;

use oarlock_testkit::chaos::{Chaos, Link, Way};
use oarlock_testkit::http::{Http, Who};
use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Cluster, Etcd, Process, Signal};
use serde_json::{Value, json};

use super::teller::Teller;
use super::{API_ONLY, part, shared_by, units};
use crate::faults::claims::{self, claims, field};

/// Size of a pod in bytes: larger than anything else that a controller manager sends.
const BULK: usize = 40 << 10;
/// Enough for some to fall to either manager.
const SETS: usize = 16;
const ASSIGNMENTS: &str = "/apis/oarlock.dev/v1/assignments";
const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

/// A controller manager whose connection to a server is a link, and another one at the same server or at another.
struct Stage<'a> {
    server: &'a Cluster,
    /// The server that all other clients use.
    straight: &'a Cluster,
    http: Http,
    link: Link,
    owner: Process,
    other: Process,
    _chaos: Chaos,
}

/// A ReplicaSet whose pod's create is on its way, and the unit of its claim.
struct Held {
    set: String,
    unit: String,
    epoch: u64,
}

impl<'a> Stage<'a> {
    fn start(server: &'a Cluster, straight: &'a Cluster) -> Self {
        let (chaos, http) = (Chaos::new(), straight.http(Who::Admin));
        let link = chaos.link("owner", "server", server.http(Who::Admin).address().parse().unwrap());
        let log = ["--log", "info,oarlock_informer::reconcile=debug"];
        let manager =
            |at: &str| part(straight, "controller-manager", &["--server", &format!("https://{at}"), log[0], log[1]]);
        let (owner, other) = (manager(&link.address().to_string()), manager(http.address()));
        shared_by(straight, 2, 0);
        // Pods need the ServiceAccount.
        eventually("the account is made", || {
            let account = http.get("/api/v1/namespaces/default/serviceaccounts/default");
            if account.code == 200 { Ok(()) } else { Err(account.to_string()) }
        });
        Self { server, straight, http, link, owner, other, _chaos: chaos }
    }

    fn send(&self, method: &str, path: &str, media: &str, body: &Value, code: u16) -> Value {
        let answer = self.http.send(method, path, &[("Content-Type", media)], body.to_string().as_bytes());
        assert_eq!(answer.code, code, "{answer}");
        answer.json()
    }

    /// Catches the owner creating a pod.
    fn hold(&self) -> Held {
        for name in (0..SETS).map(|number| format!("set{number}")) {
            let labels = json!({"app": name});
            let meta = json!({"labels": labels, "annotations": {"bulk": "x".repeat(BULK)}});
            let spec = json!({"containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10"}]});
            let template = json!({"metadata": meta, "spec": spec});
            let spec = json!({"replicas": 0, "selector": {"matchLabels": labels}, "template": template});
            self.send(
                "POST",
                REPLICA_SETS,
                "application/json",
                &json!({"metadata": {"name": name}, "spec": spec}),
                201,
            );
        }
        // Each write of a status names its unit.
        let of = eventually("each has its status", || {
            let told = claims(&(self.server.said_in_log() + &self.straight.said_in_log())).into_iter();
            let told = told.filter_map(|claim| {
                let set = claim.key?.strip_prefix("replicasets/default/")?.to_owned();
                Some((set, claim.unit))
            });
            let of: BTreeMap<String, String> = told.collect();
            if of.len() == SETS { Ok(of) } else { Err(format!("{of:?}")) }
        });
        let units = units(self.straight);
        let mut owned = of.into_iter().filter(|(_, unit)| is(&self.owner, &units[unit].0));
        let (set, unit) = owned.next().expect("void: all fell to the other");
        let held = Held { set, epoch: units[&unit].1, unit };
        self.link.hold_from_large(Way::There);
        let path = format!("{REPLICA_SETS}/{}", held.set);
        self.send("PATCH", &path, "application/merge-patch+json", &json!({"spec": {"replicas": 1}}), 200);
        eventually("the create is caught", || {
            let marks = self.link.marks();
            if marks.held >= BULK as u64 { Ok(()) } else { Err(format!("{marks:?}")) }
        });
        assert_eq!(self.pods(&held), 0, "void: it was not held");
        held
    }

    /// Gives the unit to the other.
    fn moves(&self, held: &Held) {
        let path = format!("{ASSIGNMENTS}/{}", held.unit);
        let mut unit = self.http.get(&path).json();
        let units = units(self.straight);
        let other = units.values().map(|(holder, _)| holder).find(|holder| is(&self.other, holder)).unwrap();
        unit["spec"]["holderIdentity"] = json!(other);
        let moved = self.send("PUT", &path, "application/json", &unit, 200);
        assert_ne!(moved["metadata"]["resourceVersion"], held.epoch.to_string());
    }

    fn pods(&self, held: &Held) -> usize {
        let pods = self.http.get(&format!("/api/v1/namespaces/default/pods?labelSelector=app%3D{}", held.set)).json();
        pods["items"].as_array().unwrap().len()
    }

    /// The new holder of the unit makes the pod.
    fn made(&self, held: &Held) {
        eventually("the other makes the pod", || match self.pods(held) {
            1 => Ok(()),
            pods => Err(pods),
        });
    }

    /// The server refuses the create for its claim.
    fn refused(&self, held: &Held) {
        let pod = format!("/registry/pods/default/{}-", held.set);
        said(
            "the create is refused",
            || self.server.said_in_log(),
            |line| {
                line.contains("refused: the claim has gone")
                    && field(line, "unit") == Some(&held.unit)
                    && field(line, "epoch") == Some(&held.epoch.to_string())
                    && field(line, "key").is_some_and(|key| key.starts_with(&pod))
            },
        );
    }

    /// Checks that the owner's create is refused, and that no second pod exists.
    fn told(&self, held: &Held) {
        let (key, claim) = (format!("default/{}", held.set), format!("{}@{}", held.unit, held.epoch));
        said(
            "the owner is told",
            || self.owner.said(),
            |line| {
                field(line, "controller") == Some("replicaset-controller")
                    && field(line, "key") == Some(&key)
                    && field(line, "claim") == Some(&claim)
                    && field(line, "ok") == Some("false")
            },
        );
        assert_eq!(self.pods(held), 1, "made twice");
    }
}

/// Waits for a line of a log.
fn said(what: &str, log: impl Fn() -> String, is_it: impl Fn(&str) -> bool) {
    eventually(what, || {
        let log = log();
        if log.lines().any(&is_it) { Ok(()) } else { Err(log) }
    });
}

/// Whether a process is this member, by the log, in which a member reports the units that it takes.
fn is(process: &Process, member: &str) -> bool {
    process.said().contains(&format!("member=\"{member}\""))
}

fn one_server() -> Cluster {
    Cluster::up(&[&API_ONLY[..], &["--log", claims::LOG]].concat())
}

#[test]
fn a_create_that_was_on_its_way_when_its_unit_moved_is_refused() {
    let server = one_server();
    let stage = Stage::start(&server, &server);
    let held = stage.hold();
    stage.moves(&held);
    stage.made(&held);
    stage.link.heal();
    stage.refused(&held);
    stage.told(&held);
}

#[test]
fn a_create_of_somebody_who_sleeps_is_refused_when_it_arrives() {
    let server = one_server();
    let stage = Stage::start(&server, &server);
    let held = stage.hold();
    stage.owner.signal(Signal::STOP);
    stage.moves(&held);
    stage.made(&held);
    stage.link.heal();
    stage.refused(&held);
    stage.owner.signal(Signal::CONT);
    stage.told(&held);
}

#[test]
fn a_server_that_has_not_heard_of_the_move_refuses_all_the_same() {
    let Ok(etcd) = Etcd::start(1).map_err(|why| oarlock_testkit::skipped!("{why}: no server was behind")) else {
        return;
    };
    let teller = Teller::before(etcd.ports(0).0);
    let log = ["--log", claims::LOG];
    let straight = Cluster::up(&[&["--etcd-servers", &etcd.endpoints().join(",")][..], &API_ONLY, &log].concat());
    let behind = straight.replica(&["--etcd-servers", &teller.url(), log[0], log[1]]);
    let stage = Stage::start(&behind, &straight);
    let held = stage.hold();
    teller.silent(true);
    stage.moves(&held);
    // The read accepts any revision, so the server answers from its own state.
    let believed = behind.http(Who::Admin).get(&format!("{ASSIGNMENTS}/{}?resourceVersion=0", held.unit)).json();
    assert_eq!(believed["metadata"]["resourceVersion"], held.epoch.to_string(), "void: the server knows");
    stage.link.heal();
    let pod = format!("pods/default/{}-", held.set);
    eventually("etcd refuses it", || if teller.has_refused(&pod) { Ok(()) } else { Err("not yet") });
    stage.made(&held);
    teller.silent(false);
    stage.refused(&held);
    stage.told(&held);
}
