//! Request bodies that the client builds itself: Binding, Eviction, DeleteOptions.

use oarlock_meta::Status;
use oarlock_schema::{Obj, Resource, Struct, TypeRef, Value, resource, type_of_kind};

use crate::options::DeleteOptions;

pub(crate) fn pods() -> Result<&'static Resource, Status> {
    resource("", "v1", "pods").ok_or_else(|| Status::internal_error("the schema has no pods"))
}

fn ty(group: &str, version: &str, kind: &str) -> Result<TypeRef, Status> {
    type_of_kind(group, version, kind).ok_or_else(|| Status::internal_error(format!("the schema has no {kind}")))
}

/// Sets the field at a path of struct fields and creates the structs on the way.
fn set(node: &mut Struct, path: &[&str], value: impl Into<Value>) -> Result<(), Status> {
    if node.set_at(path, value) {
        return Ok(());
    }
    Err(Status::internal_error(format!("{} has no {}", node.ty().name, path.join("."))))
}

/// Builds a Binding of a pod to a node; an empty uid matches any pod of the name.
pub(crate) fn binding(namespace: &str, pod: &str, uid: &str, node: &str) -> Result<Obj, Status> {
    let mut binding = Obj::new(ty("", "v1", "Binding")?);
    set(&mut binding, &["metadata", "namespace"], namespace)?;
    set(&mut binding, &["metadata", "name"], pod)?;
    if !uid.is_empty() {
        set(&mut binding, &["metadata", "uid"], uid)?;
    }
    set(&mut binding, &["target", "kind"], "Node")?;
    set(&mut binding, &["target", "name"], node)?;
    Ok(binding)
}

/// Builds an Eviction of a pod.
pub(crate) fn eviction(namespace: &str, pod: &str, options: &DeleteOptions) -> Result<Obj, Status> {
    let mut eviction = Obj::new(ty("policy", "v1", "Eviction")?);
    set(&mut eviction, &["metadata", "namespace"], namespace)?;
    set(&mut eviction, &["metadata", "name"], pod)?;
    if *options != DeleteOptions::default() {
        let (id, _) = eviction.ty().field("deleteOptions").ok_or_else(|| Status::internal_error("no deleteOptions"))?;
        if let Some(node) = eviction.struct_entry(id) {
            fill_delete_options(node, options)?;
        }
    }
    Ok(eviction)
}

fn fill_delete_options(node: &mut Struct, options: &DeleteOptions) -> Result<(), Status> {
    if let Some(seconds) = options.grace_period_seconds {
        set(node, &["gracePeriodSeconds"], seconds)?;
    }
    if let Some(propagation) = options.propagation {
        set(node, &["propagationPolicy"], propagation.as_str())?;
    }
    if let Some(uid) = &options.uid {
        set(node, &["preconditions", "uid"], uid.clone())?;
    }
    if let Some(revision) = options.resource_version {
        set(node, &["preconditions", "resourceVersion"], revision.to_string())?;
    }
    if options.dry_run {
        set(node, &["dryRun"], Value::from_iter(["All"]))?;
    }
    Ok(())
}
