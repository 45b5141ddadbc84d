//! The snapshot on which requests are decided: scope → user or group → bindings that apply.

use std::sync::Arc;

use oarlock_meta::quote::quote;

use super::GROUP;
use super::compiled::Role;
use crate::grant::{Binding, RoleRef, SubjectKind};
use crate::user::{UserInfo, service_account_name};

/// A user or a group. A ServiceAccount is represented by its user name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Principal {
    User(Box<str>),
    Group(Box<str>),
}

/// Returns the user or group of each subject of a binding, with the subject's position; invalid subjects are skipped.
pub(super) fn principals(binding: &Binding) -> impl Iterator<Item = (Principal, usize)> + '_ {
    binding.subjects.iter().enumerate().filter_map(|(position, subject)| {
        let principal = match subject.kind {
            SubjectKind::User => Principal::User(subject.name.as_str().into()),
            SubjectKind::Group => Principal::Group(subject.name.as_str().into()),
            SubjectKind::ServiceAccount => {
                let namespace = if subject.namespace.is_empty() { &binding.namespace } else { &subject.namespace };
                if namespace.is_empty() {
                    return None;
                }
                Principal::User(service_account_name(namespace, &subject.name).into())
            }
            SubjectKind::Other(_) => return None,
        };
        Some((principal, position))
    })
}

/// A binding that applies to one principal.
#[derive(Debug, Clone)]
pub(super) struct Granted {
    pub(super) binding: Arc<Binding>,
    /// The position of the binding's first subject that matches the principal.
    pub(super) subject: usize,
    /// The role, or the reference to a missing role.
    pub(super) role: Result<Arc<Role>, MissingRole>,
}

/// A reference to a role that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingRole(pub RoleRef);

impl MissingRole {
    /// Formats the error for a request whose resource is `resource`: upstream's storage names the resource of the request, and its authorizer
    /// (`None`) the role's own kind.
    #[must_use]
    pub fn text(&self, resource: Option<&str>) -> String {
        let RoleRef { kind, name } = &self.0;
        match (kind.as_str(), resource) {
            ("Role" | "ClusterRole", Some(resource)) => format!("{resource}.{GROUP} {} not found", quote(name)),
            ("Role", None) => format!("role.{GROUP} {} not found", quote(name)),
            ("ClusterRole", None) => format!("clusterrole.{GROUP} {} not found", quote(name)),
            _ => format!("unsupported role reference kind: {}", quote(kind)),
        }
    }
}

/// Joins several errors into one text, each listed once (upstream: `utilerrors.Aggregate`); `None` when there are none.
#[must_use]
pub fn unresolved_text(unresolved: &[MissingRole], resource: Option<&str>) -> Option<String> {
    let mut seen: Vec<String> = Vec::new();
    for one in unresolved {
        let text = one.text(resource);
        if !seen.contains(&text) {
            seen.push(text);
        }
    }
    match seen.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("[{}]", many.join(", "))),
    }
}

type Grants = Arc<[Granted]>;
type ByName<V> = imbl::HashMap<Box<str>, V>;

/// The bindings of one namespace, or the cluster-wide ones.
#[derive(Debug, Default, Clone)]
pub(super) struct Scope {
    users: ByName<Grants>,
    groups: ByName<Grants>,
}

impl Scope {
    /// Iterates over the grants of the user: first by user name, then by each group in order.
    pub(super) fn grants<'a>(&'a self, user: &'a UserInfo) -> impl Iterator<Item = &'a Grants> + 'a {
        let own = self.users.get(user.name.as_str());
        own.into_iter().chain(user.groups.iter().filter_map(|group| self.groups.get(group.as_str())))
    }

    fn set(&mut self, principal: Principal, grants: Vec<Granted>) {
        let (map, name) = match principal {
            Principal::User(name) => (&mut self.users, name),
            Principal::Group(name) => (&mut self.groups, name),
        };
        if grants.is_empty() {
            map.remove(&name);
        } else {
            map.insert(name, grants.into());
        }
    }

    fn is_empty(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty()
    }
}

/// The grants of all scopes. Immutable once published; a clone shares all scopes.
#[derive(Debug, Default, Clone)]
pub(super) struct Index {
    cluster: Arc<Scope>,
    namespaces: ByName<Arc<Scope>>,
}

impl Index {
    /// Iterates over the cluster-wide scope and, if it has any binding, the namespace's.
    pub(super) fn scopes(&self, namespace: &str) -> impl Iterator<Item = &Arc<Scope>> {
        let own = if namespace.is_empty() { None } else { self.namespaces.get(namespace) };
        std::iter::once(&self.cluster).chain(own)
    }

    /// Replaces the grants of one principal in one scope.
    pub(super) fn set(&mut self, namespace: &str, principal: Principal, grants: Vec<Granted>) {
        if namespace.is_empty() {
            Arc::make_mut(&mut self.cluster).set(principal, grants);
            return;
        }
        let mut scope = self.namespaces.get(namespace).cloned().unwrap_or_default();
        Arc::make_mut(&mut scope).set(principal, grants);
        if scope.is_empty() {
            self.namespaces.remove(namespace);
        } else {
            self.namespaces.insert(namespace.into(), scope);
        }
    }
}
