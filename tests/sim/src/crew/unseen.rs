//! An owner that is created and deleted while its watch is interrupted, so that no event informs the garbage collector.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use oarlock_client::{
    Call, Client, DeleteOptions, Event, ListOptions, RawReply, RawRequest, Reply, Request, Transport, Watch,
    WatchStream,
};
use oarlock_controllers::Options;
use oarlock_mesh::Placement;
use oarlock_meta::Status;
use oarlock_runtime::shutdown::{Graces, shutdown};
use oarlock_runtime::{System, Universe, clock};
use oarlock_schema::Resource;
use serde_json::json;

use super::door::Door;
use super::users::{kind, object, prepare};
use super::world::HEALED;

/// A client whose watches can be interrupted, so that they deliver no events of Deployments meanwhile.
struct Blind {
    door: Door,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    blind: AtomicBool,
    /// How often a read found that a Deployment is absent.
    asked: AtomicUsize,
    /// Number of deletions of Deployments whose events were not delivered.
    missed: AtomicUsize,
}

#[async_trait]
impl Transport for Blind {
    async fn call(&self, request: Request) -> Result<Reply, Status> {
        let asks = request.resource.plural == "deployments" && matches!(request.call, Call::Get(_));
        let told = self.door.call(request).await;
        self.shared.asked.fetch_add(usize::from(asks), Ordering::Relaxed);
        told
    }

    async fn watch(&self, of: &'static Resource, space: &str, options: ListOptions) -> Result<WatchStream, Status> {
        let stream = self.door.watch(of, space, options).await?;
        if of.plural != "deployments" {
            return Ok(stream);
        }
        Ok(Box::new(Without { stream, shared: Arc::clone(&self.shared) }))
    }

    async fn raw(&self, request: RawRequest) -> Result<RawReply, Status> {
        self.door.raw(request).await
    }
}

struct Without {
    stream: WatchStream,
    shared: Arc<Shared>,
}

#[async_trait]
impl Watch for Without {
    async fn next(&mut self) -> Option<Vec<Event>> {
        let events = self.stream.next().await?;
        if !self.shared.blind.load(Ordering::Relaxed) {
            return Some(events);
        }
        let deleted = events.iter().filter(|event| matches!(event, Event::Deleted(_)));
        self.shared.missed.fetch_add(deleted.count(), Ordering::Relaxed);
        Some(Vec::new())
    }
}

/// Waits until a condition holds, at most for [`HEALED`].
pub(super) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let healed = clock::after(HEALED);
    while !holds().await {
        assert!(!healed.passed(), "not true in time: {what}");
        clock::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn who_depends_on_an_owner_that_no_watch_has_shown_goes_with_it() {
    Universe::run(1, || async {
        let (door, _) = Door::to_new_server().await;
        let (admin, shared) = (Client::new(Arc::new(door.clone())), Arc::new(Shared::default()));
        prepare(&admin).await;
        let system = System::start(oarlock_runtime::Options::default()).await.unwrap();
        let client = Client::new(Arc::new(Blind { door, shared: Arc::clone(&shared) }));
        let clients = {
            let client = client.clone();
            Arc::new(move |_: &str| client.clone())
        };
        let options = Options { placement: Placement::everything(), ..Options::default() };
        oarlock_controllers::start(&system, client, clients, options).await.unwrap();

        let (deployments, sets) = (kind("apps", "deployments"), kind("apps", "replicasets"));
        let template =
            json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
        let spec = json!({"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template});
        let deployment =
            |name: &str| object(deployments, json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec}));
        let no_sets = async || admin.list(sets, "default", ListOptions::default()).await.unwrap().items.is_empty();
        // The controllers work: a Deployment is created and deleted while all watches run.
        admin.create(deployments, deployment("first")).await.unwrap();
        until("the first has its ReplicaSet", async || !no_sets().await).await;
        admin.delete(deployments, "default", "first", DeleteOptions::default()).await.unwrap();
        until("that goes with it", no_sets).await;

        shared.blind.store(true, Ordering::Relaxed);
        let asked = shared.asked.load(Ordering::Relaxed);
        let owner = admin.create(deployments, deployment("web")).await.unwrap();
        let reference = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": owner.uid(), "controller": true});
        let metadata = json!({"name": "web-1", "namespace": "default", "ownerReferences": [reference]});
        admin.create(sets, object(sets, json!({"metadata": metadata, "spec": spec}))).await.unwrap();
        until("the collector has asked for the owner", async || shared.asked.load(Ordering::Relaxed) > asked).await;
        admin.delete(deployments, "default", "web", DeleteOptions::default()).await.unwrap();
        until("its end is missed", async || shared.missed.load(Ordering::Relaxed) > 0).await;
        shared.blind.store(false, Ordering::Relaxed);
        until("the ReplicaSet goes with it", no_sets).await;
        shutdown(&system, Graces::default()).await;
    });
}
