//! The Leases by which API servers discover one another, in virtual time.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use oarlock_apiserver::InProcess;
use oarlock_auth::UserInfo;
use oarlock_client::{Client, ListOptions};
use oarlock_meta::MicroTime;
use oarlock_runtime::{System, clock};
use oarlock_schema::{Obj, Resource, resource};
use oarlock_service_apiserver::assemble::{Cluster, Store, start};

const NAMESPACE: &str = "kube-system";

fn leases() -> &'static Resource {
    resource("coordination.k8s.io", "v1", "leases").unwrap()
}

/// Returns the Lease of another server, last renewed `age` ago.
fn lease(name: &str, age: Option<Duration>, role: &str) -> Obj {
    let mut obj = Obj::new(leases().ty);
    obj.set_at(&["metadata", "name"], name.to_owned());
    obj.set_at(&["metadata", "namespace"], NAMESPACE.to_owned());
    let mut meta = obj.meta_mut().unwrap();
    meta.labels_mut().insert("apiserver.kubernetes.io/identity", role.to_owned());
    obj.set_at(&["spec", "holderIdentity"], name.to_owned());
    if let Some(age) = age {
        let renewed = clock::wall().as_microsecond() - i64::try_from(age.as_micros()).unwrap();
        obj.set_at(&["spec", "leaseDurationSeconds"], 3600_i64);
        obj.set_at(&["spec", "renewTime"], MicroTime::from_unix_micros(renewed).to_string());
    }
    obj
}

async fn names(client: &Client) -> Vec<String> {
    let list = client.list(leases(), NAMESPACE, ListOptions::default()).await.unwrap();
    let names = list.items.iter().map(|item| item.obj().unwrap().name().to_owned());
    // The server's own Lease is named after its identity.
    let (own, others): (Vec<_>, Vec<_>) = names.partition(|name| name.len() == "apiserver-".len() + 32);
    assert_eq!(own.len(), 1, "{own:?} {others:?}");
    others
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_a_server_that_is_gone_for_an_hour_is_taken_away() {
    clock::Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()).install();
    let directory = tempfile::tempdir().unwrap();
    let system = System::start(oarlock_runtime::Options { watchdog: None, ..Default::default() }).await.unwrap();
    let cluster = Cluster {
        advertise_address: Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))),
        ..Cluster::new(directory.path().to_owned(), Store::Memory)
    };
    let server = start(&system, cluster).await.unwrap().server;
    oarlock_apiserver::start::ready(&server, clock::after(Duration::from_secs(600))).await.unwrap();
    let client = Client::new(Arc::new(InProcess::new(server, UserInfo::new("admin", ["system:masters"]), "test/1")));
    let seconds = |n| Some(Duration::from_secs(n));
    for (name, age, role) in [
        ("apiserver-gone", seconds(3601), "kube-apiserver"),
        ("apiserver-going", seconds(3540), "kube-apiserver"),
        ("apiserver-here", seconds(0), "kube-apiserver"),
        ("apiserver-never", None, "kube-apiserver"),
        ("somebody-else", seconds(7200), "other"),
    ] {
        client.create(leases(), lease(name, age, role)).await.unwrap();
    }
    clock::sleep(Duration::from_secs(20)).await;
    assert_eq!(names(&client).await, ["apiserver-going", "apiserver-here", "somebody-else"]);
    clock::sleep(Duration::from_secs(60)).await;
    assert_eq!(names(&client).await, ["apiserver-here", "somebody-else"]);
}
