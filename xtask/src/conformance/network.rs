//! Three hosts in one layer-2 network: one for the control plane, the suite and DNS, and one for each node. Each is a network namespace, so no address or
//! port meets those of the machine or of another run.

use std::process::Command;

use super::place::{NODES, Place, name, net};
use crate::tool::output;

/// The control plane's host.
pub(crate) const CONTROL: &str = "10.90.0.254";
/// The network of all hosts.
pub(crate) const HOSTS: &str = "10.90.0.0/24";
/// The network of all pods.
pub(crate) const PODS: &str = "10.244.0.0/16";
/// The network of Services, which the control planes have by default.
const SERVICES: &str = "10.96.0.0/16";

/// A node's address.
pub(crate) fn address(node: u8) -> String {
    format!("10.90.0.{}", 10 + node)
}

/// The network of a node's pods.
pub(crate) fn pods(node: u8) -> String {
    format!("10.244.{node}.0/24")
}

/// Lays the hosts and the routes between them.
pub(crate) fn lay(place: &Place) -> anyhow::Result<()> {
    let control = place.control();
    ip("netns add", &[&control])?;
    for words in [
        "link set lo up".to_owned(),
        // The bridge is where nothing filters what passes it.
        "link add br0 type bridge".to_owned(),
        format!("address add {CONTROL}/24 dev br0"),
        "link set br0 up".to_owned(),
    ] {
        ip(&format!("-n {control} {words}"), &[])?;
    }
    for node in NODES {
        lay_node(place, node)?;
    }
    // A Service is reached by way of the first node, whose kube-proxy knows it.
    if let Some(first) = NODES.first() {
        ip(&format!("-n {control} route add {SERVICES} via {}", address(*first)), &[])?;
    }
    Ok(())
}

fn lay_node(place: &Place, node: u8) -> anyhow::Result<()> {
    let (control, host, link) = (place.control(), place.host(node), name(node));
    ip("netns add", &[&host])?;
    for words in [
        format!("-n {control} link add {link} type veth peer name eth0 netns {host}"),
        format!("-n {control} link set {link} master br0 up"),
        format!("-n {host} link set lo up"),
        format!("-n {host} address add {}/24 dev eth0", address(node)),
        format!("-n {host} link set eth0 up"),
        format!("-n {host} route add default via {CONTROL}"),
        format!("-n {control} route add {} via {}", pods(node), address(node)),
    ] {
        ip(&words, &[])?;
    }
    for other in NODES.into_iter().filter(|other| *other != node) {
        ip(&format!("-n {host} route add {} via {}", pods(other), address(other)), &[])?;
    }
    // Packets between pods of one bridge pass the rules for Services, too.
    let settings = "echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables";
    output(Command::new("nsenter").arg(net(&host)).args(["sh", "-ec", settings]))?;
    Ok(())
}

fn ip(words: &str, more: &[&str]) -> anyhow::Result<String> {
    output(Command::new("ip").args(words.split(' ')).args(more))
}
