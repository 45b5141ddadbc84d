//! Defaults and validation of StatefulSet.

use oarlock_meta::field::Raw;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::apps_v1::{
    StatefulSetSpec, StatefulSetSpecMut, StatefulSetUpdateStrategy, StatefulSetUpdateStrategyMut,
};
use oarlock_schema::views::core_v1::{PersistentVolumeClaim, PersistentVolumeClaimMut, Volume};
use oarlock_schema::views::{List, View};
use oarlock_schema::{Struct, Value};

use super::workload::{count_or_share, endless, is_nothing, selection, shown};
use crate::rules::{Seen, show};

/// Sets defaults: an absent strategy becomes a rolling update with parameters, a stated one gets no parameters (upstream
/// `SetDefaults_StatefulSet`), and claim templates get their kind and version.
pub fn default(node: &mut Struct) {
    let mut spec = StatefulSetSpecMut::new(node);
    if spec.read().update_strategy().type_().is_empty() {
        let _ = spec.update_strategy_mut().set_type("RollingUpdate").rolling_update_mut();
    }
    if !spec.read().volume_claim_templates().is_empty() {
        for mut claim in spec.volume_claim_templates_mut().iter_mut().filter_map(PersistentVolumeClaimMut::from_value) {
            claim.set_kind("PersistentVolumeClaim").set_api_version("v1");
        }
    }
}

/// Sets the default parameters of a rolling update.
pub fn default_strategy(node: &mut Struct) {
    let mut strategy = StatefulSetUpdateStrategyMut::new(node);
    if strategy.read().type_() != "RollingUpdate" || strategy.read().rolling_update().is_none() {
        return;
    }
    let mut rolling = strategy.rolling_update_mut();
    if rolling.read().partition().is_none() {
        rolling.set_partition(0);
    }
    if rolling.read().max_unavailable().is_none() {
        rolling.set_max_unavailable(1);
    }
}

/// Returns the spec as the controller uses it: each pod gets its claims as volumes, in place of volumes of the same name, and its host name.
pub fn with_claims(node: &Struct) -> Option<Struct> {
    let spec = StatefulSetSpec::new(node);
    let pod = spec.template().spec();
    if spec.volume_claim_templates().is_empty() && pod.hostname().is_empty() && pod.subdomain().is_empty() {
        return None;
    }
    let volumes = volumes(spec.volume_claim_templates(), pod.volumes().values(), str::to_owned);
    let mut seen = node.clone();
    let pod = seen.get_mut("template")?.as_struct_mut()?.get_mut("spec")?.as_struct_mut()?;
    pod.remove_name("hostname");
    pod.remove_name("subdomain");
    pod.set_name("volumes", volumes);
    Some(seen)
}

/// Returns the volumes of a set's pod: one for each claim template, whose claim `claim` names by the template, and those of `present` that have other names.
pub fn volumes(
    templates: List<'_, PersistentVolumeClaim<'_>>,
    present: &[Value],
    claim: impl Fn(&str) -> String,
) -> Value {
    let templates = || templates.iter().map(|template| template.metadata().name());
    let claimed: Seen<&str> = templates().collect();
    let others = present.iter().filter(|v| !claimed.contains(&v.get("name").and_then(Value::as_str).unwrap_or("")));
    let volume = |template: &str| {
        let mut volume = Struct::zero(Volume::TYPE);
        volume.set_name("name", template);
        volume.set_at(&["persistentVolumeClaim", "claimName"], claim(template));
        Value::Struct(volume)
    };
    templates().map(volume).chain(others.cloned()).collect()
}

/// Validates the service name, which is part of the pods' host names. Only new objects are checked; old ones may have invalid names.
pub fn create(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let name = StatefulSetSpec::new(node).service_name();
    if !name.is_empty() {
        crate::rules::label(name, &path.child("serviceName"), errors);
    }
}

/// Validates like upstream's `ValidateStatefulSetSpec`; the table's row checks the numbers.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = StatefulSetSpec::new(node);
    selection(spec.selector(), spec.template(), "statefulset", path, errors);
    if !matches!(spec.pod_management_policy(), "OrderedReady" | "Parallel") {
        let at = path.child("podManagementPolicy");
        errors.push(FieldError::invalid(&at, spec.pod_management_policy(), "must be 'OrderedReady' or 'Parallel'"));
    }
}

/// Validates the fields that upstream checks after the template.
pub fn after(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    endless(StatefulSetSpec::new(node).template(), "StatefulSet", path, errors);
}

/// Validates the strategy for replacing pods.
pub fn validate_strategy(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let strategy = StatefulSetUpdateStrategy::new(node);
    let at = path.child("rollingUpdate");
    match (strategy.type_(), strategy.rolling_update()) {
        ("", _) => errors.push(FieldError::required(path, "")),
        ("OnDelete", Some(rolling)) => {
            let shown = Raw(rolling.node().map(show::internal).unwrap_or_default());
            errors.push(FieldError::invalid(&at, shown, "only allowed for updateStrategy 'RollingUpdate'"));
        }
        ("RollingUpdate", Some(rolling)) => {
            crate::rules::non_negative(rolling.partition().unwrap_or(0), &at.child("partition"), errors);
            let unavailable = at.child("maxUnavailable");
            count_or_share(rolling.max_unavailable(), true, &unavailable, errors);
            if rolling.max_unavailable().is_some() && is_nothing(rolling.max_unavailable()) {
                let value = shown(rolling.node().and_then(|n| n.get("maxUnavailable")));
                errors.push(FieldError::invalid(&unavailable, value, "cannot be 0"));
            }
        }
        ("OnDelete" | "RollingUpdate", None) => {}
        _ => {
            let shown = Raw(show::internal(node));
            errors.push(FieldError::invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'"));
        }
    }
}

/// Validates the retention policy for the claims of deleted pods.
pub fn validate_retention(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    for field in ["whenDeleted", "whenScaled"] {
        let value = node.get(field).and_then(Value::as_str).unwrap_or("");
        crate::rules::one_of(value, &["Retain", "Delete"], &path.child(field), errors);
    }
}

/// The mutable fields of the spec.
const MUTABLE: &[&str] = &[
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

/// Validates like upstream's `ValidateStatefulSetUpdate`.
pub fn validate_update(new: &Struct, old: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let fixed = new.ty().fields.iter().map(|def| def.name).filter(|name| !MUTABLE.contains(name));
    let empty = |v: &Value| v.is_null() || v.as_str() == Some("") || matches!(v, Value::List(l) if l.is_empty());
    let value = |node: &Struct, name: &str| node.get(name).filter(|v| !empty(v)).cloned();
    for name in fixed {
        if value(new, name) != value(old, name) {
            let text = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                        'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
            errors.push(FieldError::forbidden(path, text));
            return;
        }
    }
}

/// Warns of a negative history limit, which keeps all revisions.
pub fn warnings(node: &Struct, path: &Path<'_>, texts: &mut Vec<String>) {
    if StatefulSetSpec::new(node).revision_history_limit().is_some_and(|n| n < 0) {
        let at = path.child("revisionHistoryLimit");
        texts.push(format!("{at}: a negative value retains all historical revisions; a value >= 0 is recommended"));
    }
}
