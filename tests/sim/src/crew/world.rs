//! The run of one seed: a server, controller managers, schedulers, users and faults; then the judgement.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use oarlock_bus::Exchange;
use oarlock_client::{Client, Event, ListOptions};
use oarlock_runtime::{Gate, Rng, clock, rng};
use oarlock_schema::views::oarlock_v1;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::daemons;
use super::door::{Door, FAITHFUL};
use super::jobs;
use super::judge::{self, Nodes, Wanted};
use super::member::{Member, Role};
use super::told::ClaimLog;
use super::users::{self, kind};
use crate::replicas::history::Recorder;
use crate::replicas::replica::Replica;
use crate::replicas::truth::Truth;
use crate::replicas::wire::{EVERYTHING, Kind, Marks, Way, Wire};

/// Limit after the last fault until everything is in order.
pub(super) const HEALED: Duration = Duration::from_secs(30);
const USERS: u64 = 2;
const CALLS: u64 = 30;
const JOBS: u64 = 8;
const DAEMON_CALLS: u64 = 12;
/// The members at the start of a seed.
const CREW: [Role; 4] = [Role::Controllers, Role::Controllers, Role::Scheduler, Role::Scheduler];
/// Duration of the long faults. Longer than a Lease, so that units move.
const LONG: Duration = Duration::from_secs(25);
/// One hour, in seconds.
const HOUR: i64 = 3600;
/// Time after a fault within which all units are where they belong, if no other fault begins: a Lease expires, then units are balanced one by one.
const AFTERMATH: Duration = Duration::from_secs(40);

/// The observations of one seed.
#[derive(Debug)]
pub(super) struct Shown {
    /// How often each fault had an effect.
    pub(super) marks: BTreeMap<&'static str, u64>,
    /// Number of writes made under a claim.
    pub(super) fenced: u64,
    /// Number of these writes that the arbiter made; almost all of them are bindings.
    pub(super) bound: u64,
}

struct World {
    server: Arc<Replica>,
    net: Gate,
    marks: Arc<Marks>,
    missing: Arc<Mutex<Vec<String>>>,
    members: Mutex<Vec<(Role, Arc<Member>)>>,
    /// The bus of the members; `None` in the seeds without a bus.
    exchange: Option<Exchange>,
    hosts: AtomicU64,
    /// Number of times that units were assigned.
    moves: AtomicU64,
    enough: Arc<AtomicBool>,
}

/// Runs a seed in its universe.
pub(super) async fn run(_: u64) -> Shown {
    let (mut rng, told) = (rng::with(Rng::fork), ClaimLog::listen());
    let (net, people) = (Gate::new("net"), Gate::new("people"));
    let marks = Arc::new(Marks::default());
    let recorder = Arc::new(Recorder::new());
    let truth = Arc::new(Truth::new(Arc::clone(&recorder)).await);
    let log = Arc::clone(&truth);
    let server = Arc::new(Replica::new("api".to_owned(), &mut rng, log, FAITHFUL, net.clone(), Arc::clone(&marks)));
    server.start().await;
    let world = Arc::new(World {
        server,
        net,
        marks,
        missing: Arc::default(),
        members: Mutex::default(),
        exchange: rng.chance(3, 4).then(Exchange::new),
        hosts: AtomicU64::new(0),
        moves: AtomicU64::new(0),
        enough: Arc::default(),
    });
    let admin = Client::new(Arc::new(world.door(&mut rng)));
    users::prepare(&admin).await;
    let watched = people.spawn("observer", world.clone().observe(admin.clone())).unwrap();
    for role in CREW {
        world.join(role, &mut rng).await;
    }
    people.spawn("kubelets", users::kubelets(admin.clone(), Arc::clone(&world.enough))).unwrap();
    let wishes: Vec<_> = (0..USERS).map(|n| users::user(admin.clone(), rng.fork(), CALLS, format!("d{n}-"))).collect();
    let work = jobs::user(admin.clone(), rng.fork(), JOBS);
    let faults = world.disturb(rng.fork());
    let daemons = daemons::user(admin.clone(), rng.fork(), DAEMON_CALLS);
    let ((), deployments, jobs, daemons) = futures::join!(faults, join_all(wishes), work, daemons);
    let wanted = Wanted { deployments: deployments.into_iter().flatten().collect(), jobs, daemons };
    world.settle(&admin, &wanted).await;
    world.enough.store(true, Ordering::Relaxed);
    watched.await.unwrap();
    let members = std::mem::take(&mut *world.members.lock());
    for (_, member) in members {
        member.end().await;
    }
    let claims = told.claims();
    let bound = claims.iter().filter(|claim| claim.unit == "arbiter").count() as u64;
    let fenced = claims.len() as u64;
    judge::fenced(&world.missing, claims, &truth, &recorder);
    let epochs = recorder.writes("oarlock.dev/assignments/");
    let moved: usize = epochs.values().map(|epochs| epochs.len().saturating_sub(1)).sum();
    world.marks.note("unit moved", moved as u64);
    Shown { marks: world.marks.all(), fenced, bound }
}

