//! Visits an object once and calls the rules of each node's type.

use std::borrow::Cow;

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::{FieldId, Obj, Resource, Shape, Struct, Value};

use crate::RULES;
use crate::rule_set::Slot;
use crate::rules::object_meta;

/// Sets defaults, parents before children.
pub fn default(obj: &mut Obj) {
    default_node(obj);
}

fn default_node(node: &mut Struct) {
    let Some(slot) = RULES.slot(node.ty()).filter(|s| s.defaults_below) else { return };
    for constant in &slot.constants {
        if node.field(constant.id).is_none_or(|v| v.is_null() || (!constant.pointer && is_zero(v))) {
            node.set(constant.id, constant.value.clone());
        }
    }
    if let Some(rule) = slot.rules.and_then(|r| r.default) {
        rule(node);
    }
    for (_, value) in node.iter_mut() {
        default_value(value);
    }
}

fn default_value(value: &mut Value) {
    match value {
        Value::Struct(inner) => default_node(inner),
        Value::List(items) => items.iter_mut().for_each(default_value),
        Value::Map(map) => map.iter_mut().for_each(|(_, v)| default_value(v)),
        _ => {}
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Str(s) => s.is_empty(),
        Value::Int(n) => *n == 0,
        Value::Bool(b) => !b,
        Value::List(items) => items.is_empty(),
        _ => false,
    }
}

/// Returns every error of an object.
#[must_use]
pub fn validate(resource: &Resource, obj: &Obj) -> ErrorList {
    let mut errors = ErrorList::default();
    object_meta::validate(resource, RULES.kind(resource.ty), obj, &mut errors);
    validate_nodes(obj, &mut errors);
    errors
}

/// Reports every error below the metadata.
fn validate_nodes(obj: &Struct, errors: &mut ErrorList) {
    visit(obj, &Path::ROOT, &mut |node, slot, path, turn| validate_node(node, slot, path, turn, errors));
}

fn validate_node(node: &Struct, slot: &Slot, path: &Path<'_>, turn: Turn, errors: &mut ErrorList) {
    match turn {
        Turn::Before => check(node, slot, path, errors),
        Turn::After => {
            if let Some(rule) = slot.rules.and_then(|r| r.after) {
                rule(node, path, errors);
            }
        }
    }
}

/// Returns every error of an object that is being created: those of [`validate`], and those that apply only at creation.
#[must_use]
pub fn validate_create(resource: &Resource, obj: &Obj) -> ErrorList {
    let (mut errors, mut created) = (ErrorList::default(), ErrorList::default());
    object_meta::validate(resource, RULES.kind(resource.ty), obj, &mut errors);
    visit(obj, &Path::ROOT, &mut |node, slot, path, turn| {
        validate_node(node, slot, path, turn, &mut errors);
        if let Some(rule) = slot.rules.and_then(|r| r.create).filter(|_| turn == Turn::Before) {
            rule(node, path, &mut created);
        }
    });
    // Upstream reports what applies only at creation last.
    created.into_iter().for_each(|error| errors.push(error));
    errors
}

fn check(node: &Struct, slot: &Slot, path: &Path<'_>, errors: &mut ErrorList) {
    let name = |id: FieldId| node.ty().def(id).map_or("", |def| def.name);
    for id in &slot.required {
        let empty = |v: &Value| v.is_null() || is_zero(v) || v.as_map().is_some_and(oarlock_schema::Map::is_empty);
        if node.field(*id).is_none_or(empty) {
            errors.push(FieldError::required(&path.child(name(*id)), ""));
        }
    }
    for id in &slot.enums {
        enumeration(node, *id, path, errors);
    }
    for id in &slot.non_negative {
        if let Some(n) = node.field(*id).and_then(Value::as_int).filter(|n| *n < 0) {
            errors.push(FieldError::invalid(&path.child(name(*id)), n, crate::rules::NON_NEGATIVE));
        }
    }
    if let Some(rule) = slot.rules.and_then(|r| r.validate) {
        rule(node, path, errors);
    }
}

fn enumeration(node: &Struct, id: FieldId, path: &Path<'_>, errors: &mut ErrorList) {
    let (Some(def), Some(value)) = (node.ty().def(id), node.field(id)) else { return };
    let here = path.child(def.name);
    let one = |value: &Value, at: &Path<'_>, errors: &mut ErrorList| {
        if let Some(text) = value.as_str().filter(|t| !def.allowed.contains(t) && (!t.is_empty() || def.pointer)) {
            errors.push(FieldError::not_supported(at, text, def.allowed));
        }
    };
    if matches!(def.shape, Shape::List(_)) {
        for (i, item) in value.items().iter().enumerate() {
            one(item, &here.index(i), errors);
        }
    } else {
        one(value, &here, errors);
    }
}

/// Returns every error of a change, besides those of the new object itself.
#[must_use]
pub fn validate_update(resource: &Resource, new: &Obj, old: &Obj) -> ErrorList {
    let mut errors = ErrorList::default();
    object_meta::validate_update(resource, new, old, &mut errors);
    compare(new, old, &Path::ROOT, &mut errors);
    errors
}

