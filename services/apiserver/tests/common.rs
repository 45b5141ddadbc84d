//! A server of this process, and its clients.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use oarlock_apiserver::{InProcess, Server};
use oarlock_auth::UserInfo;
use oarlock_client::Client;
use oarlock_runtime::{System, clock};
use oarlock_service_apiserver::KubeletOptions;
use oarlock_service_apiserver::assemble::{Cluster, Store, start};
use oarlock_storage::testing::gated::GatedLog;
use oarlock_storage::{Log, MemoryLog};

pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A server over the log, and the hold on what it sees.
pub(crate) async fn server(log: &MemoryLog) -> (Server, Arc<GatedLog>) {
    let directory = tempfile::tempdir().unwrap();
    let system = System::start(oarlock_runtime::Options::default()).await.unwrap();
    let log = Arc::new(GatedLog::of_tails(Arc::new(log.clone())));
    let cluster = Cluster {
        data_dir: directory.path().to_owned(),
        pki: None,
        store: Store::Open(Arc::clone(&log) as Arc<dyn Log>),
        store_options: Default::default(),
        bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: Some(0),
        advertise_address: Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))),
        serving: Default::default(),
        kubelets: KubeletOptions::default(),
        going: Default::default(),
        local: None,
    };
    let server = start(&system, cluster).await.unwrap().server;
    oarlock_apiserver::start::ready(&server, clock::after(PATIENCE)).await.unwrap();
    (server, log)
}

/// A client that acts as `name` in `groups`.
pub(crate) fn acting_as(server: &Server, name: &str, groups: &[&str]) -> Client {
    let user = UserInfo::new(name, groups.iter().copied());
    Client::new(Arc::new(InProcess::new(server.clone(), user, "test/1")))
}

pub(crate) fn administrator(server: &Server) -> Client {
    acting_as(server, "admin", &["system:masters"])
}
