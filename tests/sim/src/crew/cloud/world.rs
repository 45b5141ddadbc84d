//! The run of one seed of `crew::cloud`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oarlock_bus::Exchange;
use oarlock_check::effects::{What, judge};
use oarlock_client::{Client, DeleteOptions, ListOptions, PatchType, WriteOptions};
use oarlock_meta::Status;
use oarlock_runtime::{Gate, Rng, clock, rng};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::provider::FakeCloud;
use crate::crew::door::{Door, FAITHFUL};
use crate::crew::judge;
use crate::crew::member::{Member, Role};
use crate::crew::told::ClaimLog;
use crate::crew::users::{self, kind, object, surely};
use crate::crew::world::during;
use crate::replicas::history::Recorder;
use crate::replicas::replica::Replica;
use crate::replicas::truth::Truth;
use crate::replicas::wire::{EVERYTHING, Marks, Way};

type Shown = BTreeMap<&'static str, u64>;

const NAMESPACE: &str = "default";
/// Duration of the long faults. Longer than a Lease.
const LONG: Duration = Duration::from_secs(25);
/// Limit after the last fault until everything is in order: a Lease that expires, and some calls that fail, each followed by its pause.
const HEALED: Duration = Duration::from_secs(120);

struct World {
    server: Arc<Replica>,
    net: Gate,
    marks: Arc<Marks>,
    missing: Arc<Mutex<Vec<String>>>,
    exchange: Exchange,
    cloud: FakeCloud,
    members: Vec<Arc<Member>>,
    started: usize,
    rng: Rng,
}

/// Runs a seed in its universe.
pub(super) async fn run(_: u64) -> Shown {
    let (mut rng, told) = (rng::with(Rng::fork), ClaimLog::listen());
    let net = Gate::new("net");
    let marks = Arc::new(Marks::default());
    let recorder = Arc::new(Recorder::new());
    let truth = Arc::new(Truth::new(Arc::clone(&recorder)).await);
    let log = Arc::clone(&truth);
    let server = Replica::new("api".to_owned(), &mut rng, log, FAITHFUL, net.clone(), Arc::clone(&marks));
    server.start().await;
    let cloud = FakeCloud::new(Gate::new("cloud"), rng.fork());
    let mut world = World {
        server: Arc::new(server),
        net,
        marks,
        missing: Arc::default(),
        exchange: Exchange::new(),
        cloud: cloud.clone(),
        members: Vec::new(),
        started: 0,
        rng,
    };
    let admin = Client::new(Arc::new(world.door()));
    users::prepare(&admin).await;
    world.join().await;
    world.join().await;
    let whims = world.rng.fork();
    let ((), wanted) = futures::join!(world.disturb(&admin), user(&admin, whims));
    let deadline = clock::after(HEALED);
    loop {
        let mut wrong = judge(&cloud.effects(), &wanted);
        wrong.extend(going(&admin).await);
        if wrong.is_empty() {
            break;
        }
        // Violations of past effects stay; only differences from the wanted state can be repaired.
        let lasting: Vec<_> = wrong.iter().filter(|text| !text.starts_with("end")).collect();
        let late = clock::now() >= deadline;
        assert!(lasting.is_empty() && !late, "X1: {wrong:#?}\n{:#?}", cloud.effects());
        clock::sleep(Duration::from_millis(500)).await;
    }
    for member in std::mem::take(&mut world.members) {
        member.end().await;
    }
    let effects = cloud.effects();
    let wrong = judge(&effects, &wanted);
    assert!(wrong.is_empty(), "X1, after all have ended: {wrong:#?}\n{effects:#?}");
    let epochs = recorder.writes("oarlock.dev/assignments/");
    judge::fenced(&world.missing, told.claims(), &truth, &recorder);
    let moved = epochs.get("cloud").map_or(0, |epochs| epochs.len().saturating_sub(1));
    world.marks.note("unit moved", moved as u64);
    world.marks.note("made", effects.iter().filter(|effect| effect.what == What::Made).count() as u64);
    world.marks.note("calls that were too late", cloud.late());
    world.marks.all()
}

/// Returns the Services that are deleted but still have a finalizer. A call for such a Service makes a load balancer that is removed again, so the
/// cloud is not in order before they are gone from the API.
async fn going(admin: &Client) -> Vec<String> {
    let services = match admin.list(kind("", "services"), NAMESPACE, ListOptions::default()).await {
        Ok(services) => services.items,
        Err(status) => return vec![format!("end: {status}")],
    };
    let services = services.iter().map(|item| serde_json::from_slice::<Value>(&item.bytes).unwrap());
    let going = services.filter(|service| service["metadata"]["deletionTimestamp"].is_string());
    going.map(|service| format!("end: {} is going", service["metadata"]["name"])).collect()
}

