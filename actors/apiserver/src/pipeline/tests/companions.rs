//! A companion that changes before the commit: the request is committed with the newer companion, whoever asks for it and whenever it has appeared.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oarlock_admission::plugins::resource_quota;
use oarlock_admission::{AdmissionStage, Attributes, Operation};
use oarlock_client::{Call, WriteOptions};
use oarlock_meta::Status;
use oarlock_registry::index;
use oarlock_runtime::clock;
use oarlock_schema::{Obj, Resource, Value, resource};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::services::{service, services};
use super::world::{World, target};

/// A judging stage that each request passes with a permit of the test.
#[derive(Clone)]
struct Barrier {
    permits: Arc<Semaphore>,
    /// The cluster IPs of the objects that have reached the stage.
    addresses: Arc<Mutex<Vec<String>>>,
}

impl Barrier {
    fn new() -> Self {
        Self { permits: Arc::new(Semaphore::new(0)), addresses: Arc::default() }
    }

    fn open(&self) {
        self.permits.add_permits(1_000);
    }

    /// Returns the cluster IP of the object that has reached the stage last.
    fn address(&self) -> String {
        self.addresses.lock().last().unwrap().clone()
    }
}

#[async_trait]
impl AdmissionStage for Barrier {
    fn name(&self) -> &'static str {
        "Barrier"
    }

    fn handles(&self, _: Operation) -> bool {
        true
    }

    async fn validate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let address = attributes.object.as_deref().and_then(|object| object.at(&["spec", "clusterIP"]));
        self.addresses.lock().push(address.and_then(Value::as_str).unwrap_or_default().to_owned());
        self.permits.acquire().await.unwrap().forget();
        Ok(())
    }
}

/// A server whose requests stop before their charge to a quota, and again before their commit.
struct PausedWorld {
    inner: World,
    before_charge: Barrier,
    before_commit: Barrier,
}

impl PausedWorld {
    async fn new() -> Self {
        let (before_charge, before_commit) = (Barrier::new(), Barrier::new());
        let (first, last) = (before_charge.clone(), before_commit.clone());
        let inner =
            World::of(|reader| vec![Box::new(first) as Box<_>, resource_quota::make(reader), Box::new(last)]).await;
        Self { inner, before_charge, before_commit }
    }

    /// Executes a call. `before_charge` and `before_commit` run while it waits there for the first time.
    async fn call(
        &self,
        (row, name): (&'static Resource, &str),
        call: Call,
        before_charge: impl AsyncFnOnce(),
        before_commit: impl AsyncFnOnce(),
    ) -> Option<Status> {
        let target = target(row, "", name);
        let mut request = std::pin::pin!(self.inner.call(&target, call));
        assert!(clock::timeout(Duration::from_millis(1), request.as_mut()).await.is_err(), "it waits for its charge");
        before_charge().await;
        self.before_charge.open();
        assert!(clock::timeout(Duration::from_millis(1), request.as_mut()).await.is_err(), "it waits for its commit");
        before_commit().await;
        self.before_commit.open();
        request.await.1
    }

    /// Stores the quota with this number of used ConfigMaps.
    async fn store_quota(&self, used: u8) {
        let json = format!(
            r#"{{"metadata":{{"name":"q","namespace":"n"}},"spec":{{"hard":{{"configmaps":"9"}}}},
            "status":{{"hard":{{"configmaps":"9"}},"used":{{"configmaps":"{used}"}}}}}}"#
        );
        self.inner.store(object(quotas(), &json), quotas()).await;
    }

    /// Stores the IPAddress of a cluster IP, with an annotation.
    async fn store_address(&self, address: &str, annotation: &str) {
        let json = format!(r#"{{"metadata":{{"name":"{address}","annotations":{{"a":"{annotation}"}}}}}}"#);
        self.inner.store(object(addresses(), &json), addresses()).await;
    }

    fn addresses(&self) -> usize {
        self.inner.server.reader().list(addresses(), None).len()
    }
}

fn quotas() -> &'static Resource {
    resource("", "v1", "resourcequotas").unwrap()
}

fn maps() -> &'static Resource {
    resource("", "v1", "configmaps").unwrap()
}

