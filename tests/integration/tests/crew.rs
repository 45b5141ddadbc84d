//! Controllers and schedulers in several processes: all work, each only on its own units, and a lost process is replaced.

mod beside;
mod churn;
mod heard;
mod held;
mod load;
mod shards;
mod takeover;
mod teller;

use std::collections::BTreeMap;

use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Cluster, Process};
use serde_json::Value;

const API_ONLY: [&str; 2] = ["--disable", "scheduler,controller-manager,kubelet"];

/// Starts one of Oarlock's parts in a process of its own.
fn part(cluster: &Cluster, name: &str, more: &[&str]) -> Process {
    let mut command = oarlock_testkit::part(name);
    command.arg("--kubeconfig").arg(cluster.data_dir().component_kubeconfig(name)).args(more);
    Process::start(command, name)
}

/// Simulated nodes.
pub(crate) fn nodes(cluster: &Cluster, count: &str) -> Process {
    let folder = cluster.data_dir().root().display().to_string();
    part(cluster, "kubelet", &["--runtime", "sim", "--count", count, "--data-dir", &folder])
}

/// Each unit with its holder and epoch.
pub(crate) type Units = BTreeMap<String, (String, u64)>;

fn units(cluster: &Cluster) -> Units {
    assigned(&serde_json::from_str(&cluster.kubectl().ok("get assignments -o json")).unwrap())
}

/// Returns the holder and the epoch of each unit in a list of Assignments.
pub(crate) fn assigned(list: &Value) -> Units {
    let each = list["items"].as_array().unwrap().iter().map(|unit| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let epoch = text(&unit["metadata"]["resourceVersion"]).parse().unwrap();
        (text(&unit["metadata"]["name"]), (text(&unit["spec"]["holderIdentity"]), epoch))
    });
    each.collect()
}

/// Returns the number of units that each member of a role holds.
fn loads(units: &Units, of_role: impl Fn(&str) -> bool) -> BTreeMap<String, usize> {
    units.iter().filter(|(name, _)| of_role(name)).fold(BTreeMap::new(), |mut loads, (_, (holder, _))| {
        *loads.entry(holder.clone()).or_default() += 1;
        loads
    })
}

/// Units of controllers: sixteen shards and one for each controller that is not sharded.
pub(crate) const UNITS: usize = 20;

/// Waits until all units are held, spread evenly over this many controller managers and schedulers.
fn shared_by(cluster: &Cluster, managers: usize, of_schedulers: usize) -> Units {
    shared(|| units(cluster), managers, of_schedulers)
}

/// Waits as [`shared_by`] does, for the units that `read` returns.
pub(crate) fn shared(read: impl Fn() -> Units, managers: usize, of_schedulers: usize) -> Units {
    shared_of(read, UNITS, managers, of_schedulers)
}

/// Waits as [`shared`] does, where controllers have this many units.
pub(crate) fn shared_of(read: impl Fn() -> Units, all: usize, managers: usize, of_schedulers: usize) -> Units {
    eventually("the units are shared", || {
        let units = read();
        let controllers = loads(&units, |name| name.starts_with("controllers-") || name.starts_with("singleton-"));
        let schedulers = loads(&units, |name| name.starts_with("shards-") || name == "arbiter");
        let even = |loads: &BTreeMap<String, usize>| {
            loads.values().max().unwrap_or(&0) - loads.values().min().unwrap_or(&0) <= 1
        };
        let sum = |loads: &BTreeMap<String, usize>| loads.values().sum::<usize>();
        let all = sum(&controllers) == all && (of_schedulers == 0 || sum(&schedulers) == 17);
        let by_all = controllers.len() == managers && schedulers.len() == of_schedulers;
        let shared = all && by_all && even(&controllers) && even(&schedulers);
        if shared { Ok(units) } else { Err(format!("{controllers:?} {schedulers:?}")) }
    })
}

/// The process that holds a unit, by the logs, in which members report their units.
fn holder<'a>(units: &Units, unit: &str, processes: &'a mut [Process]) -> &'a mut Process {
    let (name, _) = &units[unit];
    let found = processes.iter_mut().find(|process| process.said().contains(&format!("member=\"{name}\"")));
    found.unwrap_or_else(|| panic!("nobody says that it is {name}"))
}

fn ready(cluster: &Cluster, deployments: &str) {
    cluster.kubectl().until("get deployments -o jsonpath={.items[*].status.readyReplicas}", |said| said == deployments);
}
