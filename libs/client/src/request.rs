//! Calls and answers as values, common to all transports.

use std::time::Duration;

use bytes::Bytes;
use oarlock_meta::{Revision, Status};
use oarlock_schema::{Obj, Resource, Str};

use crate::fence::Fence;
use crate::object::{List, Object};
use crate::options::{DeleteOptions, GetOptions, ListOptions, PatchType, WriteOptions};

/// One API call.
#[derive(Clone, Debug)]
pub struct Request {
    /// The resource.
    pub resource: &'static Resource,
    /// The subresource, such as `status`; empty for the object itself.
    pub subresource: &'static str,
    /// The namespace; empty for cluster-scoped resources and for calls over all namespaces.
    pub namespace: Str,
    /// Name of the object; empty for calls on the collection, which include creates (except creates of a subresource).
    pub name: Str,
    /// The verb with its options and body.
    pub call: Call,
    /// The claim that must be current for a write to succeed.
    pub fence: Option<Fence>,
    /// Budget of the whole call, retries included. When it is spent, the transport answers with a 504 Status.
    pub timeout: Duration,
}

/// Verb of a call, with options and body; for `watch` see [`crate::Transport::watch`].
#[derive(Clone, Debug)]
pub enum Call {
    /// Read one object.
    Get(GetOptions),
    /// List objects.
    List(ListOptions),
    /// Create an object, or POST to a subresource (`binding`, `eviction`, `token`).
    Create(Obj, WriteOptions),
    /// Replace an object or a subresource.
    Update(Obj, WriteOptions),
    /// Patch an object or a subresource.
    Patch(PatchType, Bytes, WriteOptions),
    /// Delete an object.
    Delete(DeleteOptions),
    /// Delete the objects that the list options select.
    DeleteCollection(ListOptions, DeleteOptions),
}

impl Call {
    /// Whether the call only reads.
    #[must_use]
    pub const fn is_read(&self) -> bool {
        matches!(self, Self::Get(_) | Self::List(_))
    }

    /// Returns the verb as RBAC and metrics name it.
    #[must_use]
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::Get(_) => "get",
            Self::List(_) => "list",
            Self::Create(..) => "create",
            Self::Update(..) => "update",
            Self::Patch(..) => "patch",
            Self::Delete(_) => "delete",
            Self::DeleteCollection(..) => "deletecollection",
        }
    }
}

/// Successful answer to a call. Failures are `Err(Status)`; [`Reply::Status`] is always a success.
#[derive(Clone, Debug)]
pub enum Reply {
    /// One object.
    Object {
        /// The object.
        object: Object,
        /// Whether the call created the object (201).
        created: bool,
    },
    /// A list of objects.
    List(List),
    /// Success without an object.
    Status(Status),
}

/// One event of a watch. Objects show the state after the change; `Deleted` carries the last state with the revision of the deletion.
#[derive(Clone, Debug)]
pub enum Event {
    /// The object exists, was created, or now matches the selectors.
    Added(Object),
    /// The object changed.
    Modified(Object),
    /// The object was deleted, or no longer matches the selectors.
    Deleted(Object),
    /// All events up to this revision have been sent.
    Bookmark {
        /// The revision.
        revision: Revision,
        /// Whether the bookmark ends the initial events of a `send_initial_events` watch.
        initial_events_end: bool,
    },
    /// The watch failed; no event follows. 410 means that the revision is too old and the client must list again.
    Error(Status),
}

impl Event {
    /// Returns the revision that the stream has reached with this event; `None` for errors.
    #[must_use]
    pub fn revision(&self) -> Option<Revision> {
        match self {
            Self::Added(object) | Self::Modified(object) | Self::Deleted(object) => Some(object.revision),
            Self::Bookmark { revision, .. } => Some(*revision),
            Self::Error(_) => None,
        }
    }
}
