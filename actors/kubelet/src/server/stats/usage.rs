//! Converts the runtime's statistics of pods and containers for the summary. Missing values are left out.

use oarlock_meta::Time;
use serde_json::{Map, Value, json};

use crate::cri::v1;

fn number(value: Option<v1::UInt64Value>) -> Option<u64> {
    value.map(|value| value.value)
}

fn time(nanos: i64) -> String {
    Time::from_unix(nanos.div_euclid(1_000_000_000)).to_string()
}

/// Returns `base` with the values that are known.
fn known(base: Value, more: &[(&str, Option<u64>)]) -> Value {
    let mut map = match base {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    map.extend(more.iter().filter_map(|(name, value)| Some(((*name).to_owned(), Value::from((*value)?)))));
    Value::Object(map)
}

fn cpu(usage: &v1::CpuUsage) -> Value {
    // The first sample has no rate.
    let rate = number(usage.usage_nano_cores).filter(|rate| *rate > 0);
    let total = number(usage.usage_core_nano_seconds);
    known(json!({"time": time(usage.timestamp)}), &[("usageNanoCores", rate), ("usageCoreNanoSeconds", total)])
}

fn memory(usage: &v1::MemoryUsage) -> Value {
    let all = [
        ("availableBytes", number(usage.available_bytes)),
        ("usageBytes", number(usage.usage_bytes)),
        ("workingSetBytes", number(usage.working_set_bytes)),
        ("rssBytes", number(usage.rss_bytes)),
        ("pageFaults", number(usage.page_faults)),
        ("majorPageFaults", number(usage.major_page_faults)),
    ];
    known(json!({"time": time(usage.timestamp)}), &all)
}

fn interface(usage: &v1::NetworkInterfaceUsage) -> Value {
    let all = [
        ("rxBytes", number(usage.rx_bytes)),
        ("rxErrors", number(usage.rx_errors)),
        ("txBytes", number(usage.tx_bytes)),
        ("txErrors", number(usage.tx_errors)),
    ];
    known(json!({"name": usage.name}), &all)
}

fn network(usage: &v1::NetworkUsage) -> Value {
    let Value::Object(mut shown) = usage.default_interface.as_ref().map_or_else(|| json!({}), interface) else {
        return Value::Null;
    };
    shown.insert("time".to_owned(), time(usage.timestamp).into());
    let all = usage.default_interface.iter().chain(&usage.interfaces).map(interface);
    shown.insert("interfaces".to_owned(), all.collect());
    Value::Object(shown)
}

fn put(into: &mut Value, name: &str, value: Option<Value>) {
    if let (Value::Object(map), Some(value)) = (into, value) {
        map.insert(name.to_owned(), value);
    }
}

/// Returns the statistics of a pod, if the runtime has any.
pub(super) fn of_pod<'a>(all: &'a [v1::PodSandboxStats], uid: &str) -> Option<&'a v1::LinuxPodSandboxStats> {
    let own = all.iter().find(|stats| {
        let named = stats.attributes.as_ref().and_then(|attributes| attributes.metadata.as_ref());
        named.is_some_and(|meta| meta.uid == uid)
    });
    own.and_then(|stats| stats.linux.as_ref())
}

/// Adds a pod's statistics to its entry in the summary.
pub(super) fn pod(used: Option<&v1::LinuxPodSandboxStats>, mut shown: Value) -> Value {
    if let Some(used) = used {
        put(&mut shown, "cpu", used.cpu.as_ref().map(cpu));
        put(&mut shown, "memory", used.memory.as_ref().map(memory));
        put(&mut shown, "network", used.network.as_ref().map(network));
        let processes = used.process.as_ref().and_then(|process| number(process.process_count));
        put(&mut shown, "process_stats", processes.map(|count| json!({"process_count": count})));
    }
    shown
}

/// Adds a container's statistics to its entry in the summary.
pub(super) fn of_container(used: Option<&v1::LinuxPodSandboxStats>, name: &str, mut shown: Value) -> Value {
    let mut all = used.into_iter().flat_map(|used| &used.containers);
    let named = |stats: &&v1::ContainerStats| {
        let meta = stats.attributes.as_ref().and_then(|attributes| attributes.metadata.as_ref());
        meta.is_some_and(|meta| meta.name == name)
    };
    if let Some(used) = all.find(named) {
        put(&mut shown, "cpu", used.cpu.as_ref().map(cpu));
        put(&mut shown, "memory", used.memory.as_ref().map(memory));
        let layer = used.writable_layer.as_ref().map(|layer| {
            let all = [("usedBytes", number(layer.used_bytes)), ("inodesUsed", number(layer.inodes_used))];
            known(json!({"time": time(layer.timestamp)}), &all)
        });
        put(&mut shown, "rootfs", layer);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_not_shown() {
        let used = v1::LinuxPodSandboxStats {
            cpu: Some(v1::CpuUsage {
                timestamp: 1_767_225_600_500_000_000,
                usage_core_nano_seconds: Some(v1::UInt64Value { value: 7 }),
                usage_nano_cores: Some(v1::UInt64Value { value: 0 }),
            }),
            ..v1::LinuxPodSandboxStats::default()
        };
        let shown = pod(Some(&used), json!({"podRef": {}}));
        assert_eq!(shown, json!({"podRef": {}, "cpu": {"time": "2026-01-01T00:00:00Z", "usageCoreNanoSeconds": 7}}));
        assert_eq!(pod(None, json!({})), json!({}));
        assert_eq!(of_container(Some(&used), "main", json!({"name": "main"})), json!({"name": "main"}));
    }
}
