//! A server whose View lags behind writes another server acknowledged neither refuses requests for that reason nor takes stale state for current.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use oarlock_apiserver::{InProcess, Server};
use oarlock_auth::UserInfo;
use oarlock_client::{Client, DeleteOptions, Fence, ListOptions, Object, PatchType, WriteOptions, fence};
use oarlock_runtime::{System, clock};
use oarlock_schema::{Obj, Resource, resource};
use oarlock_service_apiserver::assemble::{Cluster, Store, start};
use oarlock_storage::testing::gated::GatedLog;
use oarlock_storage::{Log, MemoryLog};

pub(crate) const MAX_WAIT: Duration = Duration::from_secs(90);

/// Returns a client with administrator's rights on a new server over the log, and the gate that holds back what the server reads from the log.
async fn server(log: &MemoryLog) -> (Client, Arc<GatedLog>) {
    let (server, hold) = started(log).await;
    (acting_as(&server, "admin", &["system:masters"]), hold)
}

/// Returns a client that acts as `name` in `groups`.
pub(crate) fn acting_as(server: &Server, name: &str, groups: &[&str]) -> Client {
    let user = UserInfo::new(name, groups.iter().copied());
    Client::new(Arc::new(InProcess::new(server.clone(), user, "test/1")))
}

/// Starts a server over the log; returns the server and the gate that holds back what it reads from the log.
pub(crate) async fn started(log: &MemoryLog) -> (Server, Arc<GatedLog>) {
    let directory = tempfile::tempdir().unwrap();
    let system = System::start(oarlock_runtime::Options::default()).await.unwrap();
    let log = Arc::new(GatedLog::of_tails(Arc::new(log.clone())));
    let cluster = Cluster {
        advertise_address: Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))),
        ..Cluster::new(directory.path().to_owned(), Store::Open(Arc::clone(&log) as Arc<dyn Log>))
    };
    let server = start(&system, cluster).await.unwrap().server;
    oarlock_apiserver::start::ready(&server, clock::after(MAX_WAIT)).await.unwrap();
    (server, log)
}

fn config_maps() -> &'static Resource {
    resource("", "v1", "configmaps").unwrap()
}

fn config_map(name: &str) -> Obj {
    let mut obj = Obj::new(config_maps().ty);
    obj.set_at(&["metadata", "name"], name.to_owned());
    obj.set_at(&["metadata", "namespace"], "default".to_owned());
    obj
}