fn addresses() -> &'static Resource {
    resource("networking.k8s.io", "v1", "ipaddresses").unwrap()
}

fn object(row: &'static Resource, json: &str) -> Obj {
    index::decode(json.as_bytes(), row.ty).unwrap()
}

fn text<'a>(obj: &'a Obj, path: &[&str]) -> &'a str {
    obj.at(path).and_then(Value::as_str).unwrap_or_default()
}

async fn nothing() {}

/// A create begins without a quota, and so without a reason to expect a companion.
#[tokio::test(start_paused = true)]
async fn a_create_whose_quota_appears_and_changes_meanwhile_is_charged_to_its_newest_state() {
    let world = PausedWorld::new().await;
    let map = object(maps(), r#"{"metadata":{"name":"a"},"data":{"x":"y"}}"#);
    let create = Call::Create(map, WriteOptions { field_manager: "m".into(), ..WriteOptions::default() });
    let refused = world.call((maps(), ""), create, || world.store_quota(0), || world.store_quota(3)).await;
    assert_eq!(refused, None);
    assert_eq!(text(&world.inner.served(&target(quotas(), "", "q")), &["status", "used", "configmaps"]), "4");
    let stored = world.inner.served(&target(maps(), "", "a"));
    assert_eq!(text(&stored, &["data", "x"]), "y");
    assert_eq!(stored.meta().managed_fields().values().len(), 1);
}

/// The last of several requests that want what is left of a quota is refused by the quota, not by the lost comparison.
#[tokio::test(start_paused = true)]
async fn a_create_whose_quota_is_used_up_meanwhile_is_refused_by_it() {
    let world = PausedWorld::new().await;
    let create = Call::Create(object(maps(), r#"{"metadata":{"name":"a"}}"#), WriteOptions::default());
    let refused = world.call((maps(), ""), create, || world.store_quota(8), || world.store_quota(9)).await.unwrap();
    assert_eq!(refused.code, 403, "{refused:?}");
    assert!(refused.message.contains("exceeded quota: q, requested: configmaps=1, used: configmaps=9"), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_service_whose_address_is_taken_before_the_commit_gets_another_one() {
    let world = PausedWorld::new().await;
    let create = Call::Create(service("a", r#"{"ports":[{"port":80}]}"#), WriteOptions::default());
    let taken = Mutex::new(String::new());
    let take = async || {
        taken.lock().push_str(&world.before_commit.address());
        let address = taken.lock().clone();
        world.store_address(&address, "1").await;
    };
    assert_eq!(world.call((services(), ""), create, nothing, take).await, None);
    let stored = world.inner.served(&target(services(), "", "a"));
    let given = text(&stored, &["spec", "clusterIP"]);
    assert!(!given.is_empty() && given != *taken.lock(), "{given}");
    assert_eq!(world.addresses(), 2, "the taken address and the given one");
}

/// The update names a revision, which is still the stored one: the change of the address is no conflict of the Service.
#[tokio::test(start_paused = true)]
async fn an_update_that_removes_a_service_whose_address_has_changed_is_no_conflict() {
    let world = PausedWorld::new().await;
    let json = r#"{"metadata":{"name":"a","namespace":"n","uid":"u","finalizers":["example.org/a"],
        "deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":0},
        "spec":{"type":"ClusterIP","clusterIP":"10.96.0.7","clusterIPs":["10.96.0.7"],"ports":[{"port":80}]}}"#;
    let mut stored = object(services(), json);
    oarlock_apis::default(&mut stored);
    world.inner.store(stored, services()).await;
    world.store_address("10.96.0.7", "1").await;
    let here = target(services(), "", "a");
    let mut released = world.inner.served(&here);
    released.meta_mut().unwrap().clear_finalizers();
    assert!(!released.meta().resource_version().is_empty());
    let update = Call::Update(released, WriteOptions::default());
    let refused = world.call((services(), "a"), update, nothing, || world.store_address("10.96.0.7", "2")).await;
    assert_eq!(refused, None);
    assert!(world.inner.server.view().get(&here.key("a").unwrap()).is_none(), "the Service is removed");
    assert_eq!(world.addresses(), 0, "and its address given back");
}
