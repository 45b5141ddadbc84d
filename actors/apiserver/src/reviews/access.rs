//! Access reviews: what the authorizer would say.

use oarlock_auth::{Attributes, Decision, UserInfo};
use oarlock_client::Reply;
use oarlock_meta::Status;
use oarlock_schema::views::authorization_v1::{
    LocalSubjectAccessReview, NonResourceAttributes, ResourceAttributes, SelfSubjectAccessReview,
    SelfSubjectRulesReview, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatusMut,
};
use oarlock_schema::{Obj, Struct, Value, type_named};

use crate::caller::Caller;
use crate::server::Server;

/// SubjectAccessReview, or the local one of a namespace.
///
/// # Errors
/// 400 for a body that asks about nothing, about both, or about another namespace.
pub(super) fn subject(server: &Server, mut obj: Obj, namespace: Option<&str>) -> Result<Reply, Status> {
    let decision = {
        let spec: SubjectAccessReviewSpec<'_> = match namespace {
            None => obj.view::<SubjectAccessReview<'_>>().map(SubjectAccessReview::spec),
            Some(_) => obj.view::<LocalSubjectAccessReview<'_>>().map(LocalSubjectAccessReview::spec),
        }
        .ok_or_else(|| Status::bad_request("the body is no access review"))?;
        if let (Some(namespace), Some(asked)) = (namespace, spec.resource_attributes())
            && asked.namespace() != namespace
        {
            return Err(Status::bad_request(format!(
                "namespace mismatch: the request is for {namespace}, the review for {}",
                asked.namespace()
            )));
        }
        if spec.user().is_empty() && spec.groups().is_empty() {
            return Err(Status::bad_request("at least one of user or group must be specified"));
        }
        let mut user = UserInfo::new(spec.user(), spec.groups().iter());
        spec.uid().clone_into(&mut user.uid);
        ask(server, &user, spec.resource_attributes(), spec.non_resource_attributes())?
    };
    Ok(answered(&mut obj, &decision))
}

/// SelfSubjectAccessReview.
///
/// # Errors
/// 400 for a body that asks about nothing or about both.
pub(super) fn own(server: &Server, caller: &Caller, mut obj: Obj) -> Result<Reply, Status> {
    let decision = {
        let Some(view) = obj.view::<SelfSubjectAccessReview<'_>>() else {
            return Err(Status::bad_request("the body is no access review"));
        };
        ask(server, &caller.user, view.spec().resource_attributes(), view.spec().non_resource_attributes())?
    };
    Ok(answered(&mut obj, &decision))
}

fn ask(
    server: &Server,
    user: &UserInfo,
    resource: Option<ResourceAttributes<'_>>,
    path: Option<NonResourceAttributes<'_>>,
) -> Result<Decision, Status> {
    match (resource, path) {
        (Some(r), None) => Ok(server.authorizers().authorize(&Attributes {
            version: r.version(),
            subresource: r.subresource(),
            namespace: r.namespace(),
            name: r.name(),
            ..Attributes::resource(user, r.verb(), r.group(), r.resource())
        })),
        (None, Some(p)) => Ok(server.authorizers().authorize(&Attributes::path(user, p.verb(), p.path()))),
        _ => Err(Status::bad_request("exactly one of nonResourceAttributes or resourceAttributes must be specified")),
    }
}

fn answered(obj: &mut Obj, decision: &Decision) -> Reply {
    if let Some(Value::Struct(status)) = obj.get_mut("status") {
        let mut status = SubjectAccessReviewStatusMut::new(status);
        status.set_allowed(decision.allowed()).set_reason(decision.reason());
        if matches!(decision, Decision::Deny(_)) {
            status.set_denied(true);
        }
    }
    super::stamped(obj.clone())
}

/// SelfSubjectRulesReview.
///
/// # Errors
/// 400 without a namespace.
pub(super) fn rules(server: &Server, caller: &Caller, mut obj: Obj) -> Result<Reply, Status> {
    let namespace = {
        let Some(view) = obj.view::<SelfSubjectRulesReview<'_>>() else {
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
    obj.set_at(&["status", "resourceRules"], resource_rules);
    obj.set_at(&["status", "nonResourceRules"], path_rules);
    obj.set_at(&["status", "incomplete"], resolved.incomplete);
    obj.set_at(&["status", "evaluationError"], resolved.evaluation_error);
    Ok(super::stamped(obj))
}
