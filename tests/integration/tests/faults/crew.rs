//! Everything at once, and at work: two API servers over three members of etcd, two controller managers, two schedulers, two cloud controller managers before
//! one cloud, two processes that judge by policies, simulated nodes and a bus of three servers serve users, while one after the other of them is killed,
//! stopped, cut off, or restarted as in an upgrade; and in a run of its own while links, members of etcd and their disks are bad.
//!
//! After each fault C1 holds, on the way to which nothing stands still for [`HEALED`], and the cloud has what Services want, each of it done once (X1). In the end the log judges: what recorded
//! clients saw (W1 to W7), that each fenced write lies within its epoch (F1), and that pods were placed as they may be (S1).

mod api;
mod part;
mod strikes;
mod users;
mod ways;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use oarlock_check::effects::What;
use oarlock_check::history::Line;
use oarlock_check::{Rule, placement, workloads};
use oarlock_testkit::chaos::{Chaos, Link};
use oarlock_testkit::nats::Nats;
use oarlock_testkit::wait::{Deadline, Progress, pause};
use oarlock_testkit::workload::{Collection, Workload};
use oarlock_testkit::{Cluster, Etcd, Signal, port};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;

use self::api::Api;
use self::part::Part;
use self::users::{FORBIDDEN, Users};
use super::claims::{self, claims};
use super::truth::{EtcdHistory, placed};
use super::{API_ONLY, Scene, address, revive, servers, ways};
use crate::cloud::{self, FakeCloud};
use crate::crew::UNITS;

const ALL: [usize; 3] = [0, 1, 2];
/// Limit of a pause in recovery: after a fault is healed, the number of violations must fall again within this time, until it is zero. The whole
/// recovery has no limit, because it takes longer on a slow machine; no single wait is that long (a Lease is valid for 15 s).
const HEALED: Duration = Duration::from_secs(30);
/// Number of revisions by which the arbiter's knowledge of other clients may lag: the writes of some hundred milliseconds.
const LAG: u64 = 300;

/// The processes that hold units, by role.
const MANAGERS: usize = 0;
const SCHEDULERS: usize = 1;
const CLOUDS: usize = 2;
/// The time between the cloud's read and its effect: long enough for a fault of the caller.
const PACE: Duration = Duration::from_secs(2);

/// Everything that runs.
struct Fleet {
    scene: Scene,
    workload: Workload,
    at_work: AtWork,
    api: Api,
    etcd: RefCell<Etcd>,
    truth: EtcdHistory,
    servers: [Cluster; 2],
    /// For each server, the link of the recorded clients and the link of all others.
    links: [[Link; 2]; 2],
    /// The first server's link to etcd.
    ways: Vec<Link>,
    buses: Vec<Nats>,
    crew: [[Part; 2]; 3],
    judges: [Part; 2],
    /// The keys with which API servers and admission processes prove their identity to each other.
    _keys: TempDir,
    cloud: FakeCloud,
    nodes: Part,
    /// A node that takes naps, but not while this is locked.
    napping: Arc<Mutex<Part>>,
    /// Each fault, and the time until it was made good.
    healed: Vec<(&'static str, f64)>,
    network: Chaos,
}

/// Users, and a node that naps among them; they go home with this value.
struct AtWork {
    users: Arc<Users>,
    threads: Vec<JoinHandle<()>>,
}

/// A fault.
type Strike = fn(&mut Fleet);

impl AtWork {
    fn start(users: Users, napping: &Arc<Mutex<Part>>) -> Self {
        let users = Arc::new(users);
        let work = Arc::clone(&users);
        let (others, node) = (Arc::clone(&users), Arc::clone(napping));
        let nap = move || {
            while others.go_on(5) {
                let node = node.lock();
                node.signal(Signal::STOP);
                others.go_on(5);
                node.signal(Signal::CONT);
            }
        };
        let users_work = std::thread::Builder::new().name("users".to_owned()).spawn(move || work.run());
        let node_naps = std::thread::Builder::new().name("nap".to_owned()).spawn(nap);
        Self { users, threads: vec![users_work.unwrap(), node_naps.unwrap()] }
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.users.end();
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "users have failed");
        }
    }
}