impl World {
    fn door(&self, rng: &mut Rng) -> Door {
        Door {
            server: Arc::clone(&self.server),
            wire: Arc::new(Wire::new(rng.fork(), Arc::clone(&self.marks))),
            net: self.net.clone(),
            life: CancellationToken::new(),
            missing: Arc::clone(&self.missing),
            member: false,
            marks: Arc::clone(&self.marks),
        }
    }

    async fn join(&self, role: Role, rng: &mut Rng) {
        let host = format!("h{}", self.hosts.fetch_add(1, Ordering::Relaxed));
        let member = Member::start(role.clone(), host, self.door(rng), self.exchange.as_ref()).await;
        self.members.lock().push((role, Arc::new(member)));
    }

    /// Makes one fault after the other, each at a randomly chosen member; all are over when the function returns.
    async fn disturb(&self, mut rng: Rng) {
        for _ in 0..2 + rng.below(3) {
            clock::sleep(rng.jitter(Duration::from_secs(4), 90)).await;
            let at = rng.below(self.members.lock().len() as u64) as usize;
            let (role, member) = self.members.lock()[at].clone();
            let wire = member.wire();
            let (short, long) = (rng.jitter(Duration::from_secs(3), 90), LONG);
            match rng.below(10) {
                0 | 1 => {
                    self.members.lock().remove(at);
                    self.hush(&member, true);
                    member.kill(&self.net, &self.marks);
                    clock::sleep(if rng.chance(1, 2) { short } else { long }).await;
                    self.join(role, &mut rng).await;
                }
                2 => during(wire, ("partition", EVERYTHING, Way::Lost), long).await,
                3 => during(wire, ("answers lost", &[Kind::Answer, Kind::Stream], Way::Lost), short).await,
                // The messages that the sleeping member has sent arrive when it wakes; its units have other holders by then.
                4 => {
                    self.hush(&member, true);
                    during(wire, ("asleep", EVERYTHING, Way::Held), if rng.chance(1, 2) { short } else { long }).await;
                    self.hush(&member, false);
                }
                // The member works, and no other member receives its heartbeats.
                5 => self.hushed(&member, short).await,
                // No member receives heartbeats, for longer than a Lease.
                6 => self.silence(LONG).await,
                7 => self.set_clock(if rng.chance(1, 2) { HOUR } else { -HOUR }).await,
                8 => {
                    self.members.lock().remove(at);
                    self.part(&member).await;
                    self.join(role, &mut rng).await;
                }
                _ => during(wire, ("late", EVERYTHING, Way::Late(Duration::from_secs(2))), short).await,
            }
        }
    }

