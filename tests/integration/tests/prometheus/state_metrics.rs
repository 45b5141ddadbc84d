//! kube-state-metrics, built from its Go module, reads our API server unchanged: it makes metrics of the objects that it lists and watches.

use std::collections::BTreeMap;
use std::process::Command;

use oarlock_testkit::http::Who;
use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Cluster, Process, metrics, port};

use super::plain_http;

/// Objects of the kinds that dashboards show.
const OBJECTS: &str = include_str!("objects.yaml");

/// The metrics of objects that dashboards and alert rules ask for.
const ASKED: &[&str] = &[
    "kube_daemonset_status_current_number_scheduled",
    "kube_daemonset_status_desired_number_scheduled",
    "kube_daemonset_status_number_available",
    "kube_daemonset_status_number_misscheduled",
    "kube_daemonset_status_updated_number_scheduled",
    "kube_deployment_metadata_generation",
    "kube_deployment_spec_replicas",
    "kube_deployment_status_condition",
    "kube_deployment_status_observed_generation",
    "kube_deployment_status_replicas_available",
    "kube_deployment_status_replicas_updated",
    "kube_horizontalpodautoscaler_spec_max_replicas",
    "kube_horizontalpodautoscaler_spec_min_replicas",
    "kube_job_failed",
    "kube_job_owner",
    "kube_job_status_active",
    "kube_job_status_start_time",
    "kube_namespace_status_phase",
    "kube_node_info",
    "kube_node_role",
    "kube_node_spec_taint",
    "kube_node_spec_unschedulable",
    "kube_node_status_allocatable",
    "kube_node_status_capacity",
    "kube_node_status_condition",
    "kube_persistentvolume_status_phase",
    "kube_persistentvolumeclaim_access_mode",
    "kube_pod_container_resource_limits",
    "kube_pod_container_resource_requests",
    "kube_pod_info",
    "kube_pod_owner",
    "kube_pod_status_phase",
    "kube_pod_status_ready",
    "kube_pod_status_reason",
    "kube_poddisruptionbudget_status_current_healthy",
    "kube_poddisruptionbudget_status_desired_healthy",
    "kube_replicaset_owner",
    "kube_resourcequota",
    "kube_statefulset_metadata_generation",
    "kube_statefulset_replicas",
    "kube_statefulset_status_current_revision",
    "kube_statefulset_status_observed_generation",
    "kube_statefulset_status_replicas_ready",
    "kube_statefulset_status_replicas_updated",
    "kube_statefulset_status_update_revision",
];

#[test]
fn it_makes_the_metrics_that_dashboards_ask_for() {
    let Some(bin) = crate::swaps::programs(&["kube-state-metrics"]) else { return };
    let cluster = Cluster::up(&["--nodes", "2"]);
    let kubectl = cluster.kubectl();
    let _applied = kubectl.run_with("apply -f -", OBJECTS).ok();
    // The status of a quota is written by a controller that is not there yet.
    let headers = [("content-type", "application/merge-patch+json")];
    let status = br#"{"status": {"hard": {"pods": "100"}, "used": {"pods": "2"}}}"#;
    let path = "/api/v1/namespaces/default/resourcequotas/all/status";
    assert_eq!(cluster.http(Who::Admin).send("PATCH", path, &headers, status).code, 200);
    kubectl.ok("label node node-0 node-role.kubernetes.io/worker=");
    kubectl.ok("taint node node-1 example.com/busy=yes:PreferNoSchedule");
    let (own, telemetry) = (port::own(), port::own());
    let mut command = Command::new(bin.join("kube-state-metrics"));
    command.args(["--host", "127.0.0.1", "--telemetry-host", "127.0.0.1", "--kubeconfig"]).arg(cluster.kubeconfig());
    command.args(["--port", &own.to_string(), "--telemetry-port", &telemetry.to_string()]);
    let program = Process::start(command, "kube-state-metrics");
    let samples = eventually("every metric has a sample", || {
        let text = plain_http(own, "/metrics")?;
        let samples = metrics::samples(&text);
        let missing: Vec<_> = ASKED.iter().filter(|name| !samples.iter().any(|one| one.name == **name)).collect();
        if missing.is_empty() { Ok(samples) } else { Err(format!("missing: {missing:?}")) }
    });
    let of = |name: &str, labels: &[(&str, &str)]| {
        let wanted: BTreeMap<&str, &str> = labels.iter().copied().collect();
        let fits = |one: &&metrics::Sample| {
            one.name == name && wanted.iter().all(|(key, value)| one.labels.get(*key).is_some_and(|own| own == value))
        };
        samples.iter().find(fits).map(|one| one.value)
    };
    assert_eq!(of("kube_deployment_spec_replicas", &[("deployment", "web")]), Some(2.0));
    assert_eq!(of("kube_node_role", &[("node", "node-0"), ("role", "worker")]), Some(1.0));
    assert_eq!(of("kube_node_spec_taint", &[("node", "node-1"), ("key", "example.com/busy")]), Some(1.0));
    // A later change arrives by its watch.
    kubectl.ok("scale deployment web --replicas=3");
    eventually("the watch shows the change", || {
        let text = plain_http(own, "/metrics")?;
        let line = "kube_deployment_status_replicas_available{namespace=\"default\",deployment=\"web\"} 3";
        if text.lines().any(|known| known == line) { Ok(()) } else { Err("not yet".to_owned()) }
    });
    let refused: Vec<String> = program
        .said()
        .lines()
        .filter(|line| line.starts_with('E') && line.contains("reflector.go"))
        .map(str::to_owned)
        .collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