/// Credentials for the bus, whose servers ask for none; answers of judges count with a signature all the same.
fn keys() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new(oarlock_testkit::oarlock()).arg("keys").arg("--data-dir").arg(folder.path()).status();
    assert!(made.unwrap().success());
    folder
}

/// Three servers of one bus.
fn buses() -> Result<Vec<Nats>, String> {
    let ports = ALL.map(|_| port::own());
    let routes = ports.map(|port| format!("\"nats://127.0.0.1:{port}\"")).join(", ");
    let start = |(at, port): (usize, u16)| {
        let cluster = format!("name: crew, listen: \"127.0.0.1:{port}\", routes: [{routes}]");
        Nats::start(&format!("server_name: s{at}\ncluster {{ {cluster} }}\n"))
    };
    ports.into_iter().enumerate().map(start).collect()
}

impl Fleet {
    /// Starts everything and waits until it works; the reason if it cannot run here.
    fn start(name: &str, units: usize) -> Result<Self, String> {
        let network = Chaos::new();
        let etcd = Etcd::linked(ALL.len(), &network)?;
        let buses = buses()?;
        let urls = buses.iter().map(Nats::url).collect::<Vec<_>>().join(",");
        let keys = keys();
        let seed = |role: &str| keys.path().join(format!("nats/{role}.seed")).display().to_string();
        let (of_servers, of_judges) = (seed("api-server"), seed("admission"));
        let [of_a, of_b] = ["a", "b"].map(|server| ways(&network, server, &etcd, &ALL));
        let more = [
            "--log",
            &format!("{},oarlock_store::feeder=debug", claims::LOG),
            "--nats-servers",
            &urls,
            "--nats-credentials",
            &of_servers,
        ];
        let one = Cluster::up(&[[servers(&of_a).as_str()].as_slice(), &API_ONLY, &more].concat());
        let two = one.replica(&[[servers(&of_b).as_str()].as_slice(), &more].concat());
        let mut scene = Scene::new(name, &one);
        scene.options.collections = vec![Collection::secrets("recorded")];
        // Few clients, because the crew works at the same time.
        scene.options.clients = 3;
        let ((to_a, a), (to_b, b)) = (scene.link("a", &one), scene.link("b", &two));
        let crew = [("a", &one), ("b", &two)].map(|(name, server)| scene.chaos.link("crew", name, address(server)));
        let api = Api::new([(&a, &crew[0]), (&b, &crew[1])].map(|(way, link)| way.http.at(link.address())));
        api.create("/api/v1/namespaces", &json!({"metadata": {"name": "recorded"}}));

        let at: Vec<String> = crew.iter().map(|link| format!("https://{}", link.address())).collect();
        let part = |name: &'static str, more: &[&str]| {
            let kubeconfig = one.data_dir().component_kubeconfig(name).display().to_string();
            let at = at.join(",");
            let mut words = vec!["--kubeconfig", &kubeconfig, "--server", &at];
            // Simulated nodes are not members of the bus: each would need its own credential.
            words.extend(if name == "kubelet" { vec![] } else { vec!["--nats-servers", &urls] });
            Part::start(name, words.iter().chain(more).map(|word| (*word).to_owned()).collect())
        };
        let data = one.data_dir().root().display().to_string();
        let sim = ["--runtime", "sim", "--data-dir", &data];
        let cloud = FakeCloud::start();
        cloud.with(|cloud| cloud.pace = PACE);
        let endpoint = ["--cloud-provider-endpoint", &cloud.url()];
        let roles = [("controller-manager", &[][..]), ("scheduler", &[]), ("cloud-controller-manager", &endpoint)];
        let crew_parts = roles.map(|(name, more)| [(); 2].map(|()| part(name, more)));
        // Admission processes need no API server to evaluate policies.
        let judge = ["--nats-servers", &urls, "--nats-credentials", &of_judges].map(str::to_owned);
        let judges = [(); 2].map(|()| Part::start("admission", judge.to_vec()));
        let nodes = part("kubelet", &[&sim[..], &["--count", "3"]].concat());
        let napping = Arc::new(Mutex::new(part("kubelet", &[&sim[..], &["--node-name", "napping"]].concat())));
        let fleet = Self {
            workload: scene.start(vec![a, b]),
            at_work: AtWork::start(Users::new(api.clone()), &napping),
            scene,
            api,
            truth: EtcdHistory::of(etcd.ports(0).0),
            etcd: RefCell::new(etcd),
            servers: [one, two],
            links: [[to_a, crew[0].clone()], [to_b, crew[1].clone()]],
            ways: of_a,
            buses,
            crew: crew_parts,
            judges,
            _keys: keys,
            cloud,
            nodes,
            napping,
            healed: Vec::new(),
            network,
        };
        crate::crew::shared_of(|| fleet.api.units(), units, 2, 2);
        fleet.judged("elsewhere");
        Ok(fleet)
    }

    /// Waits until every unit has its regular holder.
    fn balanced(&self) {
        crate::crew::shared(|| self.api.units(), 2, 2);
    }

    /// Users and recorded clients get on.
    #[track_caller]
    fn works(&self) {
        self.workload.goes_on(20, 5);
        self.at_work.users.go_on(6);
    }

    #[track_caller]
    fn works_for(&self, time: Duration) {
        let over = Deadline::after(time);
        while !over.passed() {
            self.workload.goes_on(20, 5);
            self.at_work.users.go_on(2);
        }
    }

    /// C1: without further faults, every workload reaches its spec.
    #[track_caller]
    fn made_good(&mut self, fault: &'static str) {
        // The locks are taken in this order, because the holder of `napping` waits for the users.
        let node = self.napping.lock();
        let rest = self.at_work.users.rest();
        let (began, mut progress) = (self.scene.recorder.now(), Progress::with_patience(HEALED));
        let (mut fewest, mut last) = (usize::MAX, String::new());
        loop {
            let state = self.api.state();
            let wrong = workloads::judge(&state, rest.wanted());
            let left = self.left_to_the_cloud(&state.services);
            if wrong.is_empty() && left.is_empty() {
                break;
            }
            // The number may rise, because pods that are being created count as wrong.
            fewest = fewest.min(wrong.len() + left.len());
            last = wrong.iter().map(ToString::to_string).chain(left).map(|wrong| wrong + "\n").collect();
            assert!(!progress.stalled(fewest), "C1 after {fault}: {progress}:\n{last}");
            pause();
        }
        drop((rest, node));
        let took = (self.scene.recorder.now() - began) as f64 / 1e9;
        eprintln!("{fault}: made good in {took:.1} s; what was wrong last:\n{last}");
        self.healed.push((fault, took));
        self.truth.read_on();
    }

    /// X1: what the cloud has not yet done of what these Services want.
    #[track_caller]
    fn left_to_the_cloud(&self, services: &[Value]) -> Vec<String> {
        cloud::left(&self.cloud, &cloud::wanted(services, &self.api.nodes()))
    }

    /// Makes one fault after the other, and heals each.
    fn struck(&mut self, strikes: &[(Strike, &'static str)]) {
        for (strike, fault) in strikes {
            strike(self);
            self.made_good(fault);
        }
    }

    /// Returns the index of the member of a role that holds a unit.
    fn holder(&self, role: usize, unit: &str) -> usize {
        let (member, _) = self.api.units()[unit].clone();
        let found = self.crew[role].iter().position(|part| part.is(&member));
        found.unwrap_or_else(|| panic!("nobody says that it is {member}"))
    }

    /// Does something to an API server after which it does not run, and starts it again.
    fn api_server(&mut self, fault: &'static str, at: usize, act: fn(&mut Cluster)) {
        let (server, links) = (&mut self.servers[at], &self.links[at]);
        self.scene.bites(fault, || act(server), || [links[0].marks().broken, links[1].marks().broken]);
        self.works();
        revive(&mut self.servers[at], &self.links[at][0]);
        self.links[at][1].retarget(address(&self.servers[at]));
    }

    /// Makes a fault that ends the member of a role that holds a unit, and starts that member again.
    fn member(&mut self, fault: &'static str, (role, at): (usize, usize), unit: &str, act: fn(&mut Part)) {
        let (part, api) = (&mut self.crew[role][at], &self.api);
        self.scene.bites(fault, || act(part), || [api.epoch(unit)]);
        self.works();
        self.crew[role][at].again();
    }

    /// Judges the history of the clients against the log, and the log itself; fails if the cloud's unit has moved fewer than `moves` times.
    fn judge(self, moves: usize) {
        let Self { scene, workload, at_work, truth, servers, healed, cloud, crew, judges, nodes, napping, .. } = self;
        drop(at_work);
        // All processes get SIGTERM at once and while an API server answers; otherwise each would wait for servers that have ended.
        let parts = crew.as_flattened().iter().chain(&judges).chain([&nodes]);
        parts.for_each(|part| part.signal(Signal::TERM));
        napping.lock().signal(Signal::TERM);
        let tell = || {
            let said = servers.iter().flat_map(|server| claims(&server.said_in_log()));
            said.for_each(|claim| scene.recorder.write(&Line::Claim(claim)));
        };
        let report = scene.judge(workload, tell, &truth);
        assert!(report.checked(Rule::F1) > 0, "void: nothing was written under a claim");
        let mut pods = Vec::new();
        truth.changes(|change| {
            assert!(!change.key.contains(&format!("/{FORBIDDEN}")), "a policy forbids {}", change.key);
            pods.extend(placed(&change.key, change.revision, change.value.as_deref()));
        });
        let findings =
            placement::judge(&placement::Log::of(pods), &placement::Rules { lag: LAG, ..Default::default() });
        println!("{}", findings.show(10));
        assert!(findings.broken.is_empty(), "{}", findings.show(10));
        let asked = [
            placement::Rule::Resources,
            placement::Rule::Ports,
            placement::Rule::AntiAffinity,
            placement::Rule::Spread,
        ];
        let unasked: Vec<_> = asked.iter().filter(|rule| !findings.asked.contains_key(rule)).collect();
        assert!(unasked.is_empty(), "void: nobody asked for {unasked:?}");
        let effects = cloud.with(|cloud| cloud.effects.clone());
        let count = |what| effects.iter().filter(|effect| effect.what == what).count();
        let done = [What::Made, What::Changed, What::Removed].map(count);
        let epochs: BTreeSet<u64> = effects.iter().map(|effect| effect.epoch).collect();
        println!("X1: made, changed, removed {done:?} under {} epochs", epochs.len());
        assert!(done.iter().all(|count| *count > 0), "void: {done:?}");
        assert!(epochs.len() > moves, "void: only {epochs:?}");
        let table: Vec<String> = healed.iter().map(|(fault, took)| format!("{fault:<45} {took:>5.1} s")).collect();
        println!("from the healing of a fault to C1:\n{}", table.join("\n"));
    }
}

/// Runs a crew under these faults, after the death of an API server, of a controller manager and of the arbiter; `moves` of the faults move the
/// cloud's unit.
fn served_through(scene: &'static str, faults: &[(Strike, &'static str)], moves: usize) {
    let Ok(mut fleet) =
        Fleet::start(scene, UNITS).map_err(|why| oarlock_testkit::skipped!("{why}: the crew was not tried"))
    else {
        return;
    };
    fleet.works();
    fleet.made_good("nothing");

    let fault = "kill -9 of an API server";
    fleet.api_server(fault, 0, Cluster::kill);
    fleet.made_good(fault);

    for (role, unit, fault) in [
        (MANAGERS, "coordinator-controllers", "kill -9 of a controller manager"),
        (SCHEDULERS, "arbiter", "kill -9 of whoever decides"),
    ] {
        let at = fleet.holder(role, unit);
        fleet.member(fault, (role, at), unit, Part::kill);
        fleet.made_good(fault);
    }
    fleet.struck(faults);
    fleet.judge(moves);
}

