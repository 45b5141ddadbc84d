//! `/configz`: how this kubelet is configured, in the words of `KubeletConfiguration`. What upstream can be told and this one cannot is not shown.

use std::time::Duration;

use oarlock_meta::GoDuration;
use serde_json::{Map, Value, json};

use crate::config::Machine;
use crate::fleet::KubeletHandle;
use crate::node::{CHECK, LEASE_SECONDS, REPORT};
use crate::{image_gc, log_rotation, machine, manifests, tell};

/// The answer.
pub(super) fn configz(node: &KubeletHandle) -> Vec<u8> {
    let mut all = json!({
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "fileCheckFrequency": span(manifests::LOOK),
        "nodeStatusUpdateFrequency": span(CHECK),
        "nodeStatusReportFrequency": span(Duration::from_secs(REPORT.unsigned_abs())),
        "nodeLeaseDurationSeconds": LEASE_SECONDS,
        "eventRecordQPS": 1000 / tell::REFILL.as_millis(),
        "eventBurst": tell::BURST,
        "port": node.port(),
    });
    if let (Value::Object(all), Some(machine)) = (&mut all, node.machine()) {
        all.extend(of_machine(machine));
    }
    json!({"kubeletconfig": all}).to_string().into_bytes()
}

fn of_machine(machine: &Machine) -> Map<String, Value> {
    let all = json!({
        "syncFrequency": span(machine.sync_frequency),
        "clusterDomain": machine.cluster_domain,
        "clusterDNS": machine.cluster_dns,
        "resolvConf": machine.resolv_conf,
        "podLogsDir": machine.pod_logs_dir,
        "cgroupRoot": machine.cgroup_root,
        "cgroupDriver": "cgroupfs",
        "maxPods": machine::PODS,
        "imageGCHighThresholdPercent": image_gc::HIGH,
        "imageGCLowThresholdPercent": image_gc::LOW,
        "imageMinimumGCAge": span(Duration::from_secs(image_gc::YOUNG.unsigned_abs())),
        "containerLogMaxSize": format!("{}Mi", log_rotation::LARGEST >> 20),
        "containerLogMaxFiles": log_rotation::FILES,
        "containerLogMonitorInterval": span(crate::node::ROTATE),
    });
    if let Value::Object(all) = all { all } else { Map::new() }
}

/// As Go writes it.
fn span(span: Duration) -> String {
    GoDuration::from_nanos(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)).to_string()
}
