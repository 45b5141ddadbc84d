//! A server in memory, with an admission stage that records what it sees.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oarlock_admission::turns::KeyedQueues;
use oarlock_admission::{AdmissionStage, Attributes, Chain, Operation};
use oarlock_auth::tokens::Issuer;
use oarlock_auth::{Authenticators, Authorizers, UserInfo};
use oarlock_client::Call;
use oarlock_meta::Status;
use oarlock_pki::{Pki, ServingNames, UnixTime};
use oarlock_registry::{Reader, indexer::StoredIndexer};
use oarlock_runtime::{Options, Phase, System, clock};
use oarlock_schema::{Obj, RESOURCES, Resource, TypeRef};
use oarlock_storage::{Append, MemoryLog};
use oarlock_store::{Store, Write};
use parking_lot::Mutex;

use crate::call::Dispatch;
use crate::caller::Caller;
use crate::egress::Egress;
use crate::inflight::Inflight;
use crate::kubelets::Kubelets;
use crate::large::Lanes;
use crate::server::{Parts, Server};
use crate::state::State;
use crate::target::Target;

/// One record of a stage: the operation, the endpoint, the type of the object, the name.
pub(super) type Seen = (Operation, String, Option<&'static str>, String);

/// When the recording stage refuses requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Refuses {
    AtOnce,
    WhatIsFinal,
    Never,
}

/// An admission stage that records the last object that it was to validate.
struct Witness {
    refuses: Refuses,
    seen: Arc<Mutex<Vec<Seen>>>,
}

pub(super) const WITNESSED: &str = "witnessed";

#[async_trait]
impl AdmissionStage for Witness {
    fn name(&self) -> &'static str {
        "Witness"
    }

    fn handles(&self, _: Operation) -> bool {
        true
    }

    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if self.refuses != Refuses::AtOnce {
            return Ok(());
        }
        self.seen.lock().push(seen(attributes));
        Err(attributes.forbidden(WITNESSED))
    }

    async fn validate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        self.seen.lock().push(seen(attributes));
        if self.refuses == Refuses::WhatIsFinal { Err(attributes.forbidden(WITNESSED)) } else { Ok(()) }
    }
}

fn seen(attributes: &Attributes<'_>) -> Seen {
    let resource = attributes.resource;
    let endpoint = format!("{}/{}/{}/{}", resource.group, resource.version, resource.plural, attributes.subresource);
    let object = attributes.object.as_deref().map(|object| object.ty().name);
    (attributes.operation, endpoint, object, attributes.name.to_owned())
}

pub(super) struct World {
    pub(super) server: Server,
    pub(super) seen: Arc<Mutex<Vec<Seen>>>,
}

