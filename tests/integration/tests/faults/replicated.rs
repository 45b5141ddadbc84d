//! API servers that share an etcd of three members, each behind links of its own.

use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::time::Duration;

use oarlock_testkit::chaos::{Chaos, Link};
use oarlock_testkit::wait::Deadline;
use oarlock_testkit::{Cluster, Etcd, Signal};
use serde_json::json;

use super::truth::EtcdHistory;
use super::{API_ONLY, Scene, lost, only, revive, servers, sum, ways};

const ALL: [usize; 3] = [0, 1, 2];
/// Time for which a process is stopped: longer than any lease, wait or retry of a client.
const SLEEP: Duration = Duration::from_secs(20);

/// The revision of a member.
fn newest(etcd: &Etcd) -> u64 {
    etcd.status(0)["header"]["revision"].as_u64().unwrap()
}

#[test]
fn two_api_servers_over_one_etcd_are_one_store() {
    let Ok(etcd) =
        Etcd::start(ALL.len()).map_err(|why| oarlock_testkit::skipped!("{why}: faults of etcd were not tried"))
    else {
        return;
    };
    let etcd = RefCell::new(etcd);
    let network = Chaos::new();
    let (of_a, of_b) = (ways(&network, "a", &etcd.borrow(), &ALL), ways(&network, "b", &etcd.borrow(), &ALL));
    let mut one = Cluster::up(&[[servers(&of_a).as_str()].as_slice(), &API_ONLY].concat());
    let mut two = one.replica(&[servers(&of_b).as_str()]);
    let scene = Scene::new("replicated", &one);
    let ((to_a, a), (to_b, b)) = (scene.link("a", &one), scene.link("b", &two));
    let workload = scene.start(vec![a, b]);
    let seen = || workload.counts().marks();
    let cut = |links: &[Link]| sum(links, |marks| marks.cut);
    workload.goes_on(100, 60);

    scene.bites("kill -9 of an API server", || one.kill(), || [to_a.marks().broken, seen()]);
    workload.goes_on(50, 20);
    revive(&mut one, &to_a);
    workload.goes_on(100, 60);

    // The servers are restarted in order, one after the other: refused connections are the only effect.
    for (server, link) in [(&mut one, &to_a), (&mut two, &to_b)] {
        scene.bites(
            "SIGTERM of an API server",
            || assert_eq!(server.stop(), Some(0)),
            || [link.marks().broken, seen()],
        );
        workload.goes_on(50, 20);
        revive(server, link);
        workload.goes_on(100, 60);
    }

    // Messages on the way to the leader are lost and their outcome is unknown; the loss is mostly repaired before clients notice it.
    let leader = etcd.borrow().leader();
    let term = || [etcd.borrow().status((leader + 1) % ALL.len())["raftTerm"].as_u64().unwrap()];
    scene.bites("kill -9 of etcd's leader", || etcd.borrow_mut().kill(leader), term);
    workload.goes_on(50, 20);
    etcd.borrow_mut().restart(leader);

    let member = 0;
    only(&one, &of_a, member);
    let kill = || etcd.borrow_mut().kill(member);
    scene.bites("kill -9 of an API server's member of etcd", kill, || [lost(&of_a, member)]);
    workload.goes_on(50, 20);
    etcd.borrow_mut().restart(member);
    workload.goes_on(50, 20);

    // Server a has no connection to etcd, so it must not give answers that need the latest state.
    scene.bites("API server cut off from etcd", || of_a.iter().for_each(Link::cut), || [cut(&of_a), seen()]);
    workload.goes_on(50, 20);
    of_a.iter().for_each(Link::heal);
    workload.goes_on(100, 60);

    // The messages of server b are late in both directions: its calls to etcd time out and still have their effect.
    let held = || sum(&of_b, |marks| marks.held);
    scene.bites("API server's links to etcd held", || of_b.iter().for_each(Link::hold), || [held(), seen()]);
    workload.goes_on(30, 10);
    of_b.iter().for_each(Link::heal);
    workload.goes_on(100, 60);

    // Server a is stopped: its clients wait without an answer, and its answers after SIGCONT are stale.
    let sleeps = Deadline::after(SLEEP);
    scene.bites("SIGSTOP of an API server for 20 s", || one.signal(Signal::STOP), || [seen()]);
    while !sleeps.passed() {
        workload.goes_on(20, 5);
    }
    one.signal(Signal::CONT);
    workload.goes_on(100, 60);

    // The member of server a loses its peers, so it may neither accept a write nor confirm the latest revision.
    let alone = 1;
    only(&one, &of_a, alone);
    let peers: Vec<usize> = ALL.into_iter().filter(|member| *member != alone).collect();
    let freeze = || peers.iter().for_each(|peer| etcd.borrow().signal(*peer, Signal::STOP));
    scene.bites("SIGSTOP of all members of etcd but one", freeze, || [seen()]);
    peers.iter().for_each(|peer| etcd.borrow().signal(*peer, Signal::CONT));
    workload.goes_on(100, 60);

    scene.judge(workload, || (), &EtcdHistory::of(etcd.borrow().ports(0).0));
}

#[test]
fn a_server_that_a_compaction_overtakes_starts_anew() {
    let Ok(etcd) = Etcd::start(1).map_err(|why| oarlock_testkit::skipped!("{why}: no compaction overtook anybody"))
    else {
        return;
    };
    let truth = EtcdHistory::live(etcd.ports(0).0);
    let network = Chaos::new();
    let (of_a, of_b) = (ways(&network, "a", &etcd, &[0]), ways(&network, "b", &etcd, &[0]));
    let log = ["--log", "info,oarlock_store=debug"];
    let one = Cluster::up(&[[servers(&of_a).as_str()].as_slice(), &API_ONLY, &log].concat());
    let two = one.replica(&[servers(&of_b).as_str()]);
    let scene = Scene::new("compacted", &one);
    let ((_to_a, a), (_to_b, b)) = (scene.link("a", &one), scene.link("b", &two));
    let workload = scene.start(vec![a, b]);
    workload.goes_on(100, 60);
    for _ in 0..3 {
        let cut = || sum(&of_a, |marks| marks.cut);
        scene.bites(
            "cut off from etcd, which is compacted",
            || of_a.iter().for_each(Link::cut),
            || [cut(), workload.counts().marks()],
        );
        workload.goes_on(50, 20);
        let _said = etcd.ctl(0, &["compaction", &newest(&etcd).to_string()]);
        let (overtaken, at) = (|| one.said_in_log().matches("is compacted").count() as u64, scene.recorder.now());
        scene.bites("healed after the compaction", || of_a.iter().for_each(Link::heal), || [overtaken()]);
        workload.goes_on(100, 60);
        // Server a has loaded the state anew, so it has no history before this revision, even where etcd still has.
        scene.recorder.write(&json!({"line": "floor", "revision": newest(&etcd), "at": at}));
    }
    let gone = workload.counts().gone.load(Ordering::Relaxed);
    assert!(gone > 0, "nobody was told that history is gone");
    scene.judge(workload, || (), &truth);
}
