//! Two controller managers share a churn of Deployments: each works on its own units only. When one is killed, only its units
//! move.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use oarlock_check::history::Line;
use oarlock_check::{History, Rule, check};
use oarlock_testkit::Cluster;
use oarlock_testkit::history::Recorder;
use oarlock_testkit::http::{Http, Who};
use oarlock_testkit::nats::Nats;
use oarlock_testkit::wait::{eventually, gradually};
use serde_json::json;

use super::{API_ONLY, holder, part, shared_by, units};
use crate::faults::claims::{self, claims, field};
use crate::faults::truth::{EmbeddedStore, Truth as _};

/// Names how many Deployments come and go.
const COUNT: &str = "OARLOCK_CHURN";
/// The text of a member's log line about members that it no longer receives; the field `silent` names them, and is empty when all are received again.
const SILENCE: &str = "members that are silent";
/// Number of pods without the long run: enough to judge that the shares are even, and the test takes half a minute.
const FEW: u64 = 300;
/// Concurrent users.
const USERS: u64 = 8;
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// A reconciled key, from a process's log (`oarlock_informer::reconcile=debug`).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Look {
    controller: String,
    key: String,
    /// `unit@epoch`.
    claim: String,
}

fn looks(said: &str) -> Vec<Look> {
    let lines = said.lines().filter(|line| line.contains("oarlock_informer::reconcile: reconciled"));
    let look = |line: &str| {
        let text = |name| field(line, name).map(str::to_owned);
        Some(Look { controller: text("controller")?, key: text("key")?, claim: text("claim")? })
    };
    lines.map(|line| look(line).unwrap_or_else(|| panic!("looked at under no claim: {line}"))).collect()
}

/// The violations: each claim must have one owner, and each key of a controller one unit.
fn intruders(of: &[Vec<Look>]) -> Vec<String> {
    let mut owners: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    let mut units: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for (owner, look) in of.iter().enumerate().flat_map(|(owner, looks)| looks.iter().map(move |look| (owner, look))) {
        owners.entry(&look.claim).or_default().insert(owner);
        let unit = look.claim.split('@').next().unwrap_or_default();
        units.entry((&look.controller, &look.key)).or_default().insert(unit);
    }
    let shared = owners.iter().filter(|(_, owners)| owners.len() > 1);
    let shared = shared.map(|(claim, owners)| format!("{owners:?} have worked under {claim}"));
    let astray = units.iter().filter(|(_, units)| units.len() > 1);
    shared.chain(astray.map(|(key, units)| format!("{key:?} was looked at for {units:?}"))).collect()
}

#[test]
fn one_claim_has_one_owner_and_one_key_one_unit() {
    let look =
        |key: &str, claim: &str| Look { controller: "c".to_owned(), key: key.to_owned(), claim: claim.to_owned() };
    let good = [vec![look("a/b", "u@1"), look("a/c", "u@1")], vec![look("a/b", "u@5"), look("a/d", "v@2")]];
    assert_eq!(intruders(&good), [""; 0]);
    assert_eq!(intruders(&[vec![look("a/b", "u@1")], vec![look("a/c", "u@1")]]).len(), 1);
    assert_eq!(intruders(&[vec![look("a/b", "u@1")], vec![look("a/b", "v@2")]]).len(), 1);
    let said = "x DEBUG oarlock_informer::reconcile: reconciled controller=\"c\" key=a/b claim=u@1 ok=true\n";
    assert_eq!(looks(said), [look("a/b", "u@1")]);
}

/// Several users at once make, scale and delete this many Deployments, until none is left.
fn churn(cluster: &Cluster, name: &str, count: u64) {
    let (http, next) = (cluster.http(Who::Admin), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..USERS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    lifetime(&http, &format!("{name}-{number}"));
                }
            });
        }
    });
    let kubectl = cluster.kubectl();
    for plural in ["deployments", "replicasets", "pods"] {
        gradually(plural, || match kubectl.ok(&format!("get {plural} -o name")).lines().count() {
            0 => Ok(()),
            left => Err(format!("{left} left")),
        });
    }
}