impl World {
    pub(super) async fn new(refuses: Refuses) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let witness = Witness { refuses, seen: Arc::clone(&seen) };
        Self { seen, ..Self::of(|_| vec![Box::new(witness)]).await }
    }

    /// Creates an empty server with these stages.
    pub(super) async fn of(stages: impl FnOnce(&Reader) -> Vec<Box<dyn AdmissionStage>>) -> Self {
        clock::Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()).install();
        let system = System::start(Options { watchdog: None, ..Default::default() }).await.unwrap();
        let store = Store::start(&system, Arc::new(MemoryLog::new()), Arc::new(StoredIndexer), Default::default());
        let store = store.await.unwrap();
        let reader = Reader::new(store.view().clone());
        let pki = Pki::ephemeral(&ServingNames::default(), UnixTime::since_unix_epoch(Duration::from_secs(1))).unwrap();
        let identity = (vec![pki.kubelet_client.certificate.clone()], pki.kubelet_client.key.to_rustls());
        let server = Server::new(Parts {
            admission: Chain::new(stages(&reader)),
            store,
            reader,
            authorizers: Authorizers::new(),
            inflight: Inflight::new(Default::default()),
            large: Lanes::new(system.gate("large", Phase::Pipeline)),
            authenticators: Authenticators::new(),
            issuer: Issuer::new(Arc::new(pki.service_account), "https://test".to_owned(), Vec::new()),
            config: config(),
            state: State::default(),
            system: system.clone(),
            kubelets: Kubelets::new(identity, None).unwrap(),
            egress: Egress::default(),
            streams: system.gate("streams", Phase::Ingress),
            turns: KeyedQueues::new(),
            disabled: oarlock_apis::DisabledFields::of(&Default::default()),
        });
        Self { server, seen: Arc::default() }
    }

    /// Stores an object past the pipeline, in place of one that is there.
    pub(super) async fn store(&self, mut obj: Obj, row: &'static Resource) {
        // Every created object has a creation time; a resourceVersion is decoded only from an object that has one.
        if obj.meta().creation_timestamp().is_empty() {
            obj.set_at(&["metadata", "creationTimestamp"], "2026-01-01T00:00:00Z");
        }
        let target = Target::new(row, "", obj.namespace(), obj.name());
        let key = target.key(obj.name()).unwrap();
        let encoded = oarlock_registry::stored::encode(&key, &mut obj);
        let append = match self.server.view().get(&key) {
            Some(entry) => Append::update(key, entry.revision, encoded.value),
            None => Append::create(key, encoded.value),
        };
        let write = Write { append, parts: Some(encoded.parts) };
        self.server.store().write(write, clock::after(Duration::from_secs(5))).await.unwrap();
    }

    /// Creates a server with one object of each stored kind.
    pub(super) async fn with_one_of_each(refuses: Refuses) -> Self {
        let world = Self::new(refuses).await;
        let mut prefixes = std::collections::BTreeSet::new();
        for row in RESOURCES.iter().filter(|row| row.storage.is_some_and(|s| prefixes.insert(s.prefix))) {
            let ty = Target::new(row, "", "", "").stored_type();
            let mut obj = Obj::new(ty);
            name(&mut obj, row);
            obj.set_at(&["metadata", "uid"], "u");
            world.store(obj, row).await;
        }
        world
    }

    /// Executes a call; returns the records of the stages and the error.
    pub(super) async fn call(&self, target: &Target<'_>, call: Call) -> (Vec<Seen>, Option<Status>) {
        self.call_as(&caller(), target, call).await
    }

    /// As [`Self::call`], by a caller of the test.
    pub(super) async fn call_as(
        &self,
        caller: &Caller,
        target: &Target<'_>,
        call: Call,
    ) -> (Vec<Seen>, Option<Status>) {
        let end = Dispatch::new(&self.server, caller).execute(target, call).await.err();
        (std::mem::take(&mut *self.seen.lock()), end)
    }

    /// Returns the stored object in the form that clients read.
    pub(super) fn served(&self, target: &Target<'_>) -> Obj {
        let entry = self.server.view().get(&target.key(target.name).unwrap()).unwrap();
        target.object(&entry).unwrap().obj().unwrap()
    }
}

fn config() -> crate::config::Config {
    crate::config::Config {
        advertise_address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        port: 6443,
        service_cidr: "10.96.0.0/16".parse().unwrap(),
        node_ports: (30000, 32767),
        event_ttl: Duration::from_secs(3600),
        request_timeout: Duration::from_secs(60),
        goaway_chance: 0.0,
        features: Default::default(),
        limits: Default::default(),
        termination: Default::default(),
        max_body: 3 << 20,
        identity: "test".to_owned(),
        ca_pem: String::new(),
        client_ca_pem: String::new(),
        front_proxy_ca_pem: String::new(),
        issuer: "https://test".to_owned(),
        jwks: String::new(),
    }
}

pub(super) fn caller() -> Caller {
    let user = UserInfo::new("admin", ["system:masters"]);
    Caller::new(Arc::new(user), "test/1".into(), clock::after(Duration::from_secs(60)))
}

pub(super) fn name(obj: &mut Obj, row: &Resource) {
    obj.set_at(&["metadata", "name"], "a");
    if row.namespaced {
        obj.set_at(&["metadata", "namespace"], "n");
    }
}

pub(super) fn target<'a>(row: &'static Resource, subresource: &'a str, name: &'a str) -> Target<'a> {
    Target::new(row, subresource, if row.namespaced { "n" } else { "" }, name)
}

/// Returns the body of a subresource whose body is an object of its own.
pub(super) fn body(ty: TypeRef) -> Obj {
    let mut obj = Obj::new(ty);
    obj.set_at(&["metadata", "name"], "a");
    match ty.name {
        "core/v1.Binding" => drop(obj.set_at(&["target", "name"], "node")),
        "autoscaling/v1.Scale" => drop(obj.set_at(&["spec", "replicas"], 2)),
        _ => {}
    }
    obj
}