    /// Shuts a member down in order, as in an upgrade: other members hold its units when it ends.
    async fn part(&self, member: &Member) {
        // Units that have just moved are not moved again.
        clock::sleep(AFTERMATH).await;
        member.end().await;
        let admin = Client::new(Arc::new(self.door(&mut rng::with(Rng::fork))));
        let units = admin.list(kind("oarlock.dev", "assignments"), "", ListOptions::default()).await.unwrap();
        let held = units.items.iter().filter(|unit| {
            let unit = unit.obj().unwrap();
            unit.view::<oarlock_v1::Assignment<'_>>().unwrap().spec().holder_identity() == member.name()
        });
        let left: Vec<_> = held.map(|unit| unit.name()).collect();
        assert!(left.is_empty(), "{} has ended with {left:?}", member.name());
        self.marks.note("ended", 1);
    }

    /// Disconnects a member from the bus, or connects it again.
    fn hush(&self, member: &Member, hush: bool) {
        let Some(exchange) = &self.exchange else { return };
        if hush {
            exchange.cut(member.identity());
        } else {
            exchange.heal(member.identity());
        }
    }

    async fn hushed(&self, member: &Member, a_while: Duration) {
        self.hush(member, true);
        clock::sleep(a_while).await;
        self.hush(member, false);
    }

    /// Makes the bus unreachable for all members; no member is suspected then.
    async fn silence(&self, a_while: Duration) {
        let Some(exchange) = &self.exchange else { return };
        self.unmoved("no bus", a_while, || exchange.stop()).await;
        exchange.start();
    }

    /// Sets the wall clock of all members forward by this many seconds, or back.
    async fn set_clock(&self, by: i64) {
        self.unmoved("clock set", LONG, || clock::set(by)).await;
    }

    /// Makes a fault that must not move any unit, and checks that none moves.
    async fn unmoved(&self, fault: &'static str, a_while: Duration, act: impl FnOnce()) {
        // Members that fell silent in an earlier fault may still lose units.
        clock::sleep(AFTERMATH).await;
        act();
        let before = self.moves.load(Ordering::Relaxed);
        clock::sleep(a_while).await;
        assert_eq!(self.moves.load(Ordering::Relaxed), before, "units moved: {fault}");
        self.marks.note(fault, 1);
    }

    /// Waits until every workload is in order.
    async fn settle(&self, admin: &Client, wanted: &Wanted) {
        let deadline = clock::after(HEALED);
        loop {
            let wrong = judge::workloads(admin, wanted).await;
            if wrong.is_empty() {
                return;
            }
            assert!(clock::now() < deadline, "C1: {HEALED:?} after the last fault: {wrong:#?}");
            clock::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Follows pods and Assignments until the seed ends and no more events arrive.
    async fn observe(self: Arc<Self>, admin: Client) {
        let (assignments, pods) = (kind("oarlock.dev", "assignments"), kind("", "pods"));
        let begin = || ListOptions { allow_bookmarks: true, ..ListOptions::default() };
        let mut nodes = Nodes::default();
        let mut moves = admin.watch(assignments, "", begin()).await.unwrap();
        let mut bound = admin.watch(pods, "", begin()).await.unwrap();
        loop {
            let events = tokio::select! {
                biased;
                events = moves.next() => events,
                events = bound.next() => events,
                () = clock::sleep(Duration::from_secs(1)) => Some(Vec::new()),
            };
            let events = events.expect("the observer's watch has ended");
            if events.is_empty() && self.enough.load(Ordering::Relaxed) {
                return;
            }
            for event in events {
                let object = match event {
                    Event::Added(object) | Event::Modified(object) => object,
                    Event::Error(status) => panic!("the observer's watch: {status}"),
                    Event::Deleted(_) | Event::Bookmark { .. } => continue,
                };
                let obj = object.obj().unwrap();
                if obj.ty() == pods.ty {
                    nodes.see(&obj, object.revision);
                } else {
                    self.moves.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

pub(super) async fn during(wire: &Wire, (fault, what, way): (&'static str, &'static [Kind], Way), a_while: Duration) {
    let cut = wire.cut(fault, what, way);
    clock::sleep(a_while).await;
    wire.heal(cut);
}
