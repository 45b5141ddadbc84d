//! The faults of the processes in the scene `crew`.

use std::cell::Cell;
use std::time::Duration;

use oarlock_testkit::Signal;
use oarlock_testkit::chaos::Link;
use oarlock_testkit::nats::Nats;
use oarlock_testkit::wait::{Deadline, eventually};
use serde_json::json;

use super::part::Part;
use super::users::Pause;
use super::{ALL, CLOUDS, Fleet, MANAGERS, SCHEDULERS};

/// Time for which the process with the arbiter is stopped.
const SLEEP: Duration = Duration::from_secs(20);
/// Time for which the bus is unreachable: four times the duration of a Lease.
const NO_BUS: Duration = Duration::from_secs(60);
/// Number of times that a node leaves and returns while the bus works, besides once without the bus.
const FLAPS: usize = 2;
/// The processes that use the bus.
const ALL_PARTS: usize = 6;

impl Fleet {
    /// Etcd chooses another leader.
    pub(super) fn leader(&mut self) {
        let leader = self.etcd.borrow().leader();
        let others = (leader + 1) % ALL.len();
        let term = || [self.etcd.borrow().status(others)["raftTerm"].as_u64().unwrap()];
        self.scene.bites("kill -9 of etcd's leader", || self.etcd.borrow_mut().kill(leader), term);
        self.works();
        self.etcd.borrow_mut().restart(leader);
    }

    /// An API server receives nothing of the store, which compacts meanwhile what the server has missed.
    pub(super) fn cut_off(&mut self) {
        let cut = || [self.ways.iter().map(|way| way.marks().cut).sum::<u64>()];
        self.scene.bites("API server cut off from etcd", || self.ways.iter().for_each(Link::cut), cut);
        self.works();
        // The recorder has read all revisions before they are compacted.
        let (at, through) = (self.scene.recorder.now(), self.truth.changes(|_| ()));
        let _said = self.etcd.borrow().ctl(0, &["compaction", &through.to_string()]);
        let overtaken = || [self.servers[0].said_in_log().matches("is compacted").count() as u64];
        self.scene.bites("healed after a compaction", || self.ways.iter().for_each(Link::heal), overtaken);
        // The server has loaded the state anew, so it has no history before this revision, even where etcd still has.
        let newest = self.etcd.borrow().status(0)["header"]["revision"].as_u64().unwrap();
        self.scene.recorder.write(&json!({"line": "floor", "revision": newest, "at": at}));
    }

    /// An API server is stopped, and its first answers after that are old.
    pub(super) fn sleeping_server(&mut self) {
        let seen = || [self.workload.counts().marks()];
        self.scene.bites("SIGSTOP of an API server for 20 s", || self.servers[1].signal(Signal::STOP), seen);
        self.works_for(SLEEP);
        self.servers[1].signal(Signal::CONT);
    }

    /// The arbiter is stopped for longer than its Lease is valid, and then continues to decide.
    pub(super) fn sleeper(&mut self) {
        let at = self.holder(SCHEDULERS, "arbiter");
        let sleeper = &self.crew[SCHEDULERS][at];
        let epoch = || [self.api.epoch("arbiter")];
        self.scene.bites("SIGSTOP of whoever decides, for 20 s", || sleeper.signal(Signal::STOP), epoch);
        self.works_for(SLEEP);
        sleeper.signal(Signal::CONT);
    }

    /// Returns the holder of the cloud's unit while exactly one call is in flight and no other work is queued; users pause meanwhile.
    fn calling(&self) -> (Pause<'_>, usize) {
        let mut rest = self.at_work.users.rest();
        eventually("the cloud has what Services want", || {
            let left = self.left_to_the_cloud(&self.api.state().services);
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
        });
        let name = rest.balanced(&self.api);
        eventually("the cloud is called", || {
            let open = self.cloud.with(|cloud| cloud.open.clone());
            let found = open.iter().any(|(method, service, _)| *method == "ensure" && *service == name);
            if found { Ok(()) } else { Err(format!("{open:?}")) }
        });
        let at = self.holder(CLOUDS, "cloud");
        (rest, at)
    }

    /// Kills the holder of the cloud's unit; the cloud completes its calls, whichever member repeats them.
    pub(super) fn cloud_killed(&mut self) {
        let (_, at) = self.calling();
        self.member("kill -9 of whoever speaks to the cloud", (CLOUDS, at), "cloud", Part::kill);
    }

