//! Reads a machine's statistics from `/proc` and its file systems for the summary (cAdvisor's values of the root cgroup).

use std::io;
use std::path::Path;

use oarlock_meta::Time;
use oarlock_runtime::clock;
use serde_json::{Map, Value, json};

/// Returns all statistics of the machine. `root` is the directory of pods, `images` that of images, if known.
pub(super) fn figures(root: &Path, images: Option<&Path>) -> io::Result<Map<String, Value>> {
    let read = |name: &str| std::fs::read_to_string(Path::new("/proc").join(name));
    let (stat, memory, faults) = (read("stat")?, read("meminfo")?, read("vmstat")?);
    let now = Time::from_unix(clock::wall().as_second()).to_string();
    let (kept, images) = (space(root, &now)?, images.map(|images| space(images, &now)).transpose()?);
    let all = json!({
        "startTime": Time::from_unix(field(&stat, "btime").and_then(|at| i64::try_from(at).ok()).unwrap_or(0)).to_string(),
        "cpu": {"time": now, "usageCoreNanoSeconds": busy(&stat)},
        "memory": memory_of(&memory, &faults, &now),
        "network": network(&read("net/dev")?, &read("net/route")?, &now),
        "fs": kept,
        "runtime": images.map(|images| json!({"imageFs": images})),
        "rlimit": {"time": now, "maxpid": read("sys/kernel/pid_max")?.trim().parse::<u64>().ok(), "curproc": tasks(&read("loadavg")?)},
    });
    let Value::Object(all) = all else { return Ok(Map::new()) };
    Ok(all.into_iter().filter(|(_, value)| !value.is_null()).collect())
}

/// Returns the number after a name, as in `name 12` or `name: 12 kB`, in the unit of the text.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix([' ', ':']))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the nanoseconds during which processors were busy, summed over all.
fn busy(stat: &str) -> Option<u64> {
    let ticks: Vec<u64> = stat.lines().next()?.split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
    // Columns: user nice system idle iowait irq softirq steal; guest time is included in user.
    let used: u64 = ticks.iter().take(8).enumerate().filter(|(at, _)| !matches!(at, 3 | 4)).map(|(_, n)| n).sum();
    Some(used.saturating_mul(1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)))
}

fn memory_of(meminfo: &str, vmstat: &str, now: &str) -> Value {
    let bytes = |name: &str| field(meminfo, name).map(|kibi| kibi << 10);
    let (total, free, available) = (bytes("MemTotal"), bytes("MemFree"), bytes("MemAvailable"));
    let less = |part: Option<u64>| Some(total?.saturating_sub(part?));
    json!({
        "time": now,
        "availableBytes": available,
        "usageBytes": less(free),
        "workingSetBytes": less(available),
        "rssBytes": bytes("AnonPages"),
        "pageFaults": field(vmstat, "pgfault"),
        "majorPageFaults": field(vmstat, "pgmajfault"),
    })
}

/// Returns statistics of every interface except loopback; the default route's comes first, and serves as the node's own.
fn network(dev: &str, route: &str, now: &str) -> Value {
    let mut hops = route.lines().skip(1).filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?, words.next()?))
    });
    let default = hops.find(|(_, to)| *to == "00000000").map(|(name, _)| name);
    let one = |line: &str| {
        let (name, numbers) = line.split_once(':')?;
        let numbers: Vec<u64> = numbers.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        let at = |index: usize| numbers.get(index).copied();
        let shown =
            json!({"name": name.trim(), "rxBytes": at(0), "rxErrors": at(2), "txBytes": at(8), "txErrors": at(10)});
        (name.trim() != "lo").then_some(shown)
    };
    let interfaces: Vec<Value> = dev.lines().filter_map(one).collect();
    let own = interfaces.iter().find(|shown| default.is_some() && shown.get("name").and_then(Value::as_str) == default);
    let mut shown = own.cloned().unwrap_or_else(|| json!({}));
    if let Value::Object(map) = &mut shown {
        map.insert("time".to_owned(), now.into());
        map.insert("interfaces".to_owned(), interfaces.into());
    }
    shown
}

/// Returns the number of threads.
fn tasks(loadavg: &str) -> Option<u64> {
    loadavg.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

fn space(dir: &Path, now: &str) -> io::Result<Value> {
    let there = dir.ancestors().find(|dir| dir.is_dir()).unwrap_or(Path::new("/"));
    let fs = rustix::fs::statvfs(there)?;
    Ok(json!({
        "time": now,
        "capacityBytes": fs.f_blocks.saturating_mul(fs.f_frsize),
        "availableBytes": fs.f_bavail.saturating_mul(fs.f_frsize),
        "usedBytes": fs.f_blocks.saturating_sub(fs.f_bfree).saturating_mul(fs.f_frsize),
        "inodes": fs.f_files,
        "inodesFree": fs.f_ffree,
        "inodesUsed": fs.f_files.saturating_sub(fs.f_ffree),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_used_something() {
        let all = figures(Path::new("/nowhere/yet"), Some(Path::new("/"))).unwrap();
        let number = |path: &[&str]| {
            let found = path.iter().skip(1).fold(&all[path[0]], |value, name| &value[*name]);
            found.as_u64().unwrap_or_else(|| panic!("{path:?}: {all:?}"))
        };
        assert!(number(&["cpu", "usageCoreNanoSeconds"]) > 1_000_000_000);
        assert!(
            number(&["memory", "workingSetBytes"])
                < number(&["memory", "usageBytes"]) + number(&["memory", "availableBytes"])
        );
        assert!(number(&["memory", "pageFaults"]) >= number(&["memory", "majorPageFaults"]));
        assert!(number(&["fs", "usedBytes"]) < number(&["fs", "capacityBytes"]));
        assert!(number(&["runtime", "imageFs", "inodes"]) >= number(&["runtime", "imageFs", "inodesFree"]));
        assert!(number(&["rlimit", "curproc"]) > 0 && number(&["rlimit", "maxpid"]) > number(&["rlimit", "curproc"]));
    }

    #[test]
    fn the_default_route_names_the_nodes_own_interface() {
        let dev = "Inter-|   Receive\n face |bytes\n    lo: 1 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0\n  eth1: 5 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0\n  eth0: 7 1 2 0 0 0 0 0 8 1 3 0 0 0 0 0\n";
        let route = "Iface\tDestination\tGateway\neth1\t0000A8C0\t0\neth0\t00000000\t0101A8C0\n";
        let shown = network(dev, route, "t");
        assert_eq!((&shown["name"], &shown["rxBytes"], &shown["txErrors"]), (&json!("eth0"), &json!(7), &json!(3)));
        assert_eq!(shown["interfaces"].as_array().unwrap().len(), 2, "{shown}");
        let none = network(dev, "Iface\n", "t");
        assert!(none.get("name").is_none() && none["interfaces"].is_array(), "{none}");
    }

    #[test]
    fn idle_time_is_not_used() {
        let hertz = rustix::param::clock_ticks_per_second();
        let stat = format!("cpu  {hertz} 0 {hertz} 99 99 0 0 0 55 0\nbtime 12\n");
        assert_eq!(busy(&stat), Some(2_000_000_000));
        assert_eq!(field(&stat, "btime"), Some(12));
    }
}
