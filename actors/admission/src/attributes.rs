//! The attributes of a request that admission stages receive.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use oarlock_bus::Bus;
use oarlock_cel::Authorizer;
use oarlock_meta::Status;
use oarlock_schema::{Obj, Resource};

use crate::context::RequestContext;

/// The operation of a request on an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Creates the object.
    Create,
    /// Updates the object.
    Update,
    /// Deletes the object.
    Delete,
    /// Connects to the object (exec, proxy, …).
    Connect,
}

/// The user who makes a request.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The user name.
    pub name: &'a str,
    /// The user's groups.
    pub groups: &'a [String],
    /// The uid, unique for ever; empty if the authenticator gives none.
    pub uid: &'a str,
    /// Further attributes from the authenticator.
    pub extra: Option<&'a BTreeMap<String, Vec<String>>>,
}

impl<'a> Subject<'a> {
    /// Creates a user with a name and groups only.
    #[must_use]
    pub const fn new(name: &'a str, groups: &'a [String]) -> Self {
        Self { name, groups, uid: "", extra: None }
    }
}

/// Answers questions of stages about the permissions of the requesting user.
#[derive(Clone, Copy)]
pub struct UserPermissions<'a>(&'a (dyn Authorizer + Send + Sync));

impl<'a> UserPermissions<'a> {
    /// Wraps an authorizer.
    #[must_use]
    pub fn new(authorizer: &'a (dyn Authorizer + Send + Sync)) -> Self {
        Self(authorizer)
    }

    /// Returns the authorizer.
    #[must_use]
    pub fn authorizer(self) -> &'a dyn Authorizer {
        self.0
    }
}

impl fmt::Debug for UserPermissions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rights").finish_non_exhaustive()
    }
}

/// The attributes of one request, as in upstream's `admission.Attributes`.
#[derive(Debug)]
pub struct Attributes<'a> {
    /// The operation.
    pub operation: Operation,
    /// The resource.
    pub resource: &'static Resource,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// The namespace; empty for cluster scope.
    pub namespace: &'a str,
    /// The object's name; empty when a new object has only `generateName`.
    pub name: &'a str,
    /// The user who makes the request.
    pub user: Subject<'a>,
    /// The new object; `None` for deletions. Mutating stages change the object.
    pub object: Option<&'a mut Obj>,
    /// The stored object, for updates and deletions.
    pub old: Option<&'a Obj>,
    /// The further state of the request, shared by all stages.
    pub context: &'a mut RequestContext,
    /// The permissions of the user; policies may check them.
    pub authorizer: Option<UserPermissions<'a>>,
    /// The message bus to other processes, if there is one.
    pub bus: Option<Bus>,
}

impl Attributes<'_> {
    /// Whether the request is for the main endpoint of this group and plural.
    #[must_use]
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.subresource.is_empty() && self.resource.group == group && self.resource.plural == plural
    }

    /// Returns a 403 about the object of this request (upstream `admission.NewForbidden`).
    #[must_use]
    pub fn forbidden(&self, why: impl Display) -> Status {
        Status::forbidden(&self.resource.group_resource(), self.called(), why)
    }

    /// Returns the object's name for error texts: its name, or `generateName`'s prefix while the name is not drawn yet.
    fn called(&self) -> &str {
        if !self.name.is_empty() {
            return self.name;
        }
        let meta = self.object.as_deref().map(Obj::meta);
        let names = meta.map(|meta| [meta.name(), meta.generate_name()]);
        names.into_iter().flatten().find(|name| !name.is_empty()).unwrap_or("Unknown")
    }
}
