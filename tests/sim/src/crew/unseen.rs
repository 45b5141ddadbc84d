//! An owner that comes and goes while its watch is interrupted: no event ever tells the garbage collector of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use oarlock_client::{
    Client, DeleteOptions, Event, ListOptions, RawReply, RawRequest, Reply, Request, Transport, Watch, WatchStream,
};
use oarlock_controllers::Options;
use oarlock_mesh::Placement;
use oarlock_meta::Status;
use oarlock_runtime::shutdown::{Graces, shutdown};
use oarlock_runtime::{Gate, Rng, System, Universe, clock, rng};
use oarlock_schema::Resource;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::door::Door;
use super::users::{kind, object, prepare};
use super::world::{FAITHFUL, HEALED};
use crate::replicas::history::Recorder;
use crate::replicas::replica::Replica;
use crate::replicas::truth::Truth;
use crate::replicas::wire::{Marks, Wire};

/// In it the collector has come to everything that it was told of.
const LOOKED: Duration = Duration::from_secs(2);

/// The server without what watches tell of Deployments meanwhile.
struct Blind {
    door: Door,
    blind: Arc<AtomicBool>,
}

#[async_trait]
impl Transport for Blind {
    async fn call(&self, request: Request) -> Result<Reply, Status> {
        self.door.call(request).await
    }

    async fn watch(&self, of: &'static Resource, space: &str, options: ListOptions) -> Result<WatchStream, Status> {
        let stream = self.door.watch(of, space, options).await?;
        if of.plural != "deployments" {
            return Ok(stream);
        }
        Ok(Box::new(Without { stream, blind: Arc::clone(&self.blind) }))
    }

    async fn raw(&self, request: RawRequest) -> Result<RawReply, Status> {
        self.door.raw(request).await
    }
}

struct Without {
    stream: WatchStream,
    blind: Arc<AtomicBool>,
}

#[async_trait]
impl Watch for Without {
    async fn next(&mut self) -> Option<Vec<Event>> {
        let events = self.stream.next().await?;
        Some(if self.blind.load(Ordering::Relaxed) { Vec::new() } else { events })
    }
}

#[test]
fn who_depends_on_an_owner_that_no_watch_has_shown_goes_with_it() {
    Universe::run(1, || async {
        let mut rng = rng::with(Rng::fork);
        let (net, marks) = (Gate::new("net"), Arc::new(Marks::default()));
        let log = Arc::new(Truth::new(Arc::new(Recorder::new())).await);
        let server =
            Replica::new("api".to_owned(), &mut rng, Arc::clone(&log), FAITHFUL, net.clone(), Arc::clone(&marks));
        server.start().await;
        let wire = Arc::new(Wire::new(rng.fork(), Arc::clone(&marks)));
        let (life, claims) = (CancellationToken::new(), Arc::default());
        let door = Door { server: Arc::new(server), log, wire, net, life, claims, marks };
        let (admin, blind) = (Client::new(Arc::new(door.clone())), Arc::new(AtomicBool::new(false)));
        prepare(&admin).await;
        let system = System::start(oarlock_runtime::Options::default()).await.unwrap();
        let client = Client::new(Arc::new(Blind { door, blind: Arc::clone(&blind) }));
        let clients = {
            let client = client.clone();
            Arc::new(move |_: &str| client.clone())
        };
        let options = Options { placement: Placement::everything(), ..Options::default() };
        oarlock_controllers::start(&system, client, clients, options).await.unwrap();
        clock::sleep(LOOKED).await;

        blind.store(true, Ordering::Relaxed);
        let (deployments, sets) = (kind("apps", "deployments"), kind("apps", "replicasets"));
        let template =
            json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
        let spec = json!({"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template});
        let owner = json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec});
        let owner = admin.create(deployments, object(deployments, owner)).await.unwrap();
        let reference = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": owner.uid(), "controller": true});
        let metadata = json!({"name": "web-1", "namespace": "default", "ownerReferences": [reference]});
        let set = object(sets, json!({"metadata": metadata, "spec": spec}));
        admin.create(sets, set).await.unwrap();
        clock::sleep(LOOKED).await;
        admin.delete(deployments, "default", "web", DeleteOptions::default()).await.unwrap();
        clock::sleep(LOOKED).await;
        blind.store(false, Ordering::Relaxed);

        let healed = clock::after(HEALED);
        while admin.find(sets, "default", "web-1").await.unwrap().is_some() {
            assert!(!healed.passed(), "the ReplicaSet is still there");
            clock::sleep(Duration::from_millis(100)).await;
        }
        shutdown(&system, Graces::default()).await;
    });
}
