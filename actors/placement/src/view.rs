//! What is read of Leases and Assignments.

use oarlock_informer::{ObjMeta, Project, ResourceName};
use oarlock_schema::views::{coordination_v1, oarlock_v1};
use oarlock_schema::{Obj, Str};

/// Where members' Leases are.
pub(crate) const NAMESPACE: &str = "kube-system";
/// The label of members' Leases: what they work on.
pub(crate) const ROLE: &str = "oarlock.dev/role";
/// The label of a member that is about to end.
pub(crate) const LEAVING: &str = "oarlock.dev/leaving";

/// The label of a member that says on the bus that it lives.
pub(crate) const BUS: &str = "oarlock.dev/bus";

/// A member's Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseView {
    /// For how many seconds it stands without being renewed.
    pub(crate) seconds: u64,
}

impl Project for LeaseView {
    const RESOURCE: ResourceName = ResourceName::new("coordination.k8s.io", "v1", "leases");

    fn project(obj: &Obj) -> Self {
        let lease = obj.view::<coordination_v1::Lease<'_>>();
        let seconds = lease.and_then(|lease| lease.spec().lease_duration_seconds()).unwrap_or(0);
        Self { seconds: u64::try_from(seconds).unwrap_or(0) }
    }
}

/// Whether a member has said that it ends.
pub(crate) fn is_leaving(lease: &ObjMeta) -> bool {
    has(lease, LEAVING)
}

/// Whether a member is to be heard on the bus.
pub(crate) fn speaks(lease: &ObjMeta) -> bool {
    has(lease, BUS)
}

fn has(lease: &ObjMeta, label: &str) -> bool {
    lease.labels.iter().any(|(key, _)| key.as_str() == label)
}

/// Who works for a unit. Its epoch is the object's revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AssignmentView {
    /// The member.
    pub(crate) holder: Str,
}

impl Project for AssignmentView {
    const RESOURCE: ResourceName = ResourceName::new("oarlock.dev", "v1", "assignments");

    fn project(obj: &Obj) -> Self {
        let assignment = obj.view::<oarlock_v1::Assignment<'_>>();
        Self { holder: assignment.map_or("", |assignment| assignment.spec().holder_identity()).into() }
    }
}
