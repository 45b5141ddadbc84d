//! Controllers and schedulers in several processes: all work, nobody works on what is another's, and the loss of one is made good.

mod takeover;

use std::collections::BTreeMap;
use std::process::Command;

use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Cluster, Process};
use serde_json::Value;

const API_ONLY: [&str; 2] = ["--disable", "scheduler,controller-manager,kubelet"];

/// One of our parts in a process of its own.
fn part(cluster: &Cluster, name: &str, more: &[&str]) -> Process {
    let mut command = Command::new(oarlock_testkit::oarlock());
    command.arg(name).arg("--kubeconfig").arg(cluster.data_dir().component_kubeconfig(name)).args(more);
    Process::start(command, name)
}

/// Simulated nodes.
fn nodes(cluster: &Cluster, count: &str) -> Process {
    let folder = cluster.data_dir().root().display().to_string();
    part(cluster, "kubelet", &["--runtime", "sim", "--count", count, "--data-dir", &folder])
}

/// Each unit with its holder and epoch.
type Units = BTreeMap<String, (String, u64)>;

fn units(cluster: &Cluster) -> Units {
    let list: Value = serde_json::from_str(&cluster.kubectl().ok("get assignments -o json")).unwrap();
    let each = list["items"].as_array().unwrap().iter().map(|unit| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let epoch = text(&unit["metadata"]["resourceVersion"]).parse().unwrap();
        (text(&unit["metadata"]["name"]), (text(&unit["spec"]["holderIdentity"]), epoch))
    });
    each.collect()
}

/// How many units of controllers each member holds.
fn loads(units: &Units) -> BTreeMap<String, usize> {
    let works =
        |(name, _): &(&String, &(String, u64))| name.starts_with("controllers-") || name.starts_with("singleton-");
    units.iter().filter(works).fold(BTreeMap::new(), |mut loads, (_, (holder, _))| {
        *loads.entry(holder.clone()).or_default() += 1;
        loads
    })
}

/// Waits until all units of controllers are held, evenly by so many.
fn shared_by(cluster: &Cluster, members: usize) -> Units {
    eventually("the units are shared", || {
        let units = units(cluster);
        let loads = loads(&units);
        let (most, least) = (loads.values().max().unwrap_or(&0), loads.values().min().unwrap_or(&0));
        let even = loads.len() == members && loads.values().sum::<usize>() == 19 && most - least <= 1;
        if even { Ok(units) } else { Err(format!("{loads:?}")) }
    })
}
