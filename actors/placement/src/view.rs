//! The projections of Leases and Assignments.

use oarlock_informer::{ObjMeta, Project, ResourceName};
use oarlock_schema::views::{coordination_v1, oarlock_v1};
use oarlock_schema::{Obj, Str};

/// The namespace of members' Leases.
pub(crate) const NAMESPACE: &str = "kube-system";
/// The label of a member's Lease with the member's role.
pub(crate) const ROLE: &str = "oarlock.dev/role";
/// The label of the Lease of a member that is shutting down.
pub(crate) const LEAVING: &str = "oarlock.dev/leaving";

/// The label of the Lease of a member that sends heartbeats on the bus.
pub(crate) const BUS: &str = "oarlock.dev/bus";

/// The projection of a member's Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseView {
    /// The Lease's duration in seconds.
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

/// Whether the Lease is of a member that is shutting down.
pub(crate) fn is_leaving(lease: &ObjMeta) -> bool {
    has(lease, LEAVING)
}

/// Whether the Lease is of a member that sends heartbeats on the bus.
pub(crate) fn speaks(lease: &ObjMeta) -> bool {
    has(lease, BUS)
}

fn has(lease: &ObjMeta, label: &str) -> bool {
    lease.labels.iter().any(|(key, _)| key.as_str() == label)
}

/// The projection of an Assignment: the holder of a unit. The unit's epoch is the object's revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AssignmentView {
    /// The name of the member that holds the unit.
    pub(crate) holder: Str,
}

impl Project for AssignmentView {
    const RESOURCE: ResourceName = ResourceName::new("oarlock.dev", "v1", "assignments");

    fn project(obj: &Obj) -> Self {
        let assignment = obj.view::<oarlock_v1::Assignment<'_>>();
        Self { holder: assignment.map_or("", |assignment| assignment.spec().holder_identity()).into() }
    }
}
