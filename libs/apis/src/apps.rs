//! Rules of the apps group: defaults, validation and warnings.

use crate::type_rules::TypeRules;

pub mod daemon_set;
pub mod deployment;
pub mod stateful_set;
pub mod status;
pub mod workload;

/// The rules of the apps group's types, one row per type.
pub const TYPES: &[TypeRules] = &[
    TypeRules::of("apps/v1.Deployment").status(status::deployment),
    TypeRules::of("apps/v1.ReplicaSet").status(status::replica_set),
    TypeRules::of("apps/v1.StatefulSet").status(status::stateful_set),
    TypeRules::of("apps/v1.DeploymentSpec")
        .non_negative(&["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"])
        .immutable(&["selector"])
        .validate(deployment::validate)
        .after(deployment::after),
    TypeRules::of("apps/v1.DeploymentStrategy")
        .default(deployment::default_strategy)
        .validate(deployment::validate_strategy),
    TypeRules::of("apps/v1.ReplicaSetSpec")
        .non_negative(&["replicas", "minReadySeconds"])
        .immutable(&["selector"])
        .validate(deployment::validate_replica_set)
        .after(deployment::after_replica_set),
    TypeRules::of("apps/v1.DaemonSet").default(daemon_set::default).status(status::daemon_set),
    TypeRules::of("apps/v1.DaemonSetSpec")
        .non_negative(&["minReadySeconds", "revisionHistoryLimit"])
        .immutable(&["selector"])
        .validate(daemon_set::validate)
        .after(daemon_set::after),
    TypeRules::of("apps/v1.DaemonSetUpdateStrategy")
        .default(daemon_set::default_strategy)
        .validate(daemon_set::validate_strategy),
    TypeRules::of("apps/v1.StatefulSetSpec")
        .non_negative(&["replicas", "minReadySeconds"])
        .default(stateful_set::default)
        .seen_as(stateful_set::with_claims)
        .validate(stateful_set::validate)
        .after(stateful_set::after)
        .create(stateful_set::create)
        .validate_update(stateful_set::validate_update)
        .warnings(stateful_set::warnings),
    TypeRules::of("apps/v1.StatefulSetOrdinals").non_negative(&["start"]),
    TypeRules::of("apps/v1.StatefulSetUpdateStrategy")
        .default(stateful_set::default_strategy)
        .validate(stateful_set::validate_strategy),
    TypeRules::of("apps/v1.StatefulSetPersistentVolumeClaimRetentionPolicy").validate(stateful_set::validate_retention),
    TypeRules::of("apps/v1.ControllerRevision").validate(revision).immutable(&["data"]),
];

/// Validates a revision, which must have data and a non-negative number (upstream `ValidateControllerRevision`).
fn revision(node: &oarlock_schema::Struct, path: &oarlock_meta::Path<'_>, errors: &mut oarlock_meta::ErrorList) {
    if node.get("data").is_none_or(oarlock_schema::Value::is_null) {
        errors.push(oarlock_meta::FieldError::required(&path.child("data"), "data is mandatory"));
    }
    let n = node.get("revision").and_then(oarlock_schema::Value::as_int).unwrap_or(0);
    crate::rules::non_negative(n, &path.child("revision"), errors);
}
