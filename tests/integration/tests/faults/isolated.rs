//! A member of etcd that is cut off from its peers, with an API server that reaches no other member.

use oarlock_testkit::chaos::{Chaos, Link, Way};
use oarlock_testkit::http::Who;
use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Cluster, Etcd};

use super::table::needs_proof;
use super::truth::EtcdHistory;
use super::{API_ONLY, Scene, servers, sum, ways};

/// The member that is alone.
const ALONE: usize = 0;
const NAME: &str = "m0";

#[test]
fn over_a_member_without_its_peers_nothing_is_written_and_nothing_is_most_recent() {
    let network = Chaos::new();
    let Ok(etcd) = Etcd::linked(3, &network).map_err(|why| oarlock_testkit::skipped!("{why}: no member was isolated"))
    else {
        return;
    };
    let (of_a, of_b) = (ways(&network, "a", &etcd, &[ALONE]), ways(&network, "b", &etcd, &[1, 2]));
    let one = Cluster::up(&[[servers(&of_a).as_str()].as_slice(), &API_ONLY].concat());
    let two = one.replica(&[servers(&of_b).as_str()]);
    let scene = Scene::new("isolated", &one);
    let ((_to_a, a), (_to_b, b)) = (scene.link("a", &one), scene.link("b", &two));
    let workload = scene.start(vec![a, b]);
    let seen = || workload.counts().marks();
    let tails_lost = || one.said_in_log().matches("the view lost the log's tail").count() as u64;
    let peers = network.between(&[NAME], &["m1", "m2"]);
    assert_eq!(peers.len(), 4, "each way");
    workload.goes_on(50, 20);

    // The server reports once that the tail is lost, until its view has moved on: the next fault would leave no mark.
    let follows = || {
        eventually("the server's view follows the log", || {
            let read = one.http(Who::Admin).get("/api/v1/namespaces/kube-system");
            if read.code == 200 { Ok(()) } else { Err(read.to_string()) }
        });
    };

    for (leader, fault) in [(1, "follower isolated from its peers"), (ALONE, "leader isolated from its peers")] {
        etcd.lead(leader);
        follows();
        let marks = || [sum(&peers, |marks| marks.cut), sum(&peers, |marks| marks.refused), tails_lost(), seen()];
        scene.bites(fault, || peers.iter().for_each(Link::cut), marks);
        scene.silent("a", needs_proof, || workload.goes_on(20, 5));
        peers.iter().for_each(Link::heal);
        workload.goes_on(50, 20);
    }

    // The member can send and cannot receive: messages to it are lost on every connection.
    etcd.lead(ALONE);
    follows();
    let deaf =
        || peers.iter().for_each(|link| link.lose(if link.parties().0 == NAME { Way::Back } else { Way::There }));
    scene
        .bites("leader that hears none of its peers", deaf, || [sum(&peers, |marks| marks.lost), tails_lost(), seen()]);
    scene.silent("a", needs_proof, || workload.goes_on(20, 5));
    peers.iter().for_each(Link::heal);
    workload.goes_on(50, 20);

    // The request for the tail asks a member without a leader to end the tail. A silent tail would also be closed, but later.
    let log = one.said_in_log();
    assert!(log.contains("etcd's watch: etcdserver: no leader"), "no tail was ended by its member");
    scene.judge(workload, || (), &EtcdHistory::of(etcd.ports(1).0));
}
