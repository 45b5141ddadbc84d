//! Calls and answers as values, the same for every transport.

use std::time::Duration;

use bytes::Bytes;
use oarlock_meta::{Revision, Status};
use oarlock_schema::{Obj, Resource, Str};

use crate::fence::Fence;
use crate::object::{List, Object};
use crate::options::{DeleteOptions, GetOptions, ListOptions, PatchType, WriteOptions};

/// One call.
#[derive(Clone, Debug)]
pub struct Request {
    /// What it is about.
    pub resource: &'static Resource,
    /// Which subresource, as `status`; empty for the object itself.
    pub subresource: &'static str,
    /// The namespace; empty for cluster-scoped resources and for calls over all namespaces.
    pub namespace: Str,
    /// The object; empty for calls on the collection, and so for creates (but not for creates on a subresource).
    pub name: Str,
    /// The verb and what goes with it.
    pub call: Call,
    /// The claim under which a write is made.
    pub fence: Option<Fence>,
    /// Budget of the whole call, retries included. The transport answers with a 504 Status when it is spent.
    pub timeout: Duration,
}

/// The verbs; `watch` is [`crate::Transport::watch`].
#[derive(Clone, Debug)]
pub enum Call {
    /// Read one object.
    Get(GetOptions),
    /// Read many.
    List(ListOptions),
    /// Create an object, or POST to a subresource (`binding`, `eviction`, `token`).
    Create(Obj, WriteOptions),
    /// Replace an object or a subresource.
    Update(Obj, WriteOptions),
    /// Change an object or a subresource.
    Patch(PatchType, Bytes, WriteOptions),
    /// Delete an object.
    Delete(DeleteOptions),
    /// Delete what the list options select.
    DeleteCollection(ListOptions, DeleteOptions),
}

impl Call {
    /// Whether it changes nothing.
    #[must_use]
    pub const fn is_read(&self) -> bool {
        matches!(self, Self::Get(_) | Self::List(_))
    }

    /// The verb as RBAC and metrics name it.
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

/// What a call was answered with. Failures are `Err(Status)`; a [`Reply::Status`] is always a success.
#[derive(Clone, Debug)]
pub enum Reply {
    /// One object.
    Object {
        /// The object.
        object: Object,
        /// The call created it (201).
        created: bool,
    },
    /// Many objects.
    List(List),
    /// Success without an object.
    Status(Status),
}

/// What a watch reports. Objects are the state after the change; for `Deleted` the last state, with the revision of the deletion.
#[derive(Clone, Debug)]
pub enum Event {
    /// It exists, or came into the selection.
    Added(Object),
    /// It changed.
    Modified(Object),
    /// It is gone, or left the selection.
    Deleted(Object),
    /// Everything up to this revision has been sent.
    Bookmark {
        /// That revision.
        revision: Revision,
        /// It ends the initial events of a `send_initial_events` watch.
        initial_events_end: bool,
    },
    /// The watch failed; nothing follows. 410 means that the revision is too old: list again.
    Error(Status),
}

impl Event {
    /// The revision up to which the stream has come with this event; `None` for errors.
    #[must_use]
    pub fn revision(&self) -> Option<Revision> {
        match self {
            Self::Added(object) | Self::Modified(object) | Self::Deleted(object) => Some(object.revision),
            Self::Bookmark { revision, .. } => Some(*revision),
            Self::Error(_) => None,
        }
    }
}
