//! The steps that every resource has in common, made from its row, its schema and two objects.

use anyhow::Context;
use oarlock_schema::{FieldDef, RESOURCES, Resource, Shape, TypeRef};
use serde_json::{Map, Value, json};

use crate::case::{Script, Step};
use crate::merge_patch::merge;

mod bodies;
mod reads;
mod writes;

/// Media types of the forms in which lists and objects can be had.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const YAML: &str = "application/yaml";

/// The resource and its objects, for the generators of steps.
struct Subject {
    resource: &'static Resource,
    /// Path of the collection.
    list: String,
    minimal: Value,
    full: Value,
}

/// All steps of a script.
///
/// # Errors
/// When the script names no served resource, or lacks one of the two objects.
pub fn steps(script: Script) -> anyhow::Result<Vec<Step>> {
    let Some(name) = &script.resource else {
        return Ok(script.before.into_iter().chain(script.steps).chain(script.after).collect());
    };
    let resource = find(name)?;
    let list = list_path(resource);
    let mut steps = script.before;
    let mut ends = Vec::new();
    if let (Some(minimal), Some(full)) = (script.minimal, script.full) {
        let full = complete(resource, full, "full");
        let subject = Subject { resource, list: list.clone(), minimal: complete(resource, minimal, "minimal"), full };
        steps.extend(writes::creates(&subject));
        steps.extend(bodies::odd(&subject));
        steps.extend(reads::all(&subject));
        steps.extend(writes::changes(&subject));
        ends = writes::deletes(&subject);
        steps.extend(script.steps);
        let paths = [("{minimal}", subject.path(&subject.minimal)), ("{full}", subject.path(&subject.full))];
        for step in steps.iter_mut().chain(&mut ends) {
            for (variable, path) in &paths {
                step.what = step.what.replace(variable, path);
            }
        }
    } else {
        steps.extend(script.steps);
    }
    steps.extend(ends);
    steps.retain(|step| !script.without.contains(&step.id));
    steps.extend(script.after);
    for step in &mut steps {
        step.what = step.what.replace("{list}", &list);
    }
    Ok(steps)
}

fn find(name: &str) -> anyhow::Result<&'static Resource> {
    let full = |r: &Resource| format!("{}/{}", r.group_version(), r.plural);
    RESOURCES.iter().find(|r| full(r) == name).with_context(|| format!("no resource {name}"))
}

fn list_path(resource: &Resource) -> String {
    let root = if resource.group.is_empty() { "/api" } else { "/apis" };
    let namespace = if resource.namespaced { "/namespaces/oracle" } else { "" };
    format!("{root}/{}{namespace}/{}", resource.group_version(), resource.plural)
}

/// Adds the fields that every object of the resource needs.
fn complete(resource: &Resource, object: Value, name: &str) -> Value {
    let mut whole = json!({
        "apiVersion": resource.group_version(),
        "kind": resource.kind,
        "metadata": {"name": name, "labels": {"oracle": resource.plural}},
    });
    if resource.namespaced {
        merge(&mut whole, &json!({"metadata": {"namespace": "oracle"}}));
    }
    merge(&mut whole, &object);
    whole
}

impl Subject {
    fn path(&self, object: &Value) -> String {
        format!("{}/{}", self.list, name(object))
    }

    fn has(&self, verb: &str) -> bool {
        self.resource.has_verb(verb)
    }
}

fn name(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// `object` changed by a merge patch.
fn with(object: &Value, patch: Value) -> Value {
    let mut changed = object.clone();
    merge(&mut changed, &patch);
    changed
}

/// Puts `value(field)` into every struct that `object` holds, for each field that it leaves out.
fn fill(ty: TypeRef, object: &mut Map<String, Value>, top: bool, value: &dyn Fn(&FieldDef) -> Option<Value>) {
    const IDENTITY: &[&str] = &["apiVersion", "kind", "metadata", "name", "namespace", "generateName", "uid", "status"];
    for field in ty.fields {
        match object.get_mut(field.name) {
            Some(present) => descend(&field.shape, present, value),
            None if top && IDENTITY.contains(&field.name) => {}
            None if ty.name.ends_with("ObjectMeta") && (IDENTITY.contains(&field.name)) => {}
            None => {
                if let Some(value) = value(field) {
                    object.insert(field.name.to_owned(), value);
                }
            }
        }
    }
}

fn descend(shape: &Shape, present: &mut Value, value: &dyn Fn(&FieldDef) -> Option<Value>) {
    match (shape, present) {
        (Shape::Struct(ty), Value::Object(object)) => fill(ty, object, false, value),
        (Shape::List(inner), Value::Array(items)) => items.iter_mut().for_each(|item| descend(inner, item, value)),
        _ => {}
    }
}
