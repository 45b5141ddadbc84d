//! Access reviews: report the authorizers' decision on a described request.

use oarlock_apis::rules::show;
use oarlock_auth::{Attributes, Decision, UserInfo};
use oarlock_client::Reply;
use oarlock_codec::json;
use oarlock_meta::field::Raw;
use oarlock_meta::{ErrorList, FieldError, GroupKind, Path, Status};
use oarlock_schema::views::View as _;
use oarlock_schema::views::authorization_v1::{
    LocalSubjectAccessReview, NonResourceAttributes, ResourceAttributes, SelfSubjectAccessReview,
    SelfSubjectRulesReview, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatusMut,
};
use oarlock_schema::{Obj, Struct, Value, canonical, type_named};

use super::selectors::{self, Selectors};
use crate::caller::Caller;
use crate::server::Server;

/// Answers a SubjectAccessReview, or the local one of a namespace.
///
/// # Errors
/// 422 for a body that names no subject, no request or two requests, or another namespace, and for one with metadata.
pub(super) fn subject(server: &Server, mut obj: Obj, namespace: Option<&str>) -> Result<Reply, Status> {
    let (decision, error) = {
        let spec: SubjectAccessReviewSpec<'_> = match namespace {
            None => obj.view::<SubjectAccessReview<'_>>().map(SubjectAccessReview::spec),
            Some(_) => obj.view::<LocalSubjectAccessReview<'_>>().map(LocalSubjectAccessReview::spec),
        }
        .ok_or_else(|| Status::bad_request("the body is no access review"))?;
        let (resource, path) = (spec.resource_attributes(), spec.non_resource_attributes());
        let mut errors = ErrorList::default();
        check_question(resource, path, &mut errors);
        let spec_path = Path::new("spec");
        if spec.user().is_empty() && spec.groups().is_empty() {
            let why = "at least one of user or group must be specified";
            errors.push(FieldError::invalid(&spec_path.child("user"), spec.user(), why));
        }
        if let Some(resource) = resource {
            selectors::check(resource, &mut errors);
        }
        check_metadata(&obj, namespace.is_some(), &mut errors);
        if let Some(namespace) = namespace {
            if let Some(asked) = resource.map(|r| r.namespace()).filter(|asked| *asked != namespace) {
                let at = spec_path.child("resourceAttributes.namespace");
                errors.push(FieldError::invalid(&at, asked, "must match metadata.namespace"));
            }
            if let Some(path) = path {
                let (at, why) = (spec_path.child("nonResourceAttributes"), "disallowed on this kind of request");
                errors.push(FieldError::invalid(&at, shown(path), why));
            }
        }
        refuse(&errors)?;
        let mut user = UserInfo::new(spec.user(), spec.groups().iter());
        spec.uid().clone_into(&mut user.uid);
        ask(server, &user, resource, path)?
    };
    Ok(answered(&mut obj, &decision, &error))
}

/// Answers a SelfSubjectAccessReview.
///
/// # Errors
/// 422 for a body that describes no request or two, and for one with metadata.
pub(super) fn own(server: &Server, caller: &Caller, mut obj: Obj) -> Result<Reply, Status> {
    let (decision, error) = {
        let Some(view) = obj.view::<SelfSubjectAccessReview<'_>>() else {
            return Err(Status::bad_request("the body is no access review"));
        };
        let (resource, path) = (view.spec().resource_attributes(), view.spec().non_resource_attributes());
        let mut errors = ErrorList::default();
        check_question(resource, path, &mut errors);
        if let Some(resource) = resource {
            selectors::check(resource, &mut errors);
        }
        check_metadata(&obj, false, &mut errors);
        refuse(&errors)?;
        ask(server, &caller.user, resource, path)?
    };
    Ok(answered(&mut obj, &decision, &error))
}

