//! The table of controllers.

use crate::env::Starter;
use crate::{
    aggregation, deployment, endpoints, endpointslice, garbage, namespace, node_lifecycle, pod_garbage, replicaset,
    root_ca, serviceaccount, taint_eviction,
};

/// Where a controller runs when there are several processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Partitioned by the key that owns the decision: its unit is `controllers/<hash>`.
    Key,
    /// In one place: its unit is `singleton/<name>`.
    Singleton,
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

/// Every controller, sorted by name.
pub static ROWS: &[Row] = &[
    aggregation::ROW,
    deployment::ROW,
    endpoints::ROW,
    endpointslice::ROW,
    garbage::ROW,
    namespace::ROW,
    node_lifecycle::ROW,
    pod_garbage::ROW,
    replicaset::ROW,
    root_ca::ROW,
    serviceaccount::ROW,
    taint_eviction::ROW,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_sorted_and_complete() {
        let names: Vec<_> = ROWS.iter().map(|row| row.name).collect();
        let sorted: BTreeSet<_> = names.iter().copied().collect();
        assert_eq!(sorted.len(), names.len(), "a name twice");
        assert_eq!(sorted.into_iter().collect::<Vec<_>>(), names, "not sorted");
        let components: BTreeSet<_> = ROWS.iter().map(|row| row.component).collect();
        assert_eq!(components.len(), ROWS.len(), "two would share one recorder");
        for row in ROWS {
            assert!(row.name.ends_with("-controller"), "{}", row.name);
            assert!(!row.why.is_empty() && !row.watches.is_empty() && row.workers > 0, "{}", row.name);
        }
    }

    #[test]
    fn watched_resources_exist_and_are_named_once() {
        for row in ROWS {
            let unique: BTreeSet<_> = row.watches.iter().collect();
            assert_eq!(unique.len(), row.watches.len(), "{}", row.name);
            for watched in row.watches.iter().filter(|watched| **watched != "*") {
                let known = oarlock_schema::RESOURCES.iter().any(|resource| resource.plural == *watched);
                assert!(known, "{}: no resource {watched}", row.name);
            }
        }
    }
}
