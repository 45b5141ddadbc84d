//! Defaults and validation of CustomResourceDefinition.

use oarlock_meta::field::Raw;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::View;
use oarlock_schema::views::apiextensions_v1::{
    CustomResourceDefinition, CustomResourceDefinitionMut, CustomResourceDefinitionNames, CustomResourceDefinitionSpec,
};
use oarlock_schema::{Struct, Value};

use crate::rules::object_meta::composed_name;
use crate::rules::{self, Seen, formats, show};

/// Sets defaults: names derived from the kind, and the storage version as a stored version (upstream `SetDefaults_CustomResourceDefinition`).
pub fn default(node: &mut Struct) {
    let mut crd = CustomResourceDefinitionMut::new(node);
    let kind = crd.read().spec().names().kind().to_owned();
    let mut spec = crd.spec_mut();
    let mut names = spec.names_mut();
    if names.read().singular().is_empty() {
        names.set_singular(kind.to_lowercase());
    }
    if names.read().list_kind().is_empty() && !kind.is_empty() {
        names.set_list_kind(format!("{kind}List"));
    }
    if crd.read().status().stored_versions().is_empty() {
        let stored: Option<String> =
            crd.read().spec().versions().iter().find(|v| v.storage()).map(|v| v.name().to_owned());
        if let Some(stored) = stored {
            crd.status_mut().set_stored_versions([stored].into_iter().collect::<Value>());
        }
    }
}

/// Validates like upstream's `ValidateCustomResourceDefinition`, as far as names, versions and conversion go.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let crd = CustomResourceDefinition::new(node);
    let spec = crd.spec();
    let at = path.child("spec");
    let wanted = format!("{}.{}", spec.names().plural(), spec.group());
    composed_name(crd.metadata(), &wanted, "must be spec.names.plural+\".\"+spec.group", path, errors);
    let group = at.child("group");
    if spec.group().is_empty() {
        errors.push(FieldError::required(&group, ""));
    } else {
        let before = errors.len();
        rules::subdomain(spec.group(), &group, errors);
        if errors.len() == before && !spec.group().contains('.') {
            errors.push(FieldError::invalid(&group, spec.group(), "should be a domain with at least one dot"));
        }
    }
    match spec.scope() {
        "" => errors.push(FieldError::required(&at.child("scope"), "")),
        scope => rules::one_of(scope, &["Cluster", "Namespaced"], &at.child("scope"), errors),
    }
    names(spec.names(), &at.child("names"), errors);
    if spec.preserve_unknown_fields() {
        let text =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid(&at.child("preserveUnknownFields"), true, text));
    }
    versions(crd, path, errors);
    conversion(spec, &at.child("conversion"), errors);
}

/// Validates the accepted names in the status (upstream `ValidateCustomResourceDefinitionStatus`).
pub fn validate_status(new: &Struct, _: &Struct, errors: &mut ErrorList) {
    let path = Path::new("status");
    forms(CustomResourceDefinition::new(new).status().accepted_names(), &path.child("acceptedNames"), errors);
}

fn names(names: CustomResourceDefinitionNames<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    for (field, value) in four(names) {
        rules::required(value, &path.child(field), errors);
    }
    forms(names, path, errors);
}

fn four(names: CustomResourceDefinitionNames<'_>) -> [(&'static str, &str); 4] {
    [
        ("plural", names.plural()),
        ("singular", names.singular()),
        ("kind", names.kind()),
        ("listKind", names.list_kind()),
    ]
}

/// Validates the form of the names that are set (upstream `ValidateCustomResourceDefinitionNames`).
fn forms(names: CustomResourceDefinitionNames<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    for (field, value) in four(names).into_iter().filter(|(_, value)| !value.is_empty()) {
        let at = path.child(field);
        if field.to_ascii_lowercase().ends_with("kind") {
            for text in formats::dns1035_label(&value.to_ascii_lowercase()) {
                let text = format!("may have mixed case, but should otherwise match: {text}");
                errors.push(FieldError::invalid(&at, value, text));
            }
        } else {
            rules::each(formats::dns1035_label(value), value, &at, errors);
        }
    }
    for (field, list) in [("shortNames", names.short_names()), ("categories", names.categories())] {
        for (i, value) in list.iter().enumerate() {
            rules::each(formats::dns1035_label(value), value, &path.child(field).index(i), errors);
        }
    }
    if !names.kind().is_empty() && names.kind() == names.list_kind() {
        let at = path.child("listKind");
        errors.push(FieldError::invalid(&at, names.list_kind(), "kind and listKind may not be the same"));
    }
}

