//! Members that detect one another's loss by the bus.

use std::collections::BTreeSet;

use oarlock_testkit::nats::Nats;
use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Cluster, Process, Signal};

use super::{API_ONLY, holder, nodes, part, ready, shared_by, units};

/// Renewals of a Lease, one every 4 s, in which it would have run out.
const RENEWALS: usize = 5;

/// A bus, if it can be built here.
fn bus() -> Option<Nats> {
    Nats::start("").map_err(|why| oarlock_testkit::skipped!("{why}: nobody was heard on a bus")).ok()
}

fn hearing(cluster: &Cluster, nats: &Nats, name: &str) -> Process {
    part(cluster, name, &["--nats-servers", &nats.url()])
}

/// Waits until each process has received messages of others, for the `time`th time.
fn all_hear(processes: &[Process], time: usize) {
    for process in processes {
        eventually("it hears the others", || {
            let said = process.said();
            if said.matches("hears the others").count() >= time { Ok(()) } else { Err(said) }
        });
    }
}

#[test]
fn who_falls_silent_is_missed_long_before_its_lease_runs_out() {
    let Some(nats) = bus() else { return };
    let cluster = Cluster::up(&API_ONLY);
    let kubectl = cluster.kubectl();
    let start = || hearing(&cluster, &nats, "controller-manager");
    let mut managers = [start(), start()];
    let mut schedulers = ["scheduler"; 2].map(|name| hearing(&cluster, &nats, name));
    let _nodes = nodes(&cluster, "2");
    let before = shared_by(&cluster, 2, 2);
    all_hear(&managers, 1);
    all_hear(&schedulers, 1);
    for name in ["a", "b", "c", "d"] {
        kubectl.ok(&format!("create deployment {name} --image=registry.k8s.io/pause:3.10 --replicas=2"));
    }
    ready(&cluster, "2 2 2 2");
    // An expired Lease is deleted. While the Lease exists, its expiry was not what moved the units.
    let still_there = |member: &str| kubectl.ok(&format!("get lease -n kube-system {member} -o name"));

    let coordinator = before["coordinator-controllers"].0.clone();
    holder(&before, "coordinator-controllers", &mut managers).kill();
    let after = shared_by(&cluster, 1, 2);
    still_there(&coordinator);
    for (unit, (holder, epoch)) in &before {
        assert_eq!(after[unit].1 != *epoch, *holder == coordinator, "{unit} of {holder}: {:?}", after[unit]);
    }
    let arbiter = before["arbiter"].0.clone();
    let sleeper = holder(&before, "arbiter", &mut schedulers);
    sleeper.signal(Signal::STOP);
    eventually("another decides", || if units(&cluster)["arbiter"].0 == arbiter { Err("the same") } else { Ok(()) });
    still_there(&arbiter);
    kubectl.ok("scale deployment a b c d --replicas=4");
    ready(&cluster, "4 4 4 4");
    sleeper.signal(Signal::CONT);
    kubectl.ok("scale deployment a b c d --replicas=5");
    ready(&cluster, "5 5 5 5");
    assert_eq!(kubectl.ok("get pods -o name").lines().count(), 20, "none too many");
}

#[test]
fn without_the_bus_nothing_moves_and_nothing_fails() {
    let Some(mut nats) = bus() else { return };
    let cluster = Cluster::up(&API_ONLY);
    let kubectl = cluster.kubectl();
    let mut managers = [(); 2].map(|()| hearing(&cluster, &nats, "controller-manager"));
    let schedulers = [(); 2].map(|()| hearing(&cluster, &nats, "scheduler"));
    let _nodes = nodes(&cluster, "2");
    let before = shared_by(&cluster, 2, 2);
    all_hear(&managers, 1);
    all_hear(&schedulers, 1);
    kubectl.ok("create deployment a --image=registry.k8s.io/pause:3.10 --replicas=2");
    ready(&cluster, "2");

    nats.kill();
    let mut renewed = BTreeSet::new();
    eventually("a Lease's time has passed", || {
        let lease = format!("get lease -n kube-system {} -o jsonpath={{.spec.renewTime}}", before["arbiter"].0);
        renewed.insert(kubectl.ok(&lease));
        if renewed.len() > RENEWALS { Ok(()) } else { Err(format!("{renewed:?}")) }
    });
    kubectl.ok("scale deployment a --replicas=6");
    ready(&cluster, "6");
    assert_eq!(units(&cluster), before, "nobody was suspected");
    let left: Vec<_> =
        managers.iter().chain(&schedulers).filter(|part| !part.said().contains("hears nobody")).collect();
    assert!(left.is_empty(), "the bus was away, and not everybody has noticed");

    // From here on only the Lease shows that a member is lost.
    holder(&before, "coordinator-controllers", &mut managers).kill();
    shared_by(&cluster, 1, 2);
    nats.restart();
    all_hear(&schedulers, 2);
    kubectl.ok("scale deployment a --replicas=3");
    ready(&cluster, "3");
}
