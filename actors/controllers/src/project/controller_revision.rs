//! The projection of ControllerRevisions, and the history that they are.

use std::sync::Arc;

use oarlock_informer::{Item, Project, ResourceName};
use oarlock_schema::Obj;
use oarlock_schema::views::apps_v1;
use oarlock_workloads::{Fingerprint, History, Revision};

/// The projection of a ControllerRevision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ControllerRevision {
    /// `revision`: the place in the history.
    pub(crate) number: i64,
    /// `data`.
    pub(crate) data: Fingerprint,
}

impl Project for ControllerRevision {
    const RESOURCE: ResourceName = ResourceName::new("apps", "v1", "controllerrevisions");

    fn project(obj: &Obj) -> Self {
        let Some(view) = obj.view::<apps_v1::ControllerRevision<'_>>() else { return Self::default() };
        Self { number: view.revision(), data: view.data().map(Fingerprint::of).unwrap_or_default() }
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

/// Returns the history that these revisions of one workload are.
pub(crate) fn history(revisions: &[Arc<Item<ControllerRevision>>]) -> History<'_> {
    History::new(revisions.iter().map(|item| Revision {
        name: item.meta.name(),
        number: item.value.number,
        created: item.meta.created,
        data: item.value.data,
    }))
}