impl World {
    fn door(&mut self) -> Door {
        Door {
            server: Arc::clone(&self.server),
            wire: Arc::new(crate::replicas::wire::Wire::new(self.rng.fork(), Arc::clone(&self.marks))),
            net: self.net.clone(),
            life: CancellationToken::new(),
            missing: Arc::clone(&self.missing),
            member: false,
            marks: Arc::clone(&self.marks),
        }
    }

    async fn join(&mut self) {
        let host = format!("h{}", self.started);
        self.started += 1;
        let door = self.door();
        let member = Member::start(Role::Cloud(self.cloud.clone()), host, door, Some(&self.exchange)).await;
        self.members.push(Arc::new(member));
    }

    /// Returns the member that a fault strikes: in most cases the holder of the unit.
    async fn target(&mut self, admin: &Client) -> usize {
        let assigned = admin.find(kind("oarlock.dev", "assignments"), "", "cloud").await.ok().flatten();
        let holder = assigned.and_then(|object| {
            let object = object.obj().unwrap();
            Some(object.at(&["spec", "holderIdentity"])?.as_str()?.to_owned())
        });
        let at = self.members.iter().position(|member| Some(member.identity().name()) == holder.as_deref());
        at.unwrap_or_else(|| self.rng.below(self.members.len() as u64) as usize)
    }

    async fn disturb(&mut self, admin: &Client) {
        for _ in 0..3 {
            clock::sleep(self.rng.jitter(Duration::from_secs(10), 80)).await;
            let at = self.target(admin).await;
            let member = Arc::clone(&self.members[at]);
            let a_while = if self.rng.chance(1, 2) { LONG } else { self.rng.jitter(Duration::from_secs(6), 80) };
            match self.rng.below(5) {
                0 => {
                    self.members.remove(at);
                    self.exchange.cut(member.identity());
                    member.kill(&self.net, &self.marks);
                    clock::sleep(a_while).await;
                    self.join().await;
                }
                1 => during(member.wire(), ("cut off", EVERYTHING, Way::Lost), a_while).await,
                2 => {
                    self.marks.note("not heard", 1);
                    self.exchange.cut(member.identity());
                    clock::sleep(a_while).await;
                    self.exchange.heal(member.identity());
                }
                3 => {
                    self.exchange.cut(member.identity());
                    during(member.wire(), ("asleep", EVERYTHING, Way::Held), a_while).await;
                    self.exchange.heal(member.identity());
                }
                _ => {
                    self.marks.note("ended", 1);
                    self.members.remove(at);
                    member.end().await;
                    self.join().await;
                }
            }
        }
    }
}

/// Makes, changes and deletes Services; returns the content that each load balancer must have at the end, by uid.
async fn user(client: &Client, mut rng: Rng) -> BTreeMap<String, String> {
    let services = kind("", "services");
    let (mut wanted, mut there) = (BTreeMap::new(), BTreeMap::new());
    for number in 0..24 {
        clock::sleep(rng.jitter(Duration::from_secs(4), 90)).await;
        let name = format!("s{}", rng.below(4));
        let port = 8000 + number;
        let content = format!("{port} to node-0,node-1,node-2");
        match there.get(&name).cloned() {
            None => {
                let spec = json!({"type": "LoadBalancer", "ports": [{"port": port}]});
                let json = json!({"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec});
                // An earlier Service of the same name may still be terminating.
                let made = surely(async || match client.create(services, object(services, json.clone())).await {
                    Err(status) if status.is_already_exists() => Err(Status::service_unavailable("not yet")),
                    other => other,
                })
                .await;
                let uid = made.obj().unwrap().meta().uid().to_owned();
                wanted.insert(uid.clone(), content);
                there.insert(name, uid);
            }
            Some(uid) if rng.chance(1, 3) => {
                surely(async || match client.delete(services, NAMESPACE, &name, DeleteOptions::default()).await {
                    Err(status) if status.is_not_found() => Ok(()),
                    other => other.map(drop),
                })
                .await;
                there.remove(&name);
                wanted.remove(&uid);
            }
            Some(uid) => {
                let patch = json!([{"op": "replace", "path": "/spec/ports/0/port", "value": port}]).to_string();
                let key = (NAMESPACE, name.as_str());
                let patch = (PatchType::Json, patch);
                surely(async || client.patch(services, "", key, patch.clone(), WriteOptions::default()).await).await;
                wanted.insert(uid, content);
            }
        }
    }
    wanted
}
