//! What a stage sees of a request.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use oarlock_bus::Bus;
use oarlock_cel::Authorizer;
use oarlock_meta::Status;
use oarlock_schema::{Obj, Resource};

use crate::context::RequestContext;

/// What a request does to an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Makes it.
    Create,
    /// Changes it.
    Update,
    /// Deletes it.
    Delete,
    /// Connects to it (exec, proxy, …).
    Connect,
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// User name.
    pub name: &'a str,
    /// Groups.
    pub groups: &'a [String],
    /// Unique for ever, where there is such a thing.
    pub uid: &'a str,
    /// What else the authenticator knows.
    pub extra: Option<&'a BTreeMap<String, Vec<String>>>,
}

impl<'a> Subject<'a> {
    /// Somebody of whom only name and groups are known.
    #[must_use]
    pub const fn new(name: &'a str, groups: &'a [String]) -> Self {
        Self { name, groups, uid: "", extra: None }
    }
}

/// Answers what stages ask about the rights of whoever makes the request.
#[derive(Clone, Copy)]
pub struct Rights<'a>(&'a (dyn Authorizer + Send + Sync));

impl<'a> Rights<'a> {
    /// Answers of this authorizer.
    #[must_use]
    pub fn new(authorizer: &'a (dyn Authorizer + Send + Sync)) -> Self {
        Self(authorizer)
    }

    /// The authorizer.
    #[must_use]
    pub fn authorizer(self) -> &'a dyn Authorizer {
        self.0
    }
}

impl fmt::Debug for Rights<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rights").finish_non_exhaustive()
    }
}

/// One request as stages see it.
#[derive(Debug)]
pub struct Attributes<'a> {
    /// What is done.
    pub operation: Operation,
    /// To which resource.
    pub resource: &'static Resource,
    /// Through which subresource; empty for the object itself.
    pub subresource: &'a str,
    /// In which namespace; empty for cluster scope.
    pub namespace: &'a str,
    /// To which object; empty when a new one has only `generateName`.
    pub name: &'a str,
    /// By whom.
    pub user: Subject<'a>,
    /// The new object; `None` for deletions. Mutating stages change it.
    pub object: Option<&'a mut Obj>,
    /// The stored object, for updates and deletions.
    pub old: Option<&'a Obj>,
    /// What the request carries beside its object.
    pub context: &'a mut RequestContext,
    /// What the user may do besides; policies may ask.
    pub authorizer: Option<Rights<'a>>,
    /// The way to other processes, where there is one.
    pub bus: Option<Bus>,
}

impl Attributes<'_> {
    /// Whether the request is about the main endpoint of this group and plural.
    #[must_use]
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.subresource.is_empty() && self.resource.group == group && self.resource.plural == plural
    }

    /// 403 about the object of this request (upstream `admission.NewForbidden`).
    #[must_use]
    pub fn forbidden(&self, why: impl Display) -> Status {
        Status::forbidden(&self.resource.group_resource(), self.called(), why)
    }

    /// How refusals call the object: by its name, or the prefix of a name that is yet to be drawn.
    fn called(&self) -> &str {
        if !self.name.is_empty() {
            return self.name;
        }
        let meta = self.object.as_deref().map(Obj::meta);
        let names = meta.map(|meta| [meta.name(), meta.generate_name()]);
        names.into_iter().flatten().find(|name| !name.is_empty()).unwrap_or("Unknown")
    }
}
