//! kube-rs as a foreign client, over TLS with the administrator's kubeconfig: a Rust crate that shares no line with ours.

mod objects;
mod reflector;
mod writers;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use oarlock_testkit::Cluster;

use crate::link::Link;

/// A client of the cluster's administrator, over `link` if there is one.
async fn client(cluster: &Cluster, link: Option<&Link>) -> Client {
    let file = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
    if let Some(link) = link {
        config.cluster_url = format!("https://{}", link.address).parse().unwrap();
    }
    Client::try_from(config).unwrap()
}

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

fn map(name: &str, data: &[(&str, &str)]) -> ConfigMap {
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
