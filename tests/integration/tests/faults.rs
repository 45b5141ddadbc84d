//! Real processes with faults: what clients saw is judged against the log (`docs/operations/histories.md`).
//!
//! A fault must have left a mark, at the clients and on the link, or its run is void.

pub(crate) mod claims;
pub(crate) mod compose;
mod crew;
mod disk;
mod embedded;
mod isolated;
mod replicated;
mod table;
pub(crate) mod truth;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use oarlock_check::history::{Call, Outcome};
use oarlock_check::{History, Report, Rule, check};
use oarlock_testkit::chaos::{Chaos, Link, LinkCounts};
use oarlock_testkit::history::Recorder;
use oarlock_testkit::http::Who;
use oarlock_testkit::wait::eventually;
use oarlock_testkit::workload::{Collection, Options, Replica, Workload};
use oarlock_testkit::{Cluster, Etcd};
use serde_json::json;

use self::table::{Bite, Silence};
use self::truth::Truth;

const API_ONLY: [&str; 2] = ["--disable", "scheduler,controller-manager,kubelet"];

/// The parts of every run: clients, a network, and a file for the history.
struct Scene {
    name: String,
    chaos: Chaos,
    recorder: Arc<Recorder>,
    history: PathBuf,
    options: Options,
    bites: RefCell<Vec<Bite>>,
    silences: RefCell<Vec<Silence>>,
}

impl Scene {
    /// Over an API server that serves.
    fn new(name: &str, server: &Cluster) -> Self {
        account(server);
        Self::over(name)
    }

    /// Over whatever serves.
    fn over(name: &str) -> Self {
        // The history file is kept as evidence for a failed check.
        let history = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.jsonl"));
        let recorder = Arc::new(Recorder::new(&history));
        let options = Options { patience: Duration::from_secs(3), ..Options::default() };
        let (bites, silences) = (RefCell::default(), RefCell::default());
        Self { name: name.to_owned(), chaos: Chaos::new(), recorder, history, options, bites, silences }
    }

    /// A link from the clients to a server, with a name.
    fn link(&self, replica: &str, server: &Cluster) -> (Link, Replica) {
        let link = self.chaos.link("clients", replica, address(server));
        let http = server.http(Who::Admin).at(link.address());
        (link, Replica { name: replica.to_owned(), http })
    }

    fn start(&self, replicas: Vec<Replica>) -> Workload {
        Workload::start(Arc::clone(&self.recorder), replicas, self.options.clone())
    }

    /// Makes a fault, and waits until every counter of its effects has grown.
    #[track_caller]
    fn bites<const N: usize>(&self, fault: &'static str, act: impl FnOnce(), marks: impl Fn() -> [u64; N]) {
        let before = marks();
        self.bites.borrow_mut().push(Bite { fault, at: self.recorder.now(), done: None });
        act();
        eventually(fault, || {
            let now = marks();
            let all = before.iter().zip(&now).all(|(before, now)| now > before);
            if all { Ok(()) } else { Err(format!("{before:?}, now {now:?}")) }
        });
    }

    /// Waits until the crew has done the work that was requested since the last fault.
    fn done(&self) {
        self.bites.borrow_mut().last_mut().expect("a fault").done = Some(self.recorder.now());
    }

    /// While something is done, a server that is asked for such a thing from now on cannot say yes.
    fn silent(&self, replica: &'static str, to: fn(&Call) -> bool, meanwhile: impl FnOnce()) {
        let from = self.recorder.now();
        meanwhile();
        self.silences.borrow_mut().push(Silence { replica, asked: to, from, to: self.recorder.now() });
    }

    /// Stops the clients, calls `end`, reads the log, and judges.
    #[track_caller]
    fn judge(&self, workload: Workload, end: impl FnOnce(), truth: &dyn Truth) -> Report {
        let ended = self.recorder.now();
        let counts = workload.finish();
        eprintln!("{counts:?}");
        end();
        let own: Vec<String> = self.options.collections.iter().map(Collection::prefix).collect();
        truth.record(&self.recorder, &own);
        let history = History::read(&[self.recorder.flushed()]).unwrap();
        let report = check(&history);
        let shown = report.show(&history, 10).to_string();
        eprintln!("{shown}");
        self.silences.borrow().iter().for_each(|silence| silence.check(&history));
        assert!(report.violations.is_empty(), "{}\n{shown}", self.history.display());
        // Not every fault leaves a write without an answer.
        let unknown = |call: &Call| table::writes(call) && call.outcome == Outcome::Unknown;
        let unknown = history.calls.iter().any(|call| unknown(&call.is));
        for rule in Rule::OF_CLIENTS.into_iter().filter(|rule| unknown || *rule != Rule::W5) {
            assert!(report.checked(rule) > 0, "nothing was shown of {rule}");
        }
        assert_eq!(counts.other.into_inner(), 0, "refusals that no state explains");
        table::append(&self.name, &self.bites.borrow(), ended, &history, &report);
        report
    }
}

/// Pods need an account, and no controller makes it here.
#[track_caller]
fn account(server: &Cluster) {
    let account = json!({"metadata": {"name": "default"}});
    let made = server.http(Who::Admin).json("POST", "/api/v1/namespaces/default/serviceaccounts", &account);
    assert!(matches!(made.code, 201 | 409), "{made}");
}

/// Restarts a killed server at its clients' address.
fn revive(server: &mut Cluster, link: &Link) {
    server.start();
    // The account is created again in case the server has lost it, so that the run goes on and the checker judges the other losses.
    account(server);
    link.retarget(address(server));
}

fn address(server: &Cluster) -> SocketAddr {
    server.http(Who::Admin).address().parse().unwrap()
}

/// The ways of one API server to some members of etcd.
fn ways(chaos: &Chaos, server: &str, etcd: &Etcd, members: &[usize]) -> Vec<Link> {
    let target = |member: usize| ([127, 0, 0, 1], etcd.ports(member).0).into();
    members.iter().map(|member| chaos.link(server, &format!("etcd-{member}"), target(*member))).collect()
}

/// Leaves an API server only its link to one member, until it uses that link; the server stays at the member afterwards.
fn only(server: &Cluster, ways: &[Link], member: usize) {
    others(ways, member).for_each(Link::cut);
    // To answer a read of the latest state, the server asks its member and waits until its own state has caught up.
    eventually("the API server is at one member", || {
        let listed = server.http(Who::Admin).get("/api/v1/namespaces");
        if listed.code == 200 { Ok(()) } else { Err(listed.to_string()) }
    });
    others(ways, member).for_each(Link::heal);
}

fn others(ways: &[Link], member: usize) -> impl Iterator<Item = &Link> {
    ways.iter().enumerate().filter(move |(way, _)| *way != member).map(|(_, way)| way)
}

/// Counts how often an API server with a single member of etcd has lost that member: a connection broke or, where both ends have closed it in order,
/// there is a connection to another member. The log cannot be counted: a tail that was lost before and has delivered nothing since is logged only
/// once.
fn lost(ways: &[Link], member: usize) -> u64 {
    let elsewhere: u64 = others(ways, member).map(|way| way.marks().connections).sum();
    sum(ways, |marks| marks.broken) + elsewhere
}

/// How often something has become of some links.
fn sum(links: &[Link], mark: fn(LinkCounts) -> u64) -> u64 {
    links.iter().map(|link| mark(link.marks())).sum()
}

/// `--etcd-servers` over these ways.
fn servers(ways: &[Link]) -> String {
    let urls: Vec<String> = ways.iter().map(|way| format!("http://{}", way.address())).collect();
    format!("--etcd-servers={}", urls.join(","))
}