/// Returns every error of a change through an endpoint: `""` is the object itself, anything else a subresource.
///
/// The endpoint decides which rules apply. `status`, `finalize` and `binding` do not change the spec, so the spec's rules are not applied: an object that
/// no longer fulfils them can still be deleted. A status is validated by the kind's own rule for status updates. The other subresources must leave a valid
/// object, but may change fields that an update of the object may not (ephemeral containers, resources).
#[must_use]
pub fn validate_change(resource: &Resource, endpoint: &str, new: &Obj, old: &Obj) -> ErrorList {
    let mut errors = object_meta::validate_change(resource, RULES.kind(resource.ty), endpoint, new, old);
    if !matches!(endpoint, "status" | "finalize" | "binding") {
        validate_nodes(&without_passing(new, old), &mut errors);
    }
    if endpoint.is_empty() {
        compare(new, old, &Path::ROOT, &mut errors);
    }
    if endpoint == "status"
        && let Some(rules) = RULES.slot(new.ty()).and_then(|slot| slot.rules)
    {
        if rules.whole_status {
            validate_nodes(new, &mut errors);
        }
        if let Some(rule) = rules.status {
            rule(new, old, &mut errors);
        }
    }
    errors
}

/// Returns the object without the fields that upstream validates only when they change and that this update leaves unchanged.
fn without_passing<'a>(new: &'a Obj, old: &Obj) -> Cow<'a, Obj> {
    let fields = RULES.slot(new.ty()).and_then(|slot| slot.rules).map_or(&[][..], |rules| rules.unchanged_passes);
    let mut seen = Cow::Borrowed(new);
    for field in fields.iter().filter(|field| new.get(field).is_some() && new.get(field) == old.get(field)) {
        seen.to_mut().remove_name(field);
    }
    seen
}

/// Warns of names of new objects from which pods get their names: a name with dots is no valid host name.
#[must_use]
pub fn name_warnings(obj: &Obj) -> Vec<String> {
    let wrong = oarlock_meta::names::label_errors(obj.name());
    let used = match obj.ty().name {
        _ if wrong.is_empty() => return Vec::new(),
        "core/v1.Pod" => "the Pod's hostname",
        "apps/v1.Deployment"
        | "apps/v1.ReplicaSet"
        | "batch/v1.CronJob"
        | "batch/v1.Job"
        | "core/v1.ReplicationController" => "Pod names and hostnames",
        _ => return Vec::new(),
    };
    let wrong = wrong.join(" ");
    vec![format!(
        "metadata.name: this is used in {used}, which can result in surprising behavior; a DNS label is recommended: [{wrong}]"
    )]
}

/// Returns the warnings about an object.
#[must_use]
pub fn warnings(obj: &Obj) -> Vec<String> {
    let mut texts = Vec::new();
    visit_where(obj, |slot| slot.warnings_below, &Path::ROOT, &mut |node, slot, path, turn| {
        if let Some(rule) = slot.rules.and_then(|r| r.warnings).filter(|_| turn == Turn::Before) {
            rule(node, path, &mut texts);
        }
    });
    texts
}

/// The moment of a visitor's call for a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Before the nodes below.
    Before,
    /// After the nodes below.
    After,
}

type Visitor<'a> = dyn FnMut(&Struct, &Slot, &Path<'_>, Turn) + 'a;

/// Visits a node and everything below that has rules; the visitor is called for each node before and after the nodes below.
fn visit(node: &Struct, path: &Path<'_>, f: &mut Visitor<'_>) {
    visit_where(node, |slot| slot.rules_below, path, f);
}

/// Visits a node and everything below like [`visit`], as far as `is_wanted` says that a type or a type below is wanted.
fn visit_where(node: &Struct, is_wanted: fn(&Slot) -> bool, path: &Path<'_>, f: &mut Visitor<'_>) {
    let Some(slot) = RULES.slot(node.ty()).filter(|slot| is_wanted(slot)) else { return };
    let seen = slot.rules.and_then(|rules| rules.seen_as).and_then(|seen_as| seen_as(node));
    let node = seen.as_ref().unwrap_or(node);
    f(node, slot, path, Turn::Before);
    for (def, value) in node.iter() {
        if def.shape.element_type().is_some() {
            visit_value(value, is_wanted, &path.child(def.name), f);
        }
    }
    f(node, slot, path, Turn::After);
}

fn visit_value(value: &Value, is_wanted: fn(&Slot) -> bool, path: &Path<'_>, f: &mut Visitor<'_>) {
    match value {
        Value::Struct(inner) => visit_where(inner, is_wanted, path, f),
        Value::List(items) => {
            items.iter().enumerate().for_each(|(i, item)| visit_value(item, is_wanted, &path.index(i), f));
        }
        Value::Map(map) => map.iter().for_each(|(key, item)| visit_value(item, is_wanted, &path.key(key), f)),
        _ => {}
    }
}

/// Calls the change rules of nodes at the same position in both objects; list items are paired by index.
fn compare(new: &Struct, old: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(slot) = RULES.slot(new.ty()).filter(|s| s.rules_below && std::ptr::eq(new.ty(), old.ty())) else { return };
    for id in &slot.immutable {
        let Some(def) = new.ty().def(*id) else { continue };
        crate::rules::immutable(new.field(*id), old.field(*id), &path.child(def.name), errors);
    }
    if let Some(rule) = slot.rules.and_then(|r| r.validate_update) {
        rule(new, old, path, errors);
    }
    for (id, value) in new.entries() {
        let (Some(def), Some(before)) = (new.ty().def(*id), old.field(*id)) else { continue };
        if def.shape.element_type().is_some() {
            compare_value(value, before, &path.child(def.name), errors);
        }
    }
}

fn compare_value(new: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    match (new, old) {
        (Value::Struct(new), Value::Struct(old)) => compare(new, old, path, errors),
        (Value::List(new), Value::List(old)) => {
            for (i, (new, old)) in new.iter().zip(old.iter()).enumerate() {
                compare_value(new, old, &path.index(i), errors);
            }
        }
        (Value::Map(new), Value::Map(old)) => {
            for (key, value) in new.iter() {
                if let Some(before) = old.get(key) {
                    compare_value(value, before, &path.key(key), errors);
                }
            }
        }
        _ => {}
    }
}
