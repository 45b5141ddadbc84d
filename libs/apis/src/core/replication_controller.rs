//! Defaults and validation of ReplicationController.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::ReplicationControllerSpec;
use oarlock_schema::{Struct, Value};

/// Sets selector and labels to the template's labels (upstream `SetDefaults_ReplicationController`).
pub fn default(node: &mut Struct) {
    let Some(labels) = node.at(&["spec", "template", "metadata", "labels"]).cloned() else { return };
    let empty = |v: Option<&Value>| v.and_then(Value::as_map).is_none_or(oarlock_schema::Map::is_empty);
    if empty(node.at(&["spec", "selector"])) {
        node.set_at(&["spec", "selector"], labels.clone());
    }
    if empty(node.at(&["metadata", "labels"])) {
        node.set_at(&["metadata", "labels"], labels);
    }
}

/// Validates like upstream's `ValidateReplicationControllerSpec`; the table's row checks the numbers.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = ReplicationControllerSpec::new(node);
    if spec.selector().is_empty() {
        errors.push(FieldError::required(&path.child("selector"), ""));
    }
    let at = path.child("template");
    let Some(template) = spec.template() else {
        errors.push(FieldError::required(&at, ""));
        return;
    };
    let labels = template.metadata().labels();
    if spec.selector().iter().any(|(key, value)| labels.get(key) != Some(value)) {
        let shown = crate::rules::show::value(template.metadata().node().and_then(|m| m.get("labels")));
        let at = at.child("metadata");
        errors.push(FieldError::invalid(&at.child("labels"), shown, "`selector` does not match template `labels`"));
    }
}

/// Validates the fields that upstream checks after the template.
pub fn after(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(template) = ReplicationControllerSpec::new(node).template() {
        crate::apps::workload::endless(template, "ReplicationController", path, errors);
    }
}