/// Checks that a review describes exactly one request.
fn check_question(
    resource: Option<ResourceAttributes<'_>>,
    path: Option<NonResourceAttributes<'_>>,
    errors: &mut ErrorList,
) {
    let spec = Path::new("spec");
    match (resource, path) {
        (Some(_), Some(path)) => errors.push(FieldError::invalid(
            &spec.child("nonResourceAttributes"),
            shown(path),
            "cannot be specified in combination with resourceAttributes",
        )),
        (None, None) => errors.push(FieldError::invalid(
            &spec.child("resourceAttributes"),
            Raw("null"),
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => {}
    }
}

fn shown(path: NonResourceAttributes<'_>) -> Raw<String> {
    Raw(path.node().map(show::internal).unwrap_or_default())
}

/// Checks that a review has no metadata except the fields that the server itself adds.
fn check_metadata(obj: &Obj, local: bool, errors: &mut ErrorList) {
    let Some(meta) = obj.get("metadata").and_then(Value::as_struct) else { return };
    let clean = meta.iter().all(|(def, value)| match def.name {
        "managedFields" => true,
        "namespace" if local => true,
        _ => canonical::same(Some(value), None),
    });
    if !clean {
        let mut text = Vec::new();
        json::encode_value(&Value::Struct(meta.clone()), &mut text);
        let why = if local { "must be empty except for namespace" } else { "must be empty" };
        errors.push(FieldError::invalid(&Path::new("metadata"), Raw(String::from_utf8_lossy(&text)), why));
    }
}

/// Returns a 422, which in upstream's answer names no kind.
fn refuse(errors: &ErrorList) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new("authorization.k8s.io", ""), "", errors.as_slice()))
}

/// Returns the authorizers' decision, and the parts of the review that could not be parsed.
fn ask(
    server: &Server,
    user: &UserInfo,
    resource: Option<ResourceAttributes<'_>>,
    path: Option<NonResourceAttributes<'_>>,
) -> Result<(Decision, String), Status> {
    match (resource, path) {
        (Some(r), _) => {
            let Selectors { fields, labels, error } = selectors::read(r);
            let decision = server.authorizers().authorize(&Attributes {
                version: r.version(),
                subresource: r.subresource(),
                namespace: r.namespace(),
                name: r.name(),
                fields: fields.as_ref(),
                labels: labels.as_ref(),
                ..Attributes::resource(user, r.verb(), r.group(), r.resource())
            });
            Ok((decision, error))
        }
        (None, Some(p)) => {
            Ok((server.authorizers().authorize(&Attributes::path(user, p.verb(), p.path())), String::new()))
        }
        (None, None) => Err(Status::internal_error("a review about nothing")),
    }
}

fn answered(obj: &mut Obj, decision: &Decision, error: &str) -> Reply {
    if let Some(Value::Struct(status)) = obj.get_mut("status") {
        let mut status = SubjectAccessReviewStatusMut::new(status);
        status.set_allowed(decision.allowed()).set_reason(decision.reason());
        if matches!(decision, Decision::Deny(_)) {
            status.set_denied(true);
        }
        if !error.is_empty() {
            status.set_evaluation_error(error);
        }
    }
    super::answered(obj.clone())
}

/// Answers a SelfSubjectRulesReview.
///
/// # Errors
/// 400 without a namespace.
pub(super) fn rules(server: &Server, caller: &Caller, asked: &Obj) -> Result<Reply, Status> {
    let namespace = {
        let Some(view) = asked.view::<SelfSubjectRulesReview<'_>>() else {
            return Err(Status::bad_request("the body is no rules review"));
        };
        view.spec().namespace().to_owned()
    };
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let resolved = server.authorizers().rules_for(&caller.user, &namespace);
    let list = |texts: &[oarlock_schema::Str]| texts.iter().cloned().collect::<Value>();
    let (Some(resource), Some(path)) =
        (type_named("authorization/v1.ResourceRule"), type_named("authorization/v1.NonResourceRule"))
    else {
        return Err(Status::internal_error("no rule types"));
    };
    let resource_rules: Value = resolved
        .resource
        .iter()
        .map(|rule| {
            let mut node = Struct::zero(resource);
            node.set_name("verbs", list(&rule.verbs));
            node.set_name("apiGroups", list(&rule.api_groups));
            node.set_name("resources", list(&rule.resources));
            node.set_name("resourceNames", list(&rule.resource_names));
            node
        })
        .collect();
    let path_rules: Value = resolved
        .non_resource
        .iter()
        .map(|rule| {
            let mut node = Struct::zero(path);
            node.set_name("verbs", list(&rule.verbs));
            node.set_name("nonResourceURLs", list(&rule.non_resource_urls));
            node
        })
        .collect();
    // The answer does not repeat the request.
    let mut obj = Obj::new(asked.ty());
    obj.set_at(&["status", "resourceRules"], resource_rules);
    obj.set_at(&["status", "nonResourceRules"], path_rules);
    obj.set_at(&["status", "incomplete"], resolved.incomplete);
    obj.set_at(&["status", "evaluationError"], resolved.evaluation_error);
    Ok(super::answered(obj))
}
