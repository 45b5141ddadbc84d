//! The run of one seed: an API server, three schedulers, the load and faults; then the judgement.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oarlock_apiserver::{Assembly, InProcess, Server, assemble, bootstrap};
use oarlock_auth::{Authenticators, UserInfo};
use oarlock_bus::Exchange;
use oarlock_check::placement::{Rule, Rules, judge};
use oarlock_client::{Client, DeleteOptions, ListOptions};
use oarlock_runtime::shutdown::{Graces, shutdown};
use oarlock_runtime::{Gate, Options, Rng, System, clock, rng};
use oarlock_scheduler::PREEMPTION_DEADLINE;
use oarlock_schema::resource;
use oarlock_storage::MemoryLog;

use super::line::LONGEST_WAY;
use super::load;
use super::log::{Recorder, kind};
use super::member::Member;
use crate::replicas::process::assembly;

const MEMBERS: usize = 3;
/// Number of faults of one seed.
const ROUNDS: u64 = 8;
/// Number of revisions by which the slowest cache may lag; a generous bound.
const LAG: u64 = 150;
/// Number of revisions that may be written while a write is held on its way (`line`); a generous bound.
const LATE: u64 = 800;

/// Events that must have happened in a sweep.
pub(super) const SHOWN: [&str; 20] = [
    "bindings",
    "bindings proposed",
    "refusals",
    "changes told",
    "told no more",
    "preemptions",
    "preemptions proposed",
    "victims",
    "victims that took their time",
    "intruders",
    "arbiter killed",
    "member killed",
    "member ended",
    "writes held",
    "cut from the bus",
    "no bus",
    "unit taken away",
    "spread judged",
    "ports judged",
    "anti-affinity judged",
];

type Shown = BTreeMap<&'static str, u64>;

struct World {
    server: Server,
    admin: Client,
    exchange: Exchange,
    net: Gate,
    members: Vec<Member>,
    started: usize,
    shown: Shown,
}

async fn serve(system: &System) -> Server {
    let assembly = Assembly {
        // In these tests nothing makes ServiceAccounts or reports that Nodes are ready.
        disable_admission: ["ServiceAccount", "TaintNodesByCondition"].map(str::to_owned).to_vec(),
        ..assembly("api".to_owned(), Arc::new(MemoryLog::new()), oarlock_store::Options::default())
    };
    let server = assemble(system, assembly, |_| Authenticators::new()).await.unwrap();
    let own = server.clone();
    system.spawn_loop(&bootstrap::BOOTSTRAP, "main", move |ctx| bootstrap::run(ctx, own.clone())).await.unwrap();
    server.state().bootstrapped().await;
    server
}

/// Runs a seed in its universe.
pub(super) async fn run(_seed: u64) -> Shown {
    let mut rng = rng::with(Rng::fork);
    let system =
        System::start(Options { host: "api".into(), tick: Duration::from_secs(2), watchdog: None }).await.unwrap();
    let server = serve(&system).await;
    let admin = UserInfo::new("admin", ["system:masters"]);
    let admin = Client::new(Arc::new(InProcess::new(server.clone(), admin, "sim/1")));
    let net = Gate::new("net");
    let recorder = Recorder::default();
    recorder.start(&admin, &net);
    let (exchange, members) = (Exchange::new(), Vec::new());
    let mut world = World { server, admin, exchange, net, members, started: 0, shown: Shown::new() };
    load::nodes(&world.admin, 0..load::NODES, load::CORES).await;
    load::classes(&world.admin).await;
    for _ in 0..MEMBERS {
        world.start(&mut rng).await;
    }
    let mut made = 0;
    load::create(&world.admin, &mut made, load::ROOM).await;
    // Pods with constraints may fit nowhere while the nodes are full.
    world.settled("the first pods", load::ROOM / 8).await;
    for _ in 0..ROUNDS {
        let back = world.disturb(&mut rng).await;
        let gone = load::churn(&world.admin, &mut rng, 5).await;
        load::rush(&world.admin, &mut made, rng.below(6) as usize).await;
        if rng.chance(1, 2) {
            load::intrude(&world.admin, &mut made, rng.below(load::NODES as u64) as usize).await;
            world.note("intruders", 1);
        }
        load::create(&world.admin, &mut made, gone).await;
        clock::sleep(Duration::from_millis(200 + rng.below(6_000))).await;
        if rng.chance(1, 2) {
            world.bury().await;
        }
        if back {
            world.start(&mut rng).await;
        }
        world.exchange.start();
        world.members.iter().for_each(|member| world.exchange.heal(&member.identity));
    }
    // New nodes have room for every pod: zones that stay even, free ports, no pod that an anti-affinity rules out.
    load::nodes(&world.admin, load::NODES..2 * load::NODES, load::ROOM).await;
    world.bury().await;
    world.settled("every pod", 0).await;
    world.judge(&recorder).await;
    let World { members, shown, net, .. } = world;
    for member in members {
        member.end().await;
    }
    shutdown(&system, Graces::default()).await;
    net.close(Duration::from_secs(10)).await.unwrap();
    shown
}

impl World {
    fn note(&mut self, what: &'static str, count: u64) {
        *self.shown.entry(what).or_default() += count;
    }

    async fn start(&mut self, rng: &mut Rng) {
        self.started += 1;
        let host = format!("h{}", self.started);
        let member = Member::start(host, &self.server, &self.exchange, &self.net, rng.fork()).await;
        self.members.push(member);
    }