#[test]
fn users_are_served_through_a_loss_of_each_kind() {
    let faults: [(Strike, &str); 4] = [
        (Fleet::leader, "kill -9 of etcd's leader"),
        (Fleet::cut_off, "a compaction behind an API server's back"),
        (Fleet::sleeper, "SIGSTOP of whoever decides"),
        (Fleet::cloud_killed, "kill -9 of whoever speaks to the cloud"),
    ];
    served_through("crew-short", &faults, 1);
}

#[test]
fn users_are_served_through_the_loss_of_anything() {
    let faults: [(Strike, &str); 11] = [
        (Fleet::leader, "kill -9 of etcd's leader"),
        (Fleet::cut_off, "a compaction behind an API server's back"),
        (Fleet::sleeping_server, "SIGSTOP of an API server"),
        (Fleet::sleeper, "SIGSTOP of whoever decides"),
        (Fleet::cloud_killed, "kill -9 of whoever speaks to the cloud"),
        (Fleet::cloud_sleeper, "SIGSTOP of whoever speaks to the cloud"),
        (Fleet::no_judges, "kill -9 of all who judge"),
        (Fleet::no_kubelets, "kill -9 of kubelets"),
        (Fleet::no_bus, "no bus"),
        (Fleet::upgrade, "an upgrade"),
        (Fleet::flapping, "a node that comes and goes"),
    ];
    served_through("crew", &faults, 2);
}

