//! The parameter objects of a policy.

use oarlock_apis::rules::selector;
use oarlock_meta::{GroupVersionKind, Status};
use oarlock_registry::{Reader, key};
use oarlock_schema::views::admissionregistration_v1::{ParamKind, ParamRef};
use oarlock_schema::{Obj, Resource, resource_of_kind};

use crate::policy::Request;

/// Why parameters are missing.
#[derive(Debug)]
pub(super) struct Missing {
    pub(super) text: String,
    /// Whether the binding is invalid, not the policy.
    pub(super) of_binding: bool,
}

fn wrong(text: impl Into<String>) -> Missing {
    Missing { text: text.into(), of_binding: true }
}

/// Returns the parameters that a binding refers to. A policy without a parameter kind, and a binding without a reference, is evaluated once without
/// parameters.
///
/// # Errors
/// 503 when the parameters have to be read from the log and cannot be; within, upstream's text about an invalid policy or binding.
pub(super) async fn collect(
    reader: &Reader,
    kind: Option<ParamKind<'_>>,
    named: Option<ParamRef<'_>>,
    request: &Request,
) -> Result<Result<Vec<Option<Obj>>, Missing>, Status> {
    let Some(kind) = kind else { return Ok(Ok(vec![None])) };
    let resource = match resource(kind) {
        Ok(resource) => resource,
        Err(why) => return Ok(Err(why)),
    };
    let Some(named) = named else { return Ok(Ok(vec![None])) };
    let namespace = match namespace(resource, named, request) {
        Ok(namespace) => namespace,
        Err(why) => return Ok(Err(why)),
    };
    let found = if named.name().is_empty() {
        selected(reader, resource, named, namespace).await?
    } else {
        fetch(reader, resource, namespace, named.name()).await?.into_iter().collect()
    };
    if found.is_empty() && named.parameter_not_found_action() == Some("Deny") {
        return Ok(Err(wrong("no params found for policy binding with `Deny` parameterNotFoundAction")));
    }
    Ok(Ok(found.into_iter().map(Some).collect()))
}

fn resource(kind: ParamKind<'_>) -> Result<&'static Resource, Missing> {
    let (group, version) = kind.api_version().split_once('/').unwrap_or(("", kind.api_version()));
    resource_of_kind(group, version, kind.kind()).filter(|row| row.storage.is_some()).ok_or_else(|| {
        let kind = GroupVersionKind::new(group, version, kind.kind());
        Missing { text: format!("failed to find resource referenced by paramKind: '{kind}'"), of_binding: false }
    })
}

/// Returns the namespace of the parameters: the binding's, else the request's.
fn namespace<'a>(resource: &Resource, named: ParamRef<'a>, request: &'a Request) -> Result<&'a str, Missing> {
    match (resource.namespaced, named.namespace(), request.namespace.as_str()) {
        (false, "", _) => Ok(""),
        (false, ..) => Err(wrong("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")),
        (true, "", "") => {
            Err(wrong("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"))
        }
        (true, "", own) => Ok(own),
        (true, named, _) => Ok(named),
    }
}

async fn selected(
    reader: &Reader,
    resource: &Resource,
    named: ParamRef<'_>,
    namespace: &str,
) -> Result<Vec<Obj>, Status> {
    let (Some(chosen), Some(prefix)) = (named.selector(), key::prefix(resource)) else { return Ok(Vec::new()) };
    let within = resource.namespaced.then_some(namespace);
    let names: Vec<String> = {
        let all = reader.view().list(prefix);
        all.range(within, "").map(|entry| entry.key.name().to_owned()).collect()
    };
    let mut found = Vec::new();
    for name in names {
        if let Some(obj) = fetch(reader, resource, namespace, &name).await?
            && selector::matches(chosen, obj.meta().labels())
        {
            found.push(obj);
        }
    }
    Ok(found)
}

async fn fetch(reader: &Reader, resource: &Resource, namespace: &str, name: &str) -> Result<Option<Obj>, Status> {
    let unreadable = |error| Status::service_unavailable(format!("parameters of a policy cannot be read: {error}"));
    reader.fetch(resource, namespace, name).await.map_err(unreadable)
}
