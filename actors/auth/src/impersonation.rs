//! User impersonation by headers (upstream: `endpoints/filters/impersonation`). A pure function computes the required permission checks and the
//! resulting user; the first check that fails gives a 403.

use std::collections::BTreeMap;

use http::HeaderMap;
use oarlock_meta::Status;

use crate::attributes::Attributes;
use crate::authenticators::unescape;
use crate::authorizers::Authorizers;
use crate::user::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, UserInfo, service_account_groups, split_service_account};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
/// The API group and version of uids and extras.
const AUTHENTICATION: (&str, &str) = ("authentication.k8s.io", "v1");

/// The user to impersonate, and the permissions that the requester needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Impersonation {
    /// The checks that must all pass, in this order.
    pub checks: Vec<Check>,
    /// The user the request continues as.
    pub user: UserInfo,
}

/// One required permission for the verb `impersonate`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Check {
    /// The API group.
    pub group: &'static str,
    /// The API version.
    pub version: &'static str,
    /// `users`, `groups`, `serviceaccounts`, `userextras` or `uids`.
    pub resource: &'static str,
    /// The extra's key for `userextras`, else empty.
    pub subresource: String,
    /// The namespace of a ServiceAccount.
    pub namespace: String,
    /// The name or value to impersonate.
    pub name: String,
}

impl Check {
    /// Returns the attributes to authorize.
    #[must_use]
    pub fn attributes<'a>(&'a self, requester: &'a UserInfo) -> Attributes<'a> {
        Attributes {
            version: self.version,
            subresource: &self.subresource,
            namespace: &self.namespace,
            name: &self.name,
            ..Attributes::resource(requester, "impersonate", self.group, self.resource)
        }
    }

    /// Formats the check as Go prints upstream's ObjectReference.
    fn shown(&self) -> String {
        let kind = match self.resource {
            "users" => "User",
            "serviceaccounts" => "ServiceAccount",
            "groups" => "Group",
            "userextras" => "UserExtra",
            _ => "UID",
        };
        let api_version =
            if self.group.is_empty() { String::new() } else { format!("{}/{}", self.group, self.version) };
        format!("{{{kind} {} {}  {api_version}  {}}}", self.namespace, self.name, self.subresource)
    }
}

/// Parses the impersonation headers; `None` when there are none.
///
/// # Errors
/// 400 when groups, extras or a uid are given without a user.
pub fn requested(headers: &HeaderMap) -> Result<Option<Impersonation>, Status> {
    let name = first(headers, USER);
    let groups: Vec<String> = all(headers, GROUP);
    let uid = first(headers, UID);
    let extra = extras(headers);
    let mut checks = Vec::new();
    if !name.is_empty() {
        checks.push(match split_service_account(&name) {
            Some((namespace, name)) => Check {
                resource: "serviceaccounts",
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                ..Check::default()
            },
            None => Check { resource: "users", name: name.clone(), ..Check::default() },
        });
    }
    checks.extend(groups.iter().map(|group| Check { resource: "groups", name: group.clone(), ..Check::default() }));
    let (group, version) = AUTHENTICATION;
    for (key, values) in &extra {
        checks.extend(values.iter().map(|value| Check {
            group,
            version,
            resource: "userextras",
            subresource: key.clone(),
            name: value.clone(),
            ..Check::default()
        }));
    }
    if !uid.is_empty() {
        checks.push(Check { group, version, resource: "uids", name: uid.clone(), ..Check::default() });
    }
    if checks.is_empty() {
        return Ok(None);
    }
    if name.is_empty() {
        let shown: Vec<String> = checks.iter().map(Check::shown).collect();
        return Err(Status::bad_request(format!("requested [{}] without impersonating a user", shown.join(" "))));
    }
    let user = UserInfo { groups: effective_groups(&name, groups), name, uid, extra };
    Ok(Some(Impersonation { checks, user }))
}

/// Checks whether `requester` may impersonate the requested user.
///
/// # Errors
/// A 403 for the first check that fails.
pub fn check(authorizers: &Authorizers, requester: &UserInfo, asked: &Impersonation) -> Result<(), Status> {
    for check in &asked.checks {
        let attributes = check.attributes(requester);
        let decision = authorizers.authorize(&attributes);
        if !decision.allowed() {
            return Err(attributes.forbidden(&decision.reason()));
        }
    }
    Ok(())
}

/// Removes the headers, so that later stages do not see them.
pub fn clear(headers: &mut HeaderMap) {
    let names: Vec<_> = headers
        .keys()
        .filter(|name| matches!(name.as_str(), USER | GROUP | UID) || name.as_str().starts_with(EXTRA))
        .cloned()
        .collect();
    for name in names {
        headers.remove(name);
    }
}

/// Returns the groups of the impersonated user. Given groups are used as they are; a ServiceAccount without any gets its fixed ones. All users but
/// the anonymous one are in `system:authenticated`, unless the groups say otherwise.
fn effective_groups(name: &str, mut groups: Vec<String>) -> Vec<String> {
    if groups.is_empty()
        && let Some((namespace, _)) = split_service_account(name)
    {
        groups.extend(service_account_groups(namespace));
    }
    let has = |groups: &[String], group: &str| groups.iter().any(|g| g == group);
    if name == ANONYMOUS {
        if !has(&groups, UNAUTHENTICATED) {
            groups.push(UNAUTHENTICATED.to_owned());
        }
    } else if !has(&groups, AUTHENTICATED) && !has(&groups, UNAUTHENTICATED) {
        groups.push(AUTHENTICATED.to_owned());
    }
    groups
}

fn first(headers: &HeaderMap, name: &str) -> String {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default()
}

fn all(headers: &HeaderMap, name: &str) -> Vec<String> {
    headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
}

/// Parses the extras, sorted by key, so that the order of the checks does not depend on the order of the headers.
fn extras(headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut extras: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            extras.entry(unescape(key)).or_default().push(String::from_utf8_lossy(value.as_bytes()).into_owned());
        }
    }
    extras
}

#[cfg(test)]
mod tests;