/// Names the executable of an older commit.
const OLDER: &str = "OARLOCK_OLDER";
/// Units of controllers in 3759c99.
const OLDER_UNITS: usize = 19;

#[test]
#[ignore = "needs the executable of an older commit: cargo xtask older"]
fn users_are_served_from_an_older_build_to_todays_and_one_step_back() {
    let older: std::path::PathBuf = std::env::var_os(OLDER).unwrap_or_else(|| panic!("{OLDER} is not set")).into();
    let today = oarlock_testkit::oarlock();
    let of_build = |executable: &std::path::Path| oarlock_testkit::replace_oarlock(Some(executable.to_owned()));
    of_build(&older);
    let Ok(mut fleet) =
        Fleet::start("crew-older", OLDER_UNITS).map_err(|why| oarlock_testkit::skipped!("{why}: no crew was upgraded"))
    else {
        return;
    };
    fleet.works();
    fleet.made_good("nothing");
    for (executable, change) in
        [(&today, "an upgrade to today's build"), (&older, "one step back"), (&today, "and again")]
    {
        of_build(executable);
        fleet.upgrade();
        fleet.made_good(change);
    }
    fleet.judge(2);
}

#[test]
fn users_are_served_over_bad_links_members_and_disks() {
    let Ok(mut fleet) = Fleet::start("crew-ways", UNITS)
        .map_err(|why| oarlock_testkit::skipped!("{why}: the crew's ways were not tried"))
    else {
        return;
    };
    fleet.works();
    fleet.made_good("nothing");
    fleet.bad_links();
    fleet.struck(&[
        (Fleet::held_from_etcd, "links to etcd held"),
        (Fleet::own_member, "kill -9 of an API server's member of etcd"),
        (Fleet::no_majority, "SIGSTOP of all members of etcd but one"),
        (Fleet::isolated_member, "leader that hears none of its peers"),
        (Fleet::bad_disks, "etcd's leader on a failing disk"),
    ]);
    fleet.judge(0);
}
