//! The rendered manifests at upstream's API server, which enforces the Pod Security Standard `restricted`.

use oarlock_testkit::Peer;

use super::helm::Helm;
use super::validated::all;
use crate::swaps::programs;

#[test]
fn upstreams_api_server_takes_every_manifest_as_it_stands() {
    let Some(helm) = Helm::new() else { return };
    if programs(&["etcd", "kube-apiserver"]).is_none() {
        return;
    }
    let peer = Peer::up(&[]);
    all(&helm, &peer.kubectl());
}
