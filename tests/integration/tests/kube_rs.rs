//! kube-rs as a foreign client, over TLS with the administrator's kubeconfig: a Rust crate that shares no line with ours. At one server, and at two
//! behind a balancer that sends each request to the other one.

mod objects;
pub(crate) mod reflector;
mod writers;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use oarlock_testkit::{Cluster, Etcd};

use crate::balancer::Balancer;
use crate::link::Link;

/// A test of each case, at one server and at two.
macro_rules! cases {
    ($($file:ident::$name:ident)*) => {
        mod alone {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let cluster = oarlock_testkit::Cluster::api_only();
                super::$file::$name(super::client(&cluster, None).await).await;
            })*
        }
        mod balanced {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let Some(pair) = tokio::task::block_in_place(super::Pair::start) else { return };
                super::$file::$name(super::client_at(&pair.one, Some(pair.balancer.address())).await).await;
                let shares = pair.balancer.shares();
                assert!(shares.iter().all(|share| *share > 0), "it was no balancer: {shares:?}");
                tokio::task::block_in_place(|| drop(pair));
            })*
        }
    };
}

cases! {
    objects::a_typed_object_is_created_read_changed_and_deleted
    objects::an_object_whose_type_comes_from_discovery_is_written_and_read
    objects::server_side_apply_keeps_what_others_own
    writers::of_two_hundred_writers_of_one_object_none_is_lost
}

/// Two servers over one etcd, and the balancer before them.
struct Pair {
    balancer: Balancer,
    one: Cluster,
    _two: Cluster,
    _etcd: Etcd,
}

impl Pair {
    /// `None`, and a loud word, where etcd cannot be built. Listed in docs/operations/tests.md.
    fn start() -> Option<Self> {
        let etcd = Etcd::start(1)
            .map_err(|why| oarlock_testkit::skipped!("{why}: nothing was tried through a balancer"))
            .ok()?;
        let endpoints = etcd.endpoints().join(",");
        let flags = ["--etcd-servers", &endpoints, "--disable", "scheduler,controller-manager,kubelet"];
        let one = Cluster::up(&flags);
        let two = one.replica(&flags[..2]);
        Some(Self { balancer: Balancer::before(&[&one, &two]), one, _two: two, _etcd: etcd })
    }
}

/// A client of the cluster's administrator, over `link` if there is one.
pub(crate) async fn client(cluster: &Cluster, link: Option<&Link>) -> Client {
    client_at(cluster, link.map(|link| link.address)).await
}

async fn client_at(cluster: &Cluster, at: Option<std::net::SocketAddr>) -> Client {
    let file = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
    if let Some(address) = at {
        config.cluster_url = format!("https://{address}").parse().unwrap();
    }
    Client::try_from(config).unwrap()
}

pub(crate) fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

pub(crate) fn map(name: &str, data: &[(&str, &str)]) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.data = Some(data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect());
    map
}

fn data(map: &ConfigMap) -> BTreeMap<&str, &str> {
    map.data.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

/// The Status in an error, which must be one.
#[track_caller]
fn refusal<T>(result: kube::Result<T>) -> (u16, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.reason.clone()),
        Err(other) => panic!("no Status: {other}"),
        Ok(_) => panic!("it should have been refused"),
    }
}
