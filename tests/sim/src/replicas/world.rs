//! The run of one seed: replicas, clients, watches and faults; then the judgement.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use oarlock_check::{Report, Rule};
use oarlock_client::{Call, Request, WriteOptions, decode};
use oarlock_runtime::{Gate, Rng, rng};
use oarlock_storage::testing::faulty::Faults;

use super::client::Client;
use super::history::Recorder;
use super::nemesis::{self, FAULTS, Fault};
use super::objects::{PLURALS, prefix, row};
use super::replica::{Answer, Replica};
use super::truth::Truth;
use super::watcher::Watcher;
use super::wire::Marks;

const CLIENTS: u64 = 4;
const CALLS: u64 = 45;
/// Watches per resource; [`Watcher::new`] gives each of them other properties.
const WATCHES: u64 = 3;
/// Tasks that make faults at the same time.
const NEMESES: u64 = 2;

/// Rates of the log's own faults, in the seeds that have them: lower than in the log's tests, because a client waits for the outcome of each unknown
/// write.
const FAULTY: Faults = Faults { lose_answer: 4, drop: 3, late: 4, refuse: 3, stall: 8, repeat: 10, compact: 1 };
const FAITHFUL: Faults = Faults { lose_answer: 0, drop: 0, late: 0, refuse: 0, stall: 0, repeat: 0, compact: 0 };

/// The state that all tasks of a seed share.
pub(super) struct World {
    pub(super) recorder: Arc<Recorder>,
    pub(super) truth: Arc<Truth>,
    pub(super) replicas: Vec<Arc<Replica>>,
    pub(super) marks: Arc<Marks>,
    /// Whether no more faults are to begin.
    pub(super) enough: AtomicBool,
    /// The revision after which the watches of each resource may end; 0 while unknown.
    pub(super) last: Vec<AtomicU64>,
    /// Number of refusals whose reason is not the state of an object.
    pub(super) others: AtomicU64,
}

/// The observations of one seed.
#[derive(Debug)]
pub(super) struct Shown {
    /// How often each fault had an effect.
    pub(super) marks: BTreeMap<&'static str, u64>,
    /// How often the checker applied each rule.
    pub(super) asked: BTreeMap<Rule, u64>,
}

/// Runs a seed in its universe.
pub(super) async fn run(seed: u64) -> Shown {
    let mut rng = rng::with(Rng::fork);
    let (net, people) = (Gate::new("net"), Gate::new("people"));
    let world = Arc::new(World::new(&mut rng, &net).await);
    join_all(world.replicas.iter().map(|replica| replica.start())).await;
    world.make_namespace().await;

    let watchers: Vec<_> = (0..PLURALS.len() as u64 * WATCHES)
        .map(|number| {
            let index = (number / WATCHES) as usize;
            let own = rng.fork();
            let watcher = Watcher::new(Arc::clone(&world), PLURALS[index], index, number % WATCHES, own);
            people.spawn("watcher", watcher.run()).unwrap()
        })
        .collect();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let client = Client::new(Arc::clone(&world), format!("c{number}"), rng.fork());
            people.spawn("client", client.run(CALLS)).unwrap()
        })
        .collect();
    let menu = menu(&mut rng);
    let nemeses = (0..NEMESES).map(|_| nemesis::run(Arc::clone(&world), menu.clone(), rng.fork()));
    let nemeses = join_all(nemeses.collect::<Vec<_>>());
    let calls = async {
        for client in clients {
            client.await.unwrap();
        }
        world.enough.store(true, Ordering::Relaxed);
    };
    futures::join!(calls, nemeses);
    world.finish(rng.fork()).await;
    for watcher in watchers {
        watcher.await.unwrap();
    }
    world.truth.close(PLURALS.map(prefix).to_vec());
    world.judge(seed)
}

/// Draws the seed's selection of faults; the others are left out, so that each fault can act for longer.
fn menu(rng: &mut Rng) -> Vec<Fault> {
    let mut menu = FAULTS.to_vec();
    rng.shuffle(&mut menu);
    menu.truncate(2 + rng.below(5) as usize);
    menu
}

impl World {
    async fn new(rng: &mut Rng, net: &Gate) -> Self {
        let (recorder, marks) = (Arc::new(Recorder::new()), Arc::new(Marks::default()));
        let truth = Arc::new(Truth::new(Arc::clone(&recorder)).await);
        let faults = if rng.chance(1, 2) { FAULTY } else { FAITHFUL };
        let count = 2 + rng.below(2);
        let replica = |number| {
            let name = format!("r{number}");
            Arc::new(Replica::new(name, rng, Arc::clone(&truth), faults, net.clone(), Arc::clone(&marks)))
        };
        let replicas = (0..count).map(replica).collect();
        let last = PLURALS.iter().map(|_| AtomicU64::new(0)).collect();
        let (enough, others) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { recorder, truth, replicas, marks, enough, last, others }
    }

    /// Makes the namespace of all objects.
    async fn make_namespace(&self) {
        let namespaces = row("namespaces");
        let namespace = decode(namespaces.ty, br#"{"metadata":{"name":"default"}}"#).unwrap();
        let request = Request {
            resource: namespaces,
            subresource: "",
            namespace: "".into(),
            name: "".into(),
            call: Call::Create(namespace, WriteOptions::default()),
            fence: None,
            timeout: Duration::from_secs(3),
        };
        loop {
            match self.replicas[0].call(request.clone()).await {
                Answer::Replied(Ok(_)) => return,
                Answer::Replied(Err(status)) if status.is_already_exists() => return,
                Answer::Replied(Err(status)) if status.code < 500 => panic!("{status}"),
                _ => {}
            }
        }
    }

    /// Waits until every replica reads again, makes the last writes and announces their revisions.
    async fn finish(self: &Arc<Self>, mut rng: Rng) {
        for replica in &self.replicas {
            replica.log.calm();
            assert!(replica.is_running());
        }
        let mut last = Client::new(Arc::clone(self), "last".to_owned(), rng.fork());
        for (plural, revision) in PLURALS.iter().zip(&self.last) {
            revision.store(last.final_write(plural).await, Ordering::Relaxed);
            // A watcher that received the first of the two writes before it was known to be the last is woken by the second.
            last.final_write(plural).await;
        }
        for replica in &self.replicas {
            for (fault, times) in replica.log.fault_counts().all() {
                self.marks.note(fault, times);
            }
        }
    }

    fn judge(&self, seed: u64) -> Shown {
        let history = self.recorder.read();
        let report: Report = oarlock_check::check(&history);
        if !report.violations.is_empty() {
            let path = self.recorder.keep(seed);
            panic!("seed {seed}: {}\nthe history is {}", report.show(&history, 3), path.display());
        }
        assert_eq!(self.others.load(Ordering::Relaxed), 0, "calls were refused for other reasons than the state");
        let asked = Rule::OF_CLIENTS.into_iter().map(|rule| (rule, report.checked(rule))).collect();
        Shown { marks: self.marks.all(), asked }
    }
}
