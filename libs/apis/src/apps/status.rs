//! Validates statuses of workloads: pod counts must not be negative or contradict one another (upstream `ValidateDeploymentStatus` and similar functions).

use oarlock_meta::{ErrorList, Path};
use oarlock_schema::Struct;

use crate::rules::status::{self, AtMost};

const fn of_all(field: &'static str) -> AtMost {
    AtMost { field, bound: "replicas", called: "status.replicas" }
}

const fn of_ready(called: &'static str) -> AtMost {
    AtMost { field: "availableReplicas", bound: "readyReplicas", called }
}

fn counts(new: &Struct, fields: &[&str], pairs: &[AtMost], errors: &mut ErrorList) {
    let (path, now) = (Path::new("status"), status::of(new));
    status::non_negative(now, fields, &path, errors);
    status::at_most(now, pairs, &path, errors);
}

fn collisions(new: &Struct, old: &Struct, errors: &mut ErrorList) {
    status::only_rises(new, old, "collisionCount", &Path::new("status"), errors);
}

/// Validates like upstream's `ValidateDeploymentStatusUpdate`.
pub fn deployment(new: &Struct, old: &Struct, errors: &mut ErrorList) {
    let fields = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    let pairs =
        [of_all("updatedReplicas"), of_all("readyReplicas"), of_all("availableReplicas"), of_ready("readyReplicas")];
    counts(new, &fields, &pairs, errors);
    collisions(new, old, errors);
}

/// Validates like upstream's `ValidateReplicaSetStatusUpdate`.
pub fn replica_set(new: &Struct, _: &Struct, errors: &mut ErrorList) {
    let fields = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    counts(new, &fields, &replicated(), errors);
}

/// Validates like upstream's `ValidateReplicationControllerStatusUpdate`.
pub fn replication_controller(new: &Struct, _: &Struct, errors: &mut ErrorList) {
    let fields = ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"];
    counts(new, &fields, &replicated(), errors);
}

const fn replicated() -> [AtMost; 4] {
    [of_all("fullyLabeledReplicas"), of_all("readyReplicas"), of_all("availableReplicas"), of_ready("readyReplicas")]
}

/// Validates like upstream's `ValidateStatefulSetStatusUpdate`.
pub fn stateful_set(new: &Struct, old: &Struct, errors: &mut ErrorList) {
    let fields = [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ];
    let pairs = [
        of_all("readyReplicas"),
        of_all("currentReplicas"),
        of_all("updatedReplicas"),
        of_all("availableReplicas"),
        of_ready("status.readyReplicas"),
    ];
    counts(new, &fields, &pairs, errors);
    collisions(new, old, errors);
}

/// Validates like upstream's `ValidateDaemonSetStatusUpdate`.
pub fn daemon_set(new: &Struct, old: &Struct, errors: &mut ErrorList) {
    let fields = [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ];
    counts(new, &fields, &[], errors);
    collisions(new, old, errors);
}
