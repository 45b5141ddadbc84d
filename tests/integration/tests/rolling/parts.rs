//! Our own parts over two API servers, of which one at a time is down.

use oarlock_testkit::{Cluster, Process};

use super::servers;
use crate::balancer::address_of;
use crate::swaps::story;

/// Starts one of Oarlock's parts with the addresses of both servers.
fn part(name: &str, servers: &[Cluster], more: &[&str]) -> Process {
    let mut command = oarlock_testkit::part(name);
    command.arg("--kubeconfig").arg(servers[0].data_dir().component_kubeconfig(name));
    for server in servers {
        command.arg("--server").arg(format!("https://{}", address_of(server)));
    }
    command.args(more);
    Process::start(command, name)
}

#[test]
fn our_parts_go_on_at_the_server_that_is_left() {
    let Some((mut servers, _etcd)) = servers(2, &[]) else { return };
    let folder = servers[0].data_dir().root().display().to_string();
    let parts = [
        part("controller-manager", &servers, &[]),
        part("scheduler", &servers, &[]),
        part("kubelet", &servers, &["--runtime", "sim", "--count", "2", "--data-dir", &folder]),
    ];
    servers[1].kubectl().until("get serviceaccount default -o name", |_| true);
    // The server that the kubeconfigs name ends first: once in order, and later by a kill.
    assert_eq!(servers[0].stop(), Some(0));
    story::tell(&servers[1].kubectl());
    servers[0].start();
    servers[1].kill();
    story::tell(&servers[0].kubectl());
    for part in &parts {
        assert!(!part.said().contains(" ERROR "), "{}", part.said());
    }
}
