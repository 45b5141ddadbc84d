//! Defaults and validation of Deployment and ReplicaSet.

use oarlock_meta::field::Raw;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::apps_v1::{DeploymentSpec, DeploymentStrategy, DeploymentStrategyMut, ReplicaSetSpec};

use super::workload::{count_or_share, endless, is_nothing, selection, shown};
use crate::rules::show;

/// Sets the defaults of a rolling update: a quarter of the pods at a time (upstream `SetDefaults_Deployment`).
pub fn default_strategy(node: &mut Struct) {
    let mut strategy = DeploymentStrategyMut::new(node);
    if strategy.read().type_() != "RollingUpdate" {
        return;
    }
    let mut rolling = strategy.rolling_update_mut();
    if rolling.read().max_unavailable().is_none() {
        rolling.set_max_unavailable("25%");
    }
    if rolling.read().max_surge().is_none() {
        rolling.set_max_surge("25%");
    }
}

/// Validates like upstream's `ValidateDeploymentSpec`; the table's row checks the numbers.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = DeploymentSpec::new(node);
    selection(spec.selector(), spec.template(), "deployment", path, errors);
}

/// Validates the fields that upstream checks after the template.
pub fn after(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = DeploymentSpec::new(node);
    endless(spec.template(), "ReplicaSet", path, errors);
    if let Some(seconds) = spec.progress_deadline_seconds().filter(|s| *s <= spec.min_ready_seconds()) {
        let at = path.child("progressDeadlineSeconds");
        errors.push(FieldError::invalid(&at, seconds, "must be greater than minReadySeconds"));
    }
}

/// Validates the strategy for replacing pods.
pub fn validate_strategy(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let strategy = DeploymentStrategy::new(node);
    let at = path.child("rollingUpdate");
    match (strategy.type_(), strategy.rolling_update()) {
        ("Recreate", Some(_)) => {
            errors.push(FieldError::forbidden(&at, "may not be specified when strategy `type` is 'Recreate'"));
        }
        ("Recreate", None) => {}
        ("RollingUpdate", None) => errors.push(FieldError::required(&at, "this should be defaulted and never be nil")),
        ("RollingUpdate", Some(rolling)) => {
            let unavailable = at.child("maxUnavailable");
            count_or_share(rolling.max_unavailable(), true, &unavailable, errors);
            count_or_share(rolling.max_surge(), false, &at.child("maxSurge"), errors);
            if is_nothing(rolling.max_unavailable()) && is_nothing(rolling.max_surge()) {
                let value = rolling.node().and_then(|n| n.get("maxUnavailable"));
                errors.push(FieldError::invalid(&unavailable, shown(value), "may not be 0 when `maxSurge` is 0"));
            }
        }
        _ => errors.push(FieldError::not_supported(path, Raw(show::internal(node)), &["Recreate", "RollingUpdate"])),
    }
}

/// Validates like upstream's `ValidateReplicaSetSpec`; the table's row checks the numbers.
pub fn validate_replica_set(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = ReplicaSetSpec::new(node);
    selection(spec.selector(), spec.template(), "deployment", path, errors);
}

/// Validates the fields that upstream checks after the template.
pub fn after_replica_set(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    endless(ReplicaSetSpec::new(node).template(), "ReplicaSet", path, errors);
}
