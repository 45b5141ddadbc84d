//! Slow and failing disks: without a sync no write is acknowledged.

use std::cell::OnceCell;
use std::time::Duration;

use oarlock_testkit::chaos::Chaos;
use oarlock_testkit::wait::gradually;
use oarlock_testkit::{Cluster, Disk, Etcd};

use super::table::writes;
use super::truth::{EmbeddedStore, EtcdHistory};
use super::{API_ONLY, Scene, revive, servers, ways};

/// The additional duration of a sync: some hundred times what a good disk needs.
pub(super) const SLOW: Duration = Duration::from_millis(300);

/// A fault that begins later.
#[derive(Default)]
pub(super) struct Under(OnceCell<Disk>);

impl Under {
    #[track_caller]
    pub(super) fn set(&self, disk: Result<Disk, String>) {
        assert!(self.0.set(disk.unwrap()).is_ok(), "one fault");
    }

    pub(super) fn marks(&self) -> u64 {
        self.0.get().map_or(0, Disk::marks)
    }
}

fn can() -> bool {
    Disk::available().map_err(|why| oarlock_testkit::skipped!("{why}: no disk was slow or failed")).is_ok()
}

#[test]
fn nothing_is_acknowledged_that_our_disk_did_not_take() {
    if !can() {
        return;
    }
    let mut server = Cluster::up(&API_ONLY);
    let scene = Scene::new("disk", &server);
    let (link, replica) = scene.link("a", &server);
    let workload = scene.start(vec![replica]);
    workload.goes_on(50, 20);

    let slow = Under::default();
    scene.bites("slow disk (300 ms a sync)", || slow.set(Disk::slow(server.id(), SLOW)), || [slow.marks()]);
    workload.goes_on(20, 5);
    drop(slow);
    workload.goes_on(50, 20);

    for times in 1..=2 {
        let failing = Under::default();
        let broken = || [failing.marks(), link.marks().broken, workload.counts().marks()];
        let ends = || {
            failing.set(Disk::failing(server.id()));
            let seen = workload.counts().marks();
            let more = || workload.counts().marks() - seen;
            scene.silent("a", writes, || {
                assert_eq!(server.wait_for_end(), Some(1));
                gradually("clients try on", || if more() < 20 { Err(more()) } else { Ok(()) });
            });
        };
        scene.bites("failing disk (EIO)", ends, broken);
        let said = server.said_in_log();
        assert_eq!(said.matches("oarlock: store: fsync of the store failed: Input/output error").count(), times);
        drop(failing);
        revive(&mut server, &link);
        workload.goes_on(50, 20);
    }
    let store = EmbeddedStore(server.data_dir().store());
    scene.judge(workload, || server.kill(), &store);
}

#[test]
fn a_leader_of_etcd_with_a_bad_disk_is_waited_for_or_left() {
    if !can() {
        return;
    }
    let Ok(mut etcd) = Etcd::start(3).map_err(|why| oarlock_testkit::skipped!("{why}: no leader had a bad disk"))
    else {
        return;
    };
    let network = Chaos::new();
    let to_etcd = ways(&network, "a", &etcd, &[0, 1, 2]);
    let server = Cluster::up(&[[servers(&to_etcd).as_str()].as_slice(), &API_ONLY].concat());
    let scene = Scene::new("disk-etcd", &server);
    let (_link, replica) = scene.link("a", &server);
    let workload = scene.start(vec![replica]);
    workload.goes_on(50, 20);

    let leader = etcd.leader();
    let slow = Under::default();
    let begin = || slow.set(Disk::slow(etcd.id(leader), SLOW));
    scene.bites("etcd's leader on a slow disk (300 ms a sync)", begin, || [slow.marks()]);
    workload.goes_on(20, 5);
    drop(slow);
    workload.goes_on(50, 20);

    let leader = etcd.leader();
    let failing = Under::default();
    let ends = || {
        failing.set(Disk::failing(etcd.id(leader)));
        let said = etcd.wait_for_end(leader);
        assert!(said.contains("input/output error"), "{said}");
    };
    scene.bites("etcd's leader on a failing disk (EIO)", ends, || [failing.marks()]);
    drop(failing);
    workload.goes_on(50, 20);
    etcd.restart(leader);
    workload.goes_on(50, 20);
    scene.judge(workload, || (), &EtcdHistory::of(etcd.ports(0).0));
}
