//! The takeover of a lost process's units: which units move, and which stay.

use std::thread;

use oarlock_testkit::chaos::Chaos;
use oarlock_testkit::http::{Http, Who};
use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Cluster, Signal};
use serde_json::json;

use super::{API_ONLY, holder, nodes, part, ready, shared_by, units};

#[test]
fn all_processes_work_and_the_loss_of_one_is_made_good() {
    let cluster = Cluster::up(&API_ONLY);
    let kubectl = cluster.kubectl();
    let mut managers = [part(&cluster, "controller-manager", &[]), part(&cluster, "controller-manager", &[])];
    let mut schedulers = [part(&cluster, "scheduler", &[]), part(&cluster, "scheduler", &[])];
    let _nodes = nodes(&cluster, "2");
    let before = shared_by(&cluster, 2, 2);
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        kubectl.ok(&format!("create deployment {name} --image=registry.k8s.io/pause:3.10 --replicas=2"));
    }
    ready(&cluster, "2 2 2 2 2 2 2 2");
    assert_eq!(units(&cluster), before, "work moves nothing");

    // The member is killed: its units move to the other member under new epochs, and the other member's own units stay unchanged.
    let victim = before["coordinator-controllers"].0.clone();
    holder(&before, "coordinator-controllers", &mut managers).kill();
    let after = shared_by(&cluster, 1, 2);
    for (unit, (holder, epoch)) in &before {
        let moved = after[unit].1 != *epoch;
        assert_eq!(moved, *holder == victim, "{unit} of {holder}: {:?}", after[unit]);
    }
    kubectl.ok("scale deployment a b c d e f g h --replicas=3");
    ready(&cluster, "3 3 3 3 3 3 3 3");

    // The member is shut down in order: other members hold its units before it ends.
    let ending = holder(&before, "coordinator-scheduler", &mut schedulers);
    ending.signal(Signal::TERM);
    assert_eq!(ending.wait_for_end(), Some(0));
    let ended = &before["coordinator-scheduler"].0;
    let left: Vec<_> = units(&cluster).into_iter().filter(|(_, (holder, _))| holder == ended).collect();
    assert!(left.is_empty(), "{left:?}");
    kubectl.ok("scale deployment a b c d e f g h --replicas=4");
    ready(&cluster, "4 4 4 4 4 4 4 4");
    kubectl.until("get leases -n kube-system -l oarlock.dev/role=scheduler -o name", |said| said.lines().count() == 1);

    // A member that joins gets its share of the units.
    let _third = part(&cluster, "controller-manager", &[]);
    shared_by(&cluster, 2, 1);
    kubectl.ok("delete deployment --all");
    kubectl.until("get pods -o name", str::is_empty);
    for process in managers.iter().chain(&schedulers) {
        assert!(!process.said().contains(" ERROR "), "{}", process.said());
    }
}

#[test]
fn an_owner_that_sleeps_through_a_move_harms_nothing() {
    let cluster = Cluster::up(&API_ONLY);
    let kubectl = cluster.kubectl();
    let mut managers = [part(&cluster, "controller-manager", &[]), part(&cluster, "controller-manager", &[])];
    let before = shared_by(&cluster, 2, 0);
    let sleeper = holder(&before, "coordinator-controllers", &mut managers);
    sleeper.signal(Signal::STOP);
    let after = shared_by(&cluster, 1, 0);
    for name in ["a", "b", "c", "d"] {
        kubectl.ok(&format!("create deployment {name} --image=registry.k8s.io/pause:3.10 --replicas=5"));
    }
    let pods = || kubectl.ok("get pods -o name").lines().count();
    eventually("the pods are there", || if pods() == 20 { Ok(()) } else { Err(pods()) });
    let holder_then = after["coordinator-controllers"].0.clone();
    sleeper.signal(Signal::CONT);
    // The former member joins again and gets a share: all workloads stay at their spec, and no object is made twice.
    let last = shared_by(&cluster, 2, 0);
    assert_eq!(last["coordinator-controllers"].0, holder_then);
    assert_eq!(pods(), 20);
    assert_eq!(kubectl.ok("get replicasets -o name").lines().count(), 4);
}

#[test]
fn a_write_that_was_on_its_way_when_its_unit_moved_is_refused() {
    let cluster = Cluster::up(&API_ONLY);
    let http = cluster.http(Who::Admin);
    let assignments = "/apis/oarlock.dev/v1/assignments";
    let unit = json!({"metadata": {"name": "controllers-3"}, "spec": {"holderIdentity": "a"}});
    let mut unit = http.json("POST", assignments, &unit).json();
    let claim = format!("controllers-3@{}", unit["metadata"]["resourceVersion"].as_str().unwrap());
    let path = "/api/v1/namespaces/default/configmaps";
    let post = |http: &Http, name: &str, claim: &str| {
        let headers = [("Content-Type", "application/json"), ("Oarlock-Fence", claim)];
        http.send("POST", path, &headers, json!({"metadata": {"name": name}}).to_string().as_bytes())
    };
    assert_eq!(post(&http, "first", &claim).code, 201);
    let chaos = Chaos::new();
    let link = chaos.link("owner", "server", http.address().parse().unwrap());
    link.hold();
    let late = http.at(link.address());
    let answer = thread::scope(|scope| {
        let asked = scope.spawn(|| post(&late, "late", &claim));
        eventually("the write is on its way", || if link.marks().held > 0 { Ok(()) } else { Err("not yet") });
        unit["spec"]["holderIdentity"] = json!("b");
        assert_eq!(http.json("PUT", &format!("{assignments}/controllers-3"), &unit).code, 200);
        link.heal();
        asked.join().unwrap()
    });
    assert_eq!((answer.code, answer.json()["details"]["causes"][0]["reason"].as_str()), (409, Some("StaleOwner")));
    assert_eq!(http.get(&format!("{path}/late")).code, 404);
    for claim in ["controllers-3", "controllers-3@x", "@3", "a b@3"] {
        let answer = post(&http, "never", claim);
        assert_eq!((answer.code, answer.json()["reason"].as_str()), (400, Some("BadRequest")), "{claim}");
    }
    let shown = cluster.kubectl().ok("get assignments");
    assert!(shown.lines().nth(1).is_some_and(|line| line.starts_with("controllers-3   b ")), "{shown}");
}
