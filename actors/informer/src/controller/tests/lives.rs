//! The spans of reconciles in the lives of the reconciled objects.

use oarlock_client::{Client, ListOptions, RawReply, RawRequest, Reply, Request, Transport, WatchStream};
use oarlock_meta::Status;
use oarlock_schema::{Obj, Resource};
use oarlock_telemetry::traces::opentelemetry::trace::Status as SpanStatus;
use oarlock_telemetry::traces::opentelemetry_sdk::trace::SpanData;
use oarlock_telemetry::traces::{self, Change, Settings};

use super::*;

/// A server that answers each update with the revision after that of the object, or with the same when the object is called `same`.
struct Accepts;

#[async_trait]
impl Transport for Accepts {
    async fn call(&self, request: Request) -> Result<Reply, Status> {
        let oarlock_client::Call::Update(obj, _) = &request.call else {
            return Err(Status::internal_error("no update"));
        };
        let asked: u64 = obj.meta().resource_version().parse().unwrap();
        let revision = if obj.name() == "same" { asked } else { asked + 1 };
        Ok(Reply::Object { object: object(obj.name(), obj.name(), "w", revision), created: false })
    }

    async fn watch(&self, _: &'static Resource, _: &str, _: ListOptions) -> Result<WatchStream, Status> {
        Err(Status::internal_error("no watch"))
    }

    async fn raw(&self, _: RawRequest) -> Result<RawReply, Status> {
        Err(Status::internal_error("no raw request"))
    }
}

/// A reconciler that updates the object of its key; it fails for the key `fails` without a write, and hangs for the key `hangs`.
struct Updates(Client, Arc<Cache<Config>>);

#[async_trait]
impl Reconcile for Updates {
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure> {
        let name = key.name.as_str();
        match name {
            "idle" => return Ok(Requeue::No),
            "fails" => {
                return Err(Status::conflict_modified(&GroupResource::new("", "configmaps"), "secret text").into());
            }
            "hangs" => return std::future::pending().await,
            _ => {}
        }
        let row = Config::RESOURCE.find().unwrap();
        let mut obj: Obj = object(name, name, "v", 7).obj()?;
        obj.meta_mut().unwrap().set_resource_version("7");
        assert!(self.1.get(key).is_some());
        self.0.update(row, obj).await?;
        Ok(Requeue::No)
    }
}

fn spans(uid: &str) -> Vec<Arc<SpanData>> {
    traces::ring().unwrap().trace(Change::new(uid, 0).trace())
}

#[test]
fn a_reconcile_is_a_step_of_a_life_if_it_wrote_or_failed() {
    traces::start(Settings::ring());
    Universe::run(31, || async {
        let bench = Bench::new().await;
        let names = ["life-wrote", "same", "idle", "fails", "hangs"];
        bench.fill(names.map(|name| (name, "1")), 5);
        let row = ControllerRow { deadline: 5 * S, ..ControllerRow::new("test", 5) };
        let updates = Updates(Client::new(Arc::new(Accepts)), bench.cache.clone());
        Controller::new(row, updates).reconciles(&bench.cache).spawn(&bench.system).await.unwrap();
        clock::sleep(7 * S).await;
        let uid = |name: &str| bench.cache.get(&Key::new("d", name)).unwrap().meta.uid.as_str().to_owned();
        let [wrote] = &spans(&uid("life-wrote"))[..] else { panic!("{:?}", spans(&uid("life-wrote"))) };
        assert_eq!((&*wrote.name, &wrote.status), ("reconcile", &SpanStatus::Unset));
        assert_eq!(wrote.parent_span_id, Change::new(&uid("life-wrote"), 0).context().span_id());
        assert!(spans(&uid("same")).is_empty() && spans(&uid("idle")).is_empty());
        assert_eq!(spans(&uid("fails"))[0].status, SpanStatus::error("Conflict"), "the reason alone");
        assert_eq!(spans(&uid("hangs"))[0].status, SpanStatus::error("did not finish"));
        shutdown::shutdown(&bench.system, shutdown::Graces::default()).await;
    });
}
