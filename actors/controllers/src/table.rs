//! The table of controllers.

use crate::env::Starter;
use crate::{
    aggregation, cloud_node, cloud_node_lifecycle, deployment, endpoints, endpointslice, garbage, job, namespace,
    node_lifecycle, pod_garbage, replicaset, root_ca, service_lb, serviceaccount, taint_eviction, ttl,
    ttl_after_finished,
};

/// Where a controller runs when there are several processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Partitioned by the key that owns the decision: its unit is `controllers/<hash>`.
    Key,
    /// In one place: its unit is `singleton/<name>`.
    Singleton,
    /// With all others that reach the cloud: its unit is `cloud`, which moves when its holder has certainly stopped.
    Cloud,
}

/// One controller.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Upstream's name, as `--controllers` takes it.
    pub name: &'static str,
    /// Its ServiceAccount in kube-system; the role bound to it is `system:controller:<account>`.
    pub account: &'static str,
    /// What names it in Events and field managers.
    pub component: &'static str,
    /// The resources it watches.
    pub watches: &'static [&'static str],
    /// How many keys are reconciled at once.
    pub workers: usize,
    /// Where it runs.
    pub placement: Placement,
    /// Why it runs there.
    pub why: &'static str,
    pub(crate) start: Starter,
}

/// Every controller that needs nothing but the API, sorted by name.
pub static ROWS: &[Row] = &[
    aggregation::ROW,
    deployment::ROW,
    endpoints::ROW,
    endpointslice::ROW,
    garbage::ROW,
    job::ROW,
    namespace::ROW,
    node_lifecycle::ROW,
    pod_garbage::ROW,
    replicaset::ROW,
    root_ca::ROW,
    serviceaccount::ROW,
    taint_eviction::ROW,
    ttl_after_finished::ROW,
    ttl::ROW,
];

/// Every controller that reaches a cloud, sorted by name.
pub static CLOUD_ROWS: &[Row] = &[cloud_node::ROW, cloud_node_lifecycle::ROW, service_lb::ROW];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_sorted_and_complete() {
        for rows in [ROWS, CLOUD_ROWS] {
            let names: Vec<_> = rows.iter().map(|row| row.name).collect();
            assert!(names.is_sorted(), "{names:?}");
        }
        let all = || ROWS.iter().chain(CLOUD_ROWS);
        assert_eq!(all().map(|row| row.name).collect::<BTreeSet<_>>().len(), all().count(), "a name twice");
        let components: BTreeSet<_> = all().map(|row| row.component).collect();
        assert_eq!(components.len(), all().count(), "two would share one recorder");
        assert!(CLOUD_ROWS.iter().all(|row| row.placement == Placement::Cloud));
        for row in all() {
            assert!(row.name.ends_with("-controller"), "{}", row.name);
            assert!(!row.why.is_empty() && !row.watches.is_empty() && row.workers > 0, "{}", row.name);
        }
    }

    #[test]
    fn watched_resources_exist_and_are_named_once() {
        for row in ROWS.iter().chain(CLOUD_ROWS) {
            let unique: BTreeSet<_> = row.watches.iter().collect();
            assert_eq!(unique.len(), row.watches.len(), "{}", row.name);
            for watched in row.watches.iter().filter(|watched| **watched != "*") {
                let known = oarlock_schema::RESOURCES.iter().any(|resource| resource.plural == *watched);
                assert!(known, "{}: no resource {watched}", row.name);
            }
        }
    }
}