    /// The caller of the cloud is stopped until another process calls the cloud, and wakes with work left.
    pub(super) fn cloud_sleeper(&mut self) {
        let (rest, at) = self.calling();
        let sleeper = &self.crew[CLOUDS][at];
        let stop = || {
            // The holder is not stopped between its check of the clock and the send; only chance protects a process stopped there
            // (docs/operations/cloud.md).
            sleeper.signal(Signal::STOP);
            drop(rest);
        };
        self.scene.bites("SIGSTOP of whoever speaks to the cloud", stop, || [self.api.epoch("cloud")]);
        self.works();
        sleeper.signal(Signal::CONT);
    }

    /// No member receives a message: no unit moves, no request fails, and all work continues, also when a node is lost.
    pub(super) fn no_bus(&mut self) {
        self.balanced();
        let before = self.api.units();
        let crew = self.crew.as_flattened();
        let told = |what| std::array::from_fn::<u64, ALL_PARTS, _>(|at| crew[at].told(what));
        let (lonely, heard) = (|| told("hears nobody"), || told("hears the others"));
        let (before_that, unanswered) = (heard(), self.workload.counts().marks());
        self.scene.bites(
            "all servers of the bus killed, for 60 s",
            || self.buses.iter_mut().for_each(Nats::kill),
            lonely,
        );
        let over = Deadline::after(NO_BUS);
        self.flaps(&self.napping.lock());
        while !over.passed() {
            self.works();
        }
        assert_eq!(self.api.units(), before, "nobody can be suspected");
        self.workload.counts().no_more_than(unanswered);
        self.buses.iter_mut().for_each(Nats::restart);
        eventually("all hear one another again", || {
            let now = heard();
            if now.iter().zip(before_that).all(|(now, before)| *now > before) {
                Ok(())
            } else {
                Err(format!("{now:?}"))
            }
        });
    }

    /// Shuts every process down in order and starts it again, one after the other.
    pub(super) fn upgrade(&mut self) {
        let ended = Cell::new(0_u64);
        let count = || [ended.get()];
        for member in ALL {
            let end = || {
                let mut etcd = self.etcd.borrow_mut();
                etcd.signal(member, Signal::TERM);
                let _said = etcd.wait_for_end(member);
                ended.set(ended.get() + 1);
            };
            self.scene.bites("upgrade: a member of etcd", end, count);
            self.works();
            self.etcd.borrow_mut().restart(member);
        }
        for at in [0, 1] {
            self.api_server("upgrade: an API server", at, |server| assert_eq!(server.stop(), Some(0)));
        }
        for (role, unit, fault) in [
            (MANAGERS, "controllers-0", "upgrade: a controller manager"),
            (SCHEDULERS, "arbiter", "upgrade: a scheduler"),
            (CLOUDS, "cloud", "upgrade: a cloud controller manager"),
        ] {
            // The fault strikes the current holder and then its successor.
            for _ in 0..2 {
                let at = self.holder(role, unit);
                self.member(fault, (role, at), unit, Part::end);
            }
        }
        let mut node = self.napping.lock();
        let kubelets = [&mut self.nodes, &mut *node].map(|part| ("upgrade: kubelets", part));
        let judges = self.judges.iter_mut().map(|part| ("upgrade: a process that judges policies", part));
        for (fault, part) in kubelets.into_iter().chain(judges) {
            let end = || {
                part.end();
                ended.set(ended.get() + 1);
            };
            self.scene.bites(fault, end, count);
            part.again();
        }
        drop(node);
        for bus in &mut self.buses {
            let end = || {
                bus.stop();
                ended.set(ended.get() + 1);
            };
            self.scene.bites("upgrade: a server of the bus", end, count);
            bus.restart();
        }
        self.works();
    }

    /// Ends a node and starts it again.
    pub(super) fn flapping(&mut self) {
        let node = self.napping.lock();
        (0..FLAPS).for_each(|_| self.flaps(&node));
    }

    /// Stops a node until it counts as lost, and continues it.
    fn flaps(&self, node: &Part) {
        let lost = || self.api.lost_nodes();
        self.scene.bites("SIGSTOP of a node until it counts as lost", || node.signal(Signal::STOP), lost);
        self.works();
        node.signal(Signal::CONT);
        eventually("the node is believed in again", || match lost() {
            [0, 0] => Ok(()),
            lost => Err(format!("{lost:?}")),
        });
    }
}