async fn ask(client: &Client, what: &str) -> Result<(), oarlock_meta::Status> {
    let (resource, namespace) = (config_maps(), "default");
    match what {
        "patched" => {
            let body = (PatchType::Merge, r#"{"data":{"seen":"yes"}}"#);
            client.patch(resource, "", (namespace, what), body, WriteOptions::default()).await.map(drop)
        }
        "replaced" => client.update(resource, config_map(what)).await.map(drop),
        "dry-run" => {
            let (body, options) = ((PatchType::Merge, "{}"), WriteOptions { dry_run: true, ..WriteOptions::default() });
            client.patch(resource, "", (namespace, what), body, options).await.map(drop)
        }
        "deleted" => client.delete(resource, namespace, what, DeleteOptions::default()).await.map(drop),
        _ => client.get(resource, namespace, what).await.map(drop),
    }
}

#[tokio::test]
async fn nothing_is_missing_that_another_server_acknowledged() {
    let log = MemoryLog::new();
    let ((one, _), (two, hold)) = (server(&log).await, server(&log).await);
    for what in ["patched", "replaced", "deleted", "dry-run", "read"] {
        hold.hold_tails(true);
        one.create(config_maps(), config_map(what)).await.unwrap();
        let asked = held(&hold, ask(&two, what)).await;
        asked.unwrap_or_else(|status| panic!("{what}: {status}"));
    }
}

#[tokio::test]
async fn a_change_that_changes_nothing_is_not_answered_from_what_was() {
    let log = MemoryLog::new();
    let ((one, _), (two, hold)) = (server(&log).await, server(&log).await);
    let name = "changed";
    one.create(config_maps(), config_map(name)).await.unwrap();
    for conditional in [false, true] {
        let mut again = two.get(config_maps(), "default", name).await.unwrap().obj().unwrap();
        hold.hold_tails(true);
        let changed = (PatchType::Merge, r#"{"data":{"seen":"yes"}}"#);
        one.patch(config_maps(), "", ("default", name), changed, WriteOptions::default()).await.unwrap();
        if !conditional {
            again.meta_mut().unwrap().clear_resource_version();
        }
        let answer = held(&hold, two.update(config_maps(), again)).await;
        if conditional {
            assert_eq!(answer.unwrap_err().code, 409, "the body names a revision that has passed");
        } else {
            answer.unwrap();
            let now = one.get(config_maps(), "default", name).await.unwrap().obj().unwrap();
            assert!(now.at(&["data"]).is_none(), "the unconditional update was the last: {now:?}");
        }
    }
}

#[tokio::test]
async fn a_list_goes_on_at_a_server_that_has_not_heard_of_its_begin() {
    let log = MemoryLog::new();
    let ((one, _), (two, hold)) = (server(&log).await, server(&log).await);
    hold.hold_tails(true);
    for name in ["a", "b", "c"] {
        one.create(config_maps(), config_map(name)).await.unwrap();
    }
    let first = ListOptions { limit: 1, ..ListOptions::default() };
    let begun = one.list(config_maps(), "default", first).await.unwrap();
    let rest = ListOptions { continue_token: begun.continue_token, ..ListOptions::default() };
    let page = held(&hold, two.list(config_maps(), "default", rest)).await.unwrap();
    assert_eq!((page.revision, page.items.len()), (begun.revision, 2), "all of it is of one state");
}

#[tokio::test]
async fn an_address_is_given_once_whoever_gives_it() {
    let log = MemoryLog::new();
    let ((one, _), (two, hold)) = (server(&log).await, server(&log).await);
    let services = resource("", "v1", "services").unwrap();
    let service = |name: &str, ip: &str| {
        let meta = format!(r#"{{"name":"{name}","namespace":"default"}}"#);
        let text = format!(r#"{{"metadata":{meta},"spec":{{"clusterIP":"{ip}","ports":[{{"port":80}}]}}}}"#);
        Object::from_json(services.ty, text.into()).unwrap().obj().unwrap()
    };
    for n in 1..10 {
        let ip = format!("10.96.7.{n}");
        hold.hold_tails(true);
        one.create(services, service(&format!("first-{n}"), &ip)).await.unwrap();
        let second = two.create(services, service(&format!("second-{n}"), &ip));
        assert_eq!(held(&hold, second).await.map(drop).unwrap_err().code, 422, "{ip} was given twice");
    }
}

/// Assigns the unit `arbiter` to a member; returns the unit's object and the member's fence.
async fn assign(client: &Client, to: &str, from: Option<Obj>) -> (Obj, Fence) {
    let row = resource("oarlock.dev", "v1", "assignments").unwrap();
    let fresh = from.is_none();
    let mut unit = from.unwrap_or_else(|| Obj::new(row.ty));
    unit.set_at(&["metadata", "name"], "arbiter".to_owned());
    unit.set_at(&["spec", "holderIdentity"], to.to_owned());
    let written = if fresh { client.create(row, unit).await } else { client.update(row, unit).await }.unwrap();
    (written.obj().unwrap(), Fence { unit: "arbiter".into(), epoch: written.revision })
}

#[tokio::test]
async fn a_claim_that_has_gone_to_another_writes_nothing_whoever_knows() {
    let log = MemoryLog::new();
    let ((one, _), (two, hold)) = (server(&log).await, server(&log).await);
    let (unit, first) = assign(&one, "a", None).await;
    let create = |name: &'static str, fence: &Fence| {
        let (two, fence) = (two.clone(), fence.clone());
        fence::scope(Some(fence), async move { two.create(config_maps(), config_map(name)).await.map(drop) })
    };
    create("while-it-holds", &first).await.unwrap();
    // The server that gets the request has not yet read that the unit moved, and the written object does not show the move either.
    hold.hold_tails(true);
    let (_, second) = assign(&one, "b", Some(unit)).await;
    let mut refused = Box::pin(create("too-late", &first));
    let answer = match (&mut refused).now_or_never() {
        Some(answer) => answer,
        None => {
            tokio::task::yield_now().await;
            hold.hold_tails(false);
            refused.await
        }
    };
    let status = answer.unwrap_err();
    assert!(status.code == 409 && status.is_stale_owner(), "{status:?}");
    hold.hold_tails(false);
    create("under-the-next", &second).await.unwrap();
    for what in ["patched", "replaced", "deleted"] {
        one.create(config_maps(), config_map(what)).await.unwrap();
        let status = fence::scope(Some(first.clone()), ask(&two, what)).await.err();
        // A replacement with equal content writes nothing, so it succeeds under any fence.
        assert_eq!(status.is_some_and(|status| status.is_stale_owner()), what != "replaced", "{what}");
    }
    assert!(one.get(config_maps(), "default", "too-late").await.unwrap_err().is_not_found());
    let nobodys = Fence { unit: "nobodys".into(), epoch: first.epoch };
    assert!(create("for-nobody", &nobodys).await.unwrap_err().is_stale_owner());
}

/// Checks that a request stays pending while the server reads nothing from the log, releases the log, and returns the request's result.
async fn held<T>(hold: &GatedLog, request: impl Future<Output = T>) -> T {
    let mut asked = Box::pin(request);
    for _ in 0..200 {
        assert!((&mut asked).now_or_never().is_none(), "answered before it could be known");
        tokio::task::yield_now().await;
    }
    hold.hold_tails(false);
    asked.await
}
