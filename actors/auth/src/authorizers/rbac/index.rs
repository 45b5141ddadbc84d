//! The snapshot a request is answered from: scope → user or group → the bindings that apply.

use std::sync::Arc;

use compact_str::CompactString;
use oarlock_meta::quote::quote;
use serde::{Deserialize, Serialize};

use super::GROUP;
use super::compiled::Role;
use crate::user::{UserInfo, service_account_name};

/// What kind of subject a binding names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SubjectKind {
    /// A user by name.
    User,
    /// A group by name.
    Group,
    /// A ServiceAccount by namespace and name.
    ServiceAccount,
    /// Something validation lets nobody write; it matches nobody.
    #[serde(untagged)]
    Other(CompactString),
}

/// Whom a binding means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// What `name` is the name of.
    pub kind: SubjectKind,
    /// The name.
    pub name: CompactString,
    /// A ServiceAccount's namespace; empty means the binding's own.
    #[serde(default)]
    pub namespace: CompactString,
}

/// Which role a binding hands out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RoleRef {
    /// `Role` or `ClusterRole`.
    pub kind: CompactString,
    /// The role's name.
    pub name: CompactString,
}

/// A RoleBinding, or a ClusterRoleBinding if it has no namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Empty for a cluster-wide one.
    pub namespace: CompactString,
    /// The binding's name.
    pub name: CompactString,
    /// What it hands out.
    pub role: RoleRef,
    /// To whom.
    pub subjects: Vec<Subject>,
}

impl Binding {
    /// The binding in the words of upstream's reasons, seen from one of its subjects.
    #[must_use]
    pub fn describe(&self, subject: usize) -> String {
        let to = self.subjects.get(subject).map(|s| self.describe_subject(s)).unwrap_or_default();
        let (kind, name) = (&self.role.kind, quote(&self.role.name));
        if self.namespace.is_empty() {
            return format!("ClusterRoleBinding {} of {kind} {name} to {to}", quote(&self.name));
        }
        let binding = quote(&format!("{}/{}", self.name, self.namespace));
        format!("RoleBinding {binding} of {kind} {name} to {to}")
    }

    fn describe_subject(&self, subject: &Subject) -> String {
        match &subject.kind {
            SubjectKind::User => format!("User {}", quote(&subject.name)),
            SubjectKind::Group => format!("Group {}", quote(&subject.name)),
            SubjectKind::Other(kind) => format!("{kind} {}", quote(&subject.name)),
            SubjectKind::ServiceAccount => {
                let namespace = if subject.namespace.is_empty() { &self.namespace } else { &subject.namespace };
                format!("ServiceAccount {}", quote(&format!("{}/{namespace}", subject.name)))
            }
        }
    }

    /// The user or group each subject stands for, with its position; subjects that stand for nobody are left out.
    pub(super) fn principals(&self) -> impl Iterator<Item = (Principal, usize)> + '_ {
        self.subjects.iter().enumerate().filter_map(|(position, subject)| {
            let principal = match subject.kind {
                SubjectKind::User => Principal::User(subject.name.as_str().into()),
                SubjectKind::Group => Principal::Group(subject.name.as_str().into()),
                SubjectKind::ServiceAccount => {
                    let namespace = if subject.namespace.is_empty() { &self.namespace } else { &subject.namespace };
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
}

/// A user or a group. A ServiceAccount is the user of that name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Principal {
    User(Box<str>),
    Group(Box<str>),
}

/// One binding as one principal meets it.
#[derive(Debug, Clone)]
pub(super) struct Granted {
    pub(super) binding: Arc<Binding>,
    /// The binding's first subject that is this principal.
    pub(super) subject: usize,
    /// The role, or which one is missing.
    pub(super) role: Result<Arc<Role>, Unresolved>,
}

/// A role reference that leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unresolved(pub RoleRef);

impl Unresolved {
    /// In the words of a request whose resource is `resource`: upstream's storage names the resource of the request it serves, and its
    /// authorizer (`None`) the role's own kind.
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

/// Several as one text, each said once (upstream: `utilerrors.Aggregate`); `None` when there are none.
#[must_use]
pub fn unresolved_text(unresolved: &[Unresolved], resource: Option<&str>) -> Option<String> {
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
    /// What applies to the user: as themselves, then by each group in order.
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

/// All scopes. Immutable once published; a clone shares everything.
#[derive(Debug, Default, Clone)]
pub(super) struct Index {
    cluster: Arc<Scope>,
    namespaces: ByName<Arc<Scope>>,
}

impl Index {
    /// The cluster-wide scope and, if it has any binding, that of the namespace.
    pub(super) fn scopes(&self, namespace: &str) -> impl Iterator<Item = &Arc<Scope>> {
        let own = if namespace.is_empty() { None } else { self.namespaces.get(namespace) };
        std::iter::once(&self.cluster).chain(own)
    }

    /// Replaces what one principal is granted in one scope.
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