    /// Makes one fault; returns whether a process must be started because of it.
    async fn disturb(&mut self, rng: &mut Rng) -> bool {
        let arbiter = self.members.iter().position(Member::decides);
        let any = rng.below(self.members.len() as u64) as usize;
        match rng.below(6) {
            5 => {
                self.note("member ended", 1);
                let member = self.members.remove(if rng.chance(1, 2) { arbiter.unwrap_or(any) } else { any });
                self.count(&member);
                member.end().await;
                true
            }
            0 | 1 => {
                let which = if rng.chance(2, 3) { arbiter.unwrap_or(any) } else { any };
                self.note(if Some(which) == arbiter { "arbiter killed" } else { "member killed" }, 1);
                let member = self.members.remove(which);
                self.count(&member);
                member.kill(&self.exchange).await;
                true
            }
            2 => {
                let which = if rng.chance(1, 2) { arbiter.unwrap_or(any) } else { any };
                self.exchange.cut(&self.members[which].identity);
                self.note("cut from the bus", 1);
                false
            }
            3 => {
                self.exchange.stop();
                self.note("no bus", 1);
                false
            }
            _ => {
                let unit = if rng.chance(1, 2) { "arbiter".to_owned() } else { format!("shards-{}", rng.below(16)) };
                let units = resource("oarlock.dev", "v1", "assignments").unwrap();
                match self.admin.delete(units, "", &unit, DeleteOptions::default()).await {
                    Ok(_) => self.note("unit taken away", 1),
                    Err(status) => assert!(status.is_not_found(), "{status}"),
                }
                false
            }
        }
    }

    /// Adds the events that a scheduler has published.
    fn count(&mut self, member: &Member) {
        let seen = member.seen();
        let sum = |counts: &serde_json::Value| {
            counts.as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum::<u64>()
        };
        self.note("bindings", seen["bound"].as_u64().unwrap_or(0));
        self.note("bindings proposed", seen["proposals"]["bound"].as_u64().unwrap_or(0));
        self.note("refusals", sum(&seen["refused"]));
        let pods = member.reflector("pods");
        self.note("changes told", pods["told"].as_u64().unwrap_or(0));
        self.note("told no more", pods["untold"].as_u64().unwrap_or(0));
        self.note("preemptions", seen["preemptions"].as_u64().unwrap_or(0));
        self.note("preemptions proposed", seen["proposals"]["nominated"].as_u64().unwrap_or(0));
        self.note("victims", seen["preemptionVictims"].as_u64().unwrap_or(0));
        self.note("writes held", member.held());
    }

    async fn bury(&mut self) {
        let gone = load::bury(&self.admin).await as u64;
        self.note("victims that took their time", gone);
    }

    /// Waits until at most this many pods are without a node; terminating pods are deleted meanwhile.
    async fn settled(&mut self, what: &str, most: usize) {
        let deadline = clock::after(Duration::from_secs(900));
        loop {
            let pods = load::pods(&self.admin).await;
            let waiting: Vec<_> = pods.iter().filter(|(_, node)| node.is_none()).map(|(name, _)| name).collect();
            if waiting.len() <= most {
                return;
            }
            if deadline.passed() {
                load::show(&self.admin).await;
            }
            let seen = || self.members.iter().map(|member| (&member.host, member.all())).collect::<Vec<_>>();
            assert!(!deadline.passed(), "{what}: {waiting:?} have no node; {:?}", seen());
            clock::sleep(Duration::from_millis(250)).await;
            self.bury().await;
        }
    }

    async fn judge(&mut self, recorder: &Recorder) {
        let mut last = Vec::new();
        for plural in ["nodes", "pods"] {
            let items = self.admin.list(kind(plural), "", ListOptions::default()).await.unwrap().items;
            last.push(items.iter().map(|item| item.revision).max().unwrap_or_default());
        }
        let log = recorder.log([last[0], last[1]]).await;
        let findings = judge(&log, &Rules { lag: LAG, late: LATE, ..Rules::default() });
        if let (Ok(file), false) = (std::env::var("OARLOCK_LOG"), findings.broken.is_empty()) {
            let text: Vec<String> = log.lines().map(|line| serde_json::to_string(line).unwrap()).collect();
            std::fs::write(file, text.join("\n")).unwrap();
        }
        assert!(findings.broken.is_empty(), "{}", findings.show(10));
        for mark in &findings.late {
            // A preemption sends its writes while its deadline lasts, and each may be held on its way.
            let delay = recorder.delay(mark);
            assert!(delay <= PREEMPTION_DEADLINE + LONGEST_WAY, "{mark:?} came {delay:?} after its nomination ended");
        }
        let full = findings.fullest.values().filter(|fullest| **fullest >= 100).count();
        assert!(full * 4 >= load::NODES * 3, "only {full} nodes were ever full");
        for member in std::mem::take(&mut self.members) {
            self.count(&member);
            self.members.push(member);
        }
        self.note("bindings in the log", findings.bindings);
        self.note("excused", findings.excused);
        self.note("late marks", findings.late.len() as u64);
        let asked = |rule| findings.asked.get(&rule).copied().unwrap_or(0);
        self.note("victims in the log", asked(Rule::Victims));
        self.note("bindings beside the nominated", asked(Rule::Nominated));
        self.note("spread judged", asked(Rule::Spread));
        self.note("ports judged", asked(Rule::Ports));
        self.note("anti-affinity judged", asked(Rule::AntiAffinity));
    }
}