fn versions(crd: CustomResourceDefinition<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = crd.spec();
    let at = path.child("spec");
    let list = at.child("versions");
    let shown = || Raw(internal(spec.versions().values()));
    let mut seen: Seen<&str> = Seen::new();
    let mut repeated = false;
    for (i, version) in spec.versions().iter().enumerate() {
        let here = list.index(i);
        let name = version.name();
        rules::each(formats::dns1035_label(name), name, &here.child("name"), errors);
        if i == 0 {
            // The deprecated single version mirrors the first one.
            rules::each(formats::dns1035_label(name), name, &at.child("version"), errors);
        }
        repeated |= seen.contains(&name);
        seen.push(name);
        let schema = version.schema().and_then(|s| s.open_apiv3_schema());
        let below = if spec.versions().len() == 1 { at.child("validation") } else { here.child("schema") };
        let root = below.child("openAPIV3Schema");
        match schema {
            None => {
                let here = here.child("schema");
                errors.push(FieldError::required(&here.child("openAPIV3Schema"), ""));
            }
            Some(schema) if schema.type_().is_empty() => {
                errors.push(FieldError::required(&root.child("type"), "must not be empty at the root"));
            }
            Some(schema) if schema.type_() != "object" => {
                errors.push(FieldError::invalid(&root.child("type"), schema.type_(), "must be object at the root"));
            }
            Some(_) => {}
        }
    }
    if repeated {
        errors.push(FieldError::invalid(&list, shown(), "must contain unique version names"));
    }
    let stored: Vec<&str> = spec.versions().iter().filter(|v| v.storage()).map(|v| v.name()).collect();
    if stored.len() != 1 {
        errors.push(FieldError::invalid(&list, shown(), "must have exactly one version marked as storage version"));
    }
    let status = path.child("status");
    let known = crd.status().stored_versions();
    let here = status.child("storedVersions");
    if known.is_empty() && stored.is_empty() {
        // With a storage version, the server itself adds the version to the stored ones.
        errors.push(FieldError::invalid(&here, show::value(None), "must have at least one stored version"));
    } else if let Some(last) = stored.last().filter(|s| !known.is_empty() && !known.iter().any(|k| k == **s)) {
        let shown = Raw(show::items(known.values()));
        errors.push(FieldError::invalid(&here, shown, format!("must have the storage version {last}")));
    }
}

/// Formats the versions like upstream's internal form, which keeps the parts that are equal in all versions beside the versions.
fn internal(versions: &[Value]) -> String {
    let shared: Vec<&str> = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"]
        .into_iter()
        .filter(|field| versions.iter().all(|v| v.get(field) == versions.first().and_then(|first| first.get(field))))
        .collect();
    let list: Vec<String> = versions
        .iter()
        .filter_map(Value::as_struct)
        .map(|version| {
            let mut version = version.clone();
            version.retain(|def, _| !shared.contains(&def.name));
            show::internal(&version)
        })
        .collect();
    format!("[{}]", list.join(","))
}

fn conversion(spec: CustomResourceDefinitionSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(conversion) = spec.conversion() else { return };
    match conversion.strategy() {
        "None" => {}
        "Webhook" => {
            let webhook = conversion.webhook();
            if webhook.is_none_or(|w| w.client_config().is_none()) {
                errors.push(FieldError::required(
                    &path.child("webhookClientConfig"),
                    "required when strategy is set to Webhook",
                ));
            }
            if webhook.is_none_or(|w| w.conversion_review_versions().is_empty()) {
                errors.push(FieldError::required(&path.child("conversionReviewVersions"), ""));
            }
        }
        "" => errors.push(FieldError::required(&path.child("strategy"), "")),
        other => rules::one_of(other, &["None", "Webhook"], &path.child("strategy"), errors),
    }
}
