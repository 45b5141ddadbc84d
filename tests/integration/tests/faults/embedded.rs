//! One API server over its own store.

use std::time::Duration;

use oarlock_testkit::Cluster;
use oarlock_testkit::chaos::Way;

use super::truth::EmbeddedStore;
use super::{API_ONLY, Scene, revive};

#[test]
fn an_api_server_that_is_killed_again_and_again_keeps_its_word() {
    let mut server = Cluster::up(&API_ONLY);
    let scene = Scene::new("killed", &server);
    let (link, replica) = scene.link("a", &server);
    let workload = scene.start(vec![replica]);
    let marks = || [link.marks().broken, workload.counts().marks()];
    for _ in 0..4 {
        workload.goes_on(150, 60);
        scene.bites("kill -9 of the API server", || server.kill(), marks);
        revive(&mut server, &link);
    }
    workload.goes_on(150, 60);
    let store = EmbeddedStore(server.data_dir().store());
    scene.judge(workload, || server.kill(), &store);
}

#[test]
fn clients_behind_a_bad_network_see_one_store() {
    let mut server = Cluster::up(&API_ONLY);
    let scene = Scene::new("network", &server);
    let ((bad, one), (_good, other)) = (scene.link("a", &server), scene.link("b", &server));
    let workload = scene.start(vec![one, other]);
    let seen = || workload.counts().marks();
    workload.goes_on(100, 40);
    scene.bites("link cut", || bad.cut(), || [bad.marks().cut, bad.marks().refused, seen()]);
    workload.goes_on(20, 5);
    bad.heal();
    for (fault, way) in [("bytes to the server lost", Way::There), ("bytes from the server lost", Way::Back)] {
        scene.bites(fault, || bad.lose(way), || [bad.marks().lost, seen()]);
        bad.heal();
        workload.goes_on(50, 20);
    }
    scene.bites("bytes held", || bad.hold(), || [bad.marks().held, seen()]);
    bad.heal();
    workload.goes_on(50, 20);
    // The delay is shorter than the clients' timeouts.
    scene.bites("bytes 30 ms late", || bad.delay(Duration::from_millis(30)), || [bad.marks().delayed]);
    workload.goes_on(50, 20);
    bad.heal();
    let store = EmbeddedStore(server.data_dir().store());
    scene.judge(workload, || server.kill(), &store);
}
