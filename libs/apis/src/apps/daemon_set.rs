//! Defaults and validation of DaemonSet.

use oarlock_meta::field::Raw;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::apps_v1::{
    DaemonSetMut, DaemonSetSpec, DaemonSetUpdateStrategy, DaemonSetUpdateStrategyMut,
};

use super::workload::{count_or_share, endless, is_nothing, matching, shown};
use crate::rules::{selector, show};

/// The annotation with the number of templates so far, a field of the old extensions API. The server increments the number.
pub const TEMPLATE_COUNT: &str = "deprecated.daemonset.template.generation";

/// Sets the annotation [`TEMPLATE_COUNT`] to zero if absent.
pub fn default(node: &mut Struct) {
    let mut set = DaemonSetMut::new(node);
    if set.read().metadata().annotations().get(TEMPLATE_COUNT).is_none() {
        set.metadata_mut().annotations_mut().insert(TEMPLATE_COUNT, "0");
    }
}

/// Sets the defaults of a rolling update: one node at a time (upstream `SetDefaults_DaemonSet`).
pub fn default_strategy(node: &mut Struct) {
    let mut strategy = DaemonSetUpdateStrategyMut::new(node);
    if strategy.read().type_() != "RollingUpdate" {
        return;
    }
    let mut rolling = strategy.rolling_update_mut();
    if rolling.read().max_unavailable().is_none() {
        rolling.set_max_unavailable(1);
    }
    if rolling.read().max_surge().is_none() {
        rolling.set_max_surge(0);
    }
}

/// Validates like upstream's `ValidateDaemonSetSpec`, which reports a missing selector only as one that matches nothing.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = DaemonSetSpec::new(node);
    if let Some(chosen) = spec.selector().filter(|s| selector::is_empty(*s)) {
        let value = Raw(chosen.node().map(show::node).unwrap_or_default());
        errors.push(FieldError::invalid(&path.child("selector"), value, "empty selector is invalid for daemonset"));
    }
    matching(spec.selector(), spec.template(), path, errors);
}

/// Validates the fields that upstream checks after the template.
pub fn after(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    endless(DaemonSetSpec::new(node).template(), "DaemonSet", path, errors);
}

/// Validates the update strategy: either old pods are deleted first or new pods start first.
pub fn validate_strategy(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let strategy = DaemonSetUpdateStrategy::new(node);
    let at = path.child("rollingUpdate");
    match (strategy.type_(), strategy.rolling_update()) {
        ("OnDelete", _) => {}
        ("RollingUpdate", None) => errors.push(FieldError::required(&at, "")),
        ("RollingUpdate", Some(rolling)) => {
            let (unavailable, surge) = (at.child("maxUnavailable"), at.child("maxSurge"));
            count_or_share(rolling.max_unavailable(), true, &unavailable, errors);
            count_or_share(rolling.max_surge(), true, &surge, errors);
            match (is_nothing(rolling.max_unavailable()), is_nothing(rolling.max_surge())) {
                (false, false) => {
                    let value = shown(rolling.node().and_then(|n| n.get("maxSurge")));
                    errors.push(FieldError::invalid(&surge, value, "may not be set when maxUnavailable is non-zero"));
                }
                (true, true) => errors.push(FieldError::required(&unavailable, "cannot be 0 when maxSurge is 0")),
                _ => {}
            }
        }
        _ => errors.push(FieldError::not_supported(path, Raw(show::internal(node)), &["RollingUpdate", "OnDelete"])),
    }
}
