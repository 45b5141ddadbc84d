//! The tables of all controllers.

use crate::apps::{daemonset, deployment, replicaset, statefulset};
use crate::batch::{job, ttl_after_finished};
use crate::certificates::root_ca_publisher;
use crate::cloud::{self, service_lb};
use crate::core::{
    clusterrole_aggregation, endpoints, endpointslice, garbage_collector, namespace, pod_garbage_collector,
    serviceaccount,
};
use crate::harness::Row;
use crate::nodes::{node_lifecycle, taint_eviction, ttl};

/// The controllers of kube-controller-manager, sorted by name.
pub(crate) static ROWS: &[Row] = &[
    clusterrole_aggregation::ROW,
    daemonset::ROW,
    deployment::ROW,
    endpoints::ROW,
    endpointslice::ROW,
    garbage_collector::ROW,
    job::ROW,
    namespace::ROW,
    node_lifecycle::ROW,
    pod_garbage_collector::ROW,
    replicaset::ROW,
    root_ca_publisher::ROW,
    serviceaccount::ROW,
    statefulset::ROW,
    taint_eviction::ROW,
    ttl_after_finished::ROW,
    ttl::ROW,
];

/// The feature gates that change what a controller of kube-controller-manager does, by controller.
pub(crate) static GATES: &[&[&str]] = &[statefulset::GATES];

/// The controllers of cloud-controller-manager, sorted by name.
pub(crate) static CLOUD_ROWS: &[Row] = &[cloud::node::ROW, cloud::node_lifecycle::ROW, service_lb::ROW];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use oarlock_schema::FeatureGates;

    use super::*;
    use crate::harness::{Requirement, Spread};

    fn all() -> impl Iterator<Item = &'static Row> {
        ROWS.iter().chain(CLOUD_ROWS)
    }

    #[test]
    fn names_are_unique_sorted_and_complete() {
        for rows in [ROWS, CLOUD_ROWS] {
            let names: Vec<_> = rows.iter().map(|row| row.name).collect();
            assert!(names.is_sorted(), "{names:?}");
        }
        let names: Vec<&str> = all().flat_map(|row| row.aliases.iter().chain([&row.name])).copied().collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "a name or alias twice");
        let components: BTreeSet<_> = all().map(|row| row.component).collect();
        assert_eq!(components.len(), all().count(), "two would share one recorder");
        for row in all() {
            assert!(row.name.ends_with("-controller"), "{}", row.name);
            assert!(!row.why.is_empty() && row.workers.default > 0, "{}", row.name);
        }
    }

    #[test]
    fn what_reaches_the_cloud_declares_it() {
        for row in all() {
            let cloud = CLOUD_ROWS.iter().any(|one| one.name == row.name);
            assert_eq!(row.spread == Spread::Cloud, cloud, "{}", row.name);
            assert_eq!(row.needs.contains(&Requirement::Cloud), cloud, "{}", row.name);
        }
    }

    #[test]
    fn gates_of_rows_exist() {
        let gates = FeatureGates::default();
        for gate in all().filter_map(|row| row.gate).chain(GATES.iter().copied().flatten().copied()) {
            assert!(gates.iter().any(|(known, _)| known.name == gate), "{gate}: a gate that nobody knows counts as on");
        }
    }
}
