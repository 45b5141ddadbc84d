//! The faults of connections, disks and policy processes in the scene `crew-ways`: those of the replicated API, with the crew at work.

use std::time::Duration;

use oarlock_testkit::chaos::{Link, LinkCounts, Way};
use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Disk, Signal};

use super::part::Part;
use super::{ALL, Fleet};
use crate::faults::disk::{SLOW, Under};
use crate::faults::{lost, only, sum};

/// The party that receives nothing from its peers, or whose messages are lost.
const ALONE: usize = 0;
/// Longer than anything between processes takes here.
const LATE: Duration = Duration::from_millis(30);

/// The fault of a link, and its mark.
type OnLink = (&'static str, fn(&Link), fn(LinkCounts) -> u64);

const ON_LINKS: [OnLink; 5] = [
    ("an API server's links to all others cut", Link::cut, |marks| marks.cut),
    ("bytes to an API server lost", |link| link.lose(Way::There), |marks| marks.lost),
    ("bytes from an API server lost", |link| link.lose(Way::Back), |marks| marks.lost),
    ("bytes to and from an API server held", Link::hold, |marks| marks.held),
    ("bytes to and from an API server 30 ms late", |link| link.delay(LATE), |marks| marks.delayed),
];

impl Fleet {
    /// All clients and members reach one of the API servers over a bad link.
    pub(super) fn bad_links(&mut self) {
        for (fault, act, mark) in ON_LINKS {
            let links = &self.links[1];
            let marks = || links.each_ref().map(|link| mark(link.marks()));
            self.scene.bites(fault, || links.iter().for_each(act), marks);
            self.works();
            self.links[1].iter().for_each(Link::heal);
            self.made_good(fault);
        }
    }

    /// Messages between an API server and etcd are delayed by as much as clients wait.
    pub(super) fn held_from_etcd(&mut self) {
        let held = || [sum(&self.ways, |marks| marks.held), self.workload.counts().marks()];
        self.scene.bites("API server's links to etcd held", || self.ways.iter().for_each(Link::hold), held);
        self.works();
        self.ways.iter().for_each(Link::heal);
    }

    /// Returns the member of etcd to which an API server is connected.
    pub(super) fn own_member(&mut self) {
        only(&self.servers[0], &self.ways, ALONE);
        let kill = || self.etcd.borrow_mut().kill(ALONE);
        self.scene.bites("kill -9 of an API server's member of etcd", kill, || [lost(&self.ways, ALONE)]);
        self.works();
        self.etcd.borrow_mut().restart(ALONE);
    }

    /// No write can be decided on.
    pub(super) fn no_majority(&mut self) {
        let all_but_one = |signal| ALL[1..].iter().for_each(|peer| self.etcd.borrow().signal(*peer, signal));
        let seen = || [self.workload.counts().marks()];
        self.scene.bites("SIGSTOP of all members of etcd but one", || all_but_one(Signal::STOP), seen);
        all_but_one(Signal::CONT);
        self.works();
    }

    /// A member of etcd is isolated: once as a follower and once as the leader; then it leads and receives nothing.
    pub(super) fn isolated_member(&mut self) {
        let peers = self.network.between(&["m0"], &["m1", "m2"]);
        assert_eq!(peers.len(), 4, "each way");
        for (leader, fault) in [(1, "follower isolated from its peers"), (ALONE, "leader isolated from its peers")] {
            self.etcd.borrow().lead(leader);
            let marks = || [sum(&peers, |marks| marks.cut), sum(&peers, |marks| marks.refused)];
            self.scene.bites(fault, || peers.iter().for_each(Link::cut), marks);
            self.works();
            peers.iter().for_each(Link::heal);
            self.made_good(fault);
        }
        self.etcd.borrow().lead(ALONE);
        let deaf = |link: &Link| link.lose(if link.parties().0 == "m0" { Way::Back } else { Way::There });
        let lost = || [sum(&peers, |marks| marks.lost)];
        self.scene.bites("leader that hears none of its peers", || peers.iter().for_each(deaf), lost);
        self.works();
        peers.iter().for_each(Link::heal);
    }

    /// Etcd's leader waits long for its disk; then the next one's fails.
    pub(super) fn bad_disks(&mut self) {
        if let Err(why) = Disk::available() {
            oarlock_testkit::skipped!("{why}: no disk was slow or failed under the crew");
            return;
        }
        let (leader, slow) = (self.etcd.borrow().leader(), Under::default());
        let begin = || slow.set(Disk::slow(self.etcd.borrow().id(leader), SLOW));
        let fault = "etcd's leader on a slow disk (300 ms a sync)";
        self.scene.bites(fault, begin, || [slow.marks()]);
        self.works();
        drop(slow);
        self.made_good(fault);

        let (leader, failing) = (self.etcd.borrow().leader(), Under::default());
        let ends = || {
            failing.set(Disk::failing(self.etcd.borrow().id(leader)));
            let said = self.etcd.borrow_mut().wait_for_end(leader);
            assert!(said.contains("input/output error"), "{said}");
        };
        self.scene.bites("etcd's leader on a failing disk (EIO)", ends, || [failing.marks()]);
        drop(failing);
        self.works();
        self.etcd.borrow_mut().restart(leader);
    }

    /// API servers evaluate policies themselves until a policy process does so again.
    pub(super) fn no_judges(&mut self) {
        self.judged("elsewhere");
        let here =
            || self.servers.each_ref().map(|server| server.said_in_log().matches("are judged here").count() as u64);
        let kill = || self.judges.iter_mut().for_each(Part::kill);
        self.scene.bites("kill -9 of all who judge by policies", kill, here);
        self.works();
        self.judges.iter_mut().for_each(Part::again);
        self.judged("elsewhere");
    }

    /// Pods get nodes, but no kubelet starts them.
    pub(super) fn no_kubelets(&mut self) {
        let kill = || self.nodes.kill();
        self.scene.bites("kill -9 of kubelets", kill, || [self.api.unbegun()]);
        self.works();
        self.nodes.again();
    }

    /// Waits until both API servers have policies judged there.
    #[track_caller]
    pub(super) fn judged(&self, place: &str) {
        for server in &self.servers {
            eventually(&format!("policies are judged {place}"), || {
                let said = server.said_in_log();
                let last = said.rsplit_once("policies are judged ").map(|(_, last)| last.starts_with(place));
                let judges = || self.judges.each_ref().map(Part::said).concat();
                if last == Some(true) { Ok(()) } else { Err(format!("{last:?}; who judges says:\n{}", judges())) }
            });
        }
    }
}