/// Makes a Deployment without pods, scales it to one, and deletes it.
fn lifetime(http: &Http, name: &str) {
    let labels = json!({"app": name});
    let spec = json!({"containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10"}]});
    let template = json!({"metadata": {"labels": labels}, "spec": spec});
    let spec = json!({"replicas": 0, "selector": {"matchLabels": labels}, "template": template});
    let made = http.json("POST", DEPLOYMENTS, &json!({"metadata": {"name": name}, "spec": spec}));
    assert_eq!(made.code, 201, "{made}");
    let path = format!("{DEPLOYMENTS}/{name}");
    let status = |field: &str| http.get(&path).json()["status"][field].as_u64().unwrap_or(0);
    eventually("the Deployment is seen", || if status("observedGeneration") > 0 { Ok(()) } else { Err(name) });
    let headers = [("Content-Type", "application/merge-patch+json")];
    let scaled = http.send("PATCH", &path, &headers, json!({"spec": {"replicas": 1}}).to_string().as_bytes());
    assert_eq!(scaled.code, 200, "{scaled}");
    eventually("it has its pod", || if status("replicas") == 1 { Ok(()) } else { Err(name) });
    let gone = http.send("DELETE", &path, &[], b"");
    assert_eq!(gone.code, 200, "{gone}");
}

/// Runs the whole test, with controller managers that have these flags.
fn shared_churn(flags: &[&str]) {
    let count = std::env::var(COUNT).map_or(FEW, |count| count.parse().unwrap());
    let mut cluster = Cluster::up(&[&API_ONLY[..], &["--log", claims::LOG]].concat());
    let flags = [&["--log", "info,oarlock_informer::reconcile=debug"], flags].concat();
    let mut managers = [(); 2].map(|()| part(&cluster, "controller-manager", &flags));
    let before = shared_by(&cluster, 2, 0);

    churn(&cluster, "all", count);
    let seen = managers.each_ref().map(|manager| looks(&manager.said()).len());
    println!("{count} Deployments: {seen:?} looks");
    let before = if units(&cluster) == before {
        let (less, more) = (seen.iter().min().unwrap(), seen.iter().max().unwrap());
        assert!(*less > 0 && *more <= 2 * less, "{seen:?}");
        before
    } else {
        // A busy machine may delay a manager's heartbeats by a second, which makes the manager silent to the other one.
        let silence = managers.iter().any(|manager| manager.said().contains(SILENCE));
        assert!(silence, "work moves nothing: {:?}, {before:?}", units(&cluster));
        shared_by(&cluster, 2, 0)
    };

    let victim = before["coordinator-controllers"].0.clone();
    std::thread::scope(|scope| {
        let load = scope.spawn(|| churn(&cluster, "half", count / 4));
        let busy = holder(&before, "coordinator-controllers", &mut managers);
        let so_far = busy.said().len();
        eventually("it works", || if busy.said().len() > so_far { Ok(()) } else { Err(so_far) });
        busy.kill();
        load.join().unwrap();
    });
    let after = shared_by(&cluster, 1, 0);
    for (unit, (holder, epoch)) in &before {
        assert_eq!(after[unit].1 != *epoch, *holder == victim, "{unit} of {holder}: {:?}", after[unit]);
    }

    let of = managers.each_ref().map(|manager| looks(&manager.said()));
    assert_eq!(intruders(&of), [""; 0]);
    drop(managers);
    assert_eq!(cluster.stop(), Some(0));
    fenced(&cluster);
}

/// F1, from the API server's log lines and the store's log.
fn fenced(cluster: &Cluster) {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::new(&folder.path().join("history.jsonl"));
    EmbeddedStore(cluster.data_dir().store()).record(&recorder, &[]);
    claims(&cluster.said_in_log()).into_iter().for_each(|claim| recorder.write(&Line::Claim(claim)));
    let history = History::read(&[recorder.flushed()]).unwrap();
    let report = check(&history);
    let shown = report.show(&history, 10);
    println!("{shown}");
    assert!(report.violations.is_empty() && report.checked(Rule::F1) > 0, "{shown}");
}

#[test]
fn churn_is_shared_and_only_what_the_victim_had_moves() {
    let Ok(nats) = Nats::start("").map_err(|why| oarlock_testkit::skipped!("{why}: no churn over a bus")) else {
        return;
    };
    shared_churn(&["--nats-servers", &nats.url()]);
}

#[test]
fn churn_is_shared_without_a_bus() {
    shared_churn(&[]);
}
