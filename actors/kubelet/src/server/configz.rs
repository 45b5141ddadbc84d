//! `/configz`: this kubelet's configuration in the fields of `KubeletConfiguration`. Fields for which this kubelet has no setting are left out.

use std::time::Duration;

use oarlock_meta::GoDuration;
use serde_json::{Map, Value, json};

use crate::config::Machine;
use crate::fleet::KubeletHandle;
use crate::node::{LEASE_SECONDS, NODE_CHECK_PERIOD, STATUS_REPORT_SECONDS};
use crate::{event_sender, image_gc, log_rotation, machine, manifests};

/// Returns the body of the answer.
pub(super) fn configz(node: &KubeletHandle) -> Vec<u8> {
    let mut all = json!({
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "fileCheckFrequency": span(manifests::FILE_CHECK_PERIOD),
        "nodeStatusUpdateFrequency": span(NODE_CHECK_PERIOD),
        "nodeStatusReportFrequency": span(Duration::from_secs(STATUS_REPORT_SECONDS.unsigned_abs())),
        "nodeLeaseDurationSeconds": LEASE_SECONDS,
        "eventRecordQPS": 1000 / event_sender::TIME_PER_EVENT.as_millis(),
        "eventBurst": event_sender::BURST,
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
        "maxPods": machine::MAX_PODS,
        "imageGCHighThresholdPercent": image_gc::HIGH_THRESHOLD,
        "imageGCLowThresholdPercent": image_gc::LOW_THRESHOLD,
        "imageMinimumGCAge": span(Duration::from_secs(image_gc::MIN_AGE_SECONDS.unsigned_abs())),
        "containerLogMaxSize": format!("{}Mi", log_rotation::MAX_LOG_BYTES >> 20),
        "containerLogMaxFiles": log_rotation::MAX_LOG_FILES,
        "containerLogMonitorInterval": span(crate::node::LOG_CHECK_PERIOD),
    });
    if let Value::Object(all) = all { all } else { Map::new() }
}

/// Formats a duration like Go.
fn span(span: Duration) -> String {
    GoDuration::from_nanos(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)).to_string()
}
