//! The question to an authorizer and its answer (upstream: `authorizer.Attributes`, `authorizer.Decision`).

use oarlock_meta::quote::quote;
use oarlock_meta::{FieldSelector, GroupResource, LabelSelector, Status};

use crate::grant::Grant;
use crate::user::UserInfo;

/// The attributes of one request that authorization decides on. An empty text means "not given".
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'a> {
    /// The user who makes the request.
    pub user: &'a UserInfo,
    /// `get`, `list`, …; for a non-resource path the HTTP method in lower case.
    pub verb: &'a str,
    /// Whether the request is for an API resource, and not for a path such as `/healthz`.
    pub resource_request: bool,
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The API version.
    pub version: &'a str,
    /// The resource, in the plural.
    pub resource: &'a str,
    /// The subresource.
    pub subresource: &'a str,
    /// The namespace; empty for cluster-wide requests.
    pub namespace: &'a str,
    /// The object's name; empty for collections and for creation.
    pub name: &'a str,
    /// The path of a non-resource request.
    pub path: &'a str,
    /// The field selector, if given and valid.
    pub fields: Option<&'a FieldSelector>,
    /// The label selector, if given and valid.
    pub labels: Option<&'a LabelSelector>,
}

impl<'a> Attributes<'a> {
    /// Creates the attributes of a resource request; further fields are set with struct update syntax.
    #[must_use]
    pub const fn resource(user: &'a UserInfo, verb: &'a str, group: &'a str, resource: &'a str) -> Self {
        Self {
            user,
            verb,
            resource_request: true,
            group,
            version: "",
            resource,
            subresource: "",
            namespace: "",
            name: "",
            path: "",
            fields: None,
            labels: None,
        }
    }

    /// Creates the attributes of a non-resource request.
    #[must_use]
    pub const fn path(user: &'a UserInfo, verb: &'a str, path: &'a str) -> Self {
        let mut attributes = Self::resource(user, verb, "", "");
        attributes.resource_request = false;
        attributes.path = path;
        attributes
    }

    /// Returns the 403 for this request. Texts are upstream's (`responsewriters.ForbiddenStatusError`), with HTML characters escaped as in upstream.
    #[must_use]
    pub fn forbidden(&self, reason: &str) -> Status {
        let mut text = escape(&self.refusal());
        if !reason.is_empty() {
            text.push_str(": ");
            text.push_str(reason);
        }
        Status::forbidden(&GroupResource::new(self.group, self.resource), self.name, text)
    }

    fn refusal(&self) -> String {
        let user = quote(&self.user.name);
        if !self.resource_request {
            return format!("User {user} cannot {} path {}", self.verb, quote(self.path));
        }
        let resource = if self.subresource.is_empty() {
            quote(self.resource)
        } else {
            quote(&format!("{}/{}", self.resource, self.subresource))
        };
        let scope = if self.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {}", quote(self.namespace))
        };
        let (verb, group) = (self.verb, quote(self.group));
        format!("User {user} cannot {verb} resource {resource} in API group {group} {scope}")
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// An authorizer's answer.
#[derive(Debug, Clone)]
pub enum Decision {
    /// The request is allowed; later authorizers are not asked.
    Allow(Grant),
    /// The request is refused, with a reason; later authorizers are not asked.
    Deny(String),
    /// This authorizer does not allow the request, for this reason; a later one may.
    NoOpinion(String),
}

impl Decision {
    /// Whether the decision allows the request.
    #[must_use]
    pub const fn allowed(&self) -> bool {
        matches!(self, Self::Allow(_))
    }

    /// Returns the reason in upstream's words: for audit, for access reviews, for the 403.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Allow(grant) => grant.to_string(),
            Self::Deny(reason) | Self::NoOpinion(reason) => reason.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(attributes: Attributes<'_>, reason: &str) -> String {
        attributes.forbidden(reason).message.clone()
    }

    #[test]
    fn the_refusal_is_upstreams_text() {
        let user = UserInfo::new("x", [""; 0]);
        let list = Attributes { namespace: "default", ..Attributes::resource(&user, "list", "", "pods") };
        assert_eq!(
            message(list, ""),
            r#"pods is forbidden: User "x" cannot list resource "pods" in API group "" in the namespace "default""#
        );
        let scale =
            Attributes { subresource: "scale", name: "d", ..Attributes::resource(&user, "get", "apps", "deployments") };
        assert_eq!(
            message(scale, "because"),
            r#"deployments.apps "d" is forbidden: User "x" cannot get resource "deployments/scale" in API group "apps" at the cluster scope: because"#
        );
        assert_eq!(message(Attributes::path(&user, "get", "/"), ""), r#"forbidden: User "x" cannot get path "/""#);
    }

    #[test]
    fn a_user_cannot_put_markup_into_the_refusal() {
        let user = UserInfo::new("<b>&", [""; 0]);
        assert_eq!(
            message(Attributes::path(&user, "get", "/"), ""),
            r#"forbidden: User "&lt;b&gt;&amp;" cannot get path "/""#
        );
    }
}
