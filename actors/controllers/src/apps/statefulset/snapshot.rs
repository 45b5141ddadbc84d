//! The input of a StatefulSet's plan: the set with its pods, revisions and claims at one time.

use std::sync::Arc;

use oarlock_informer::Item;
use oarlock_meta::Time;
use oarlock_schema::Str;

use super::members::{self, Pod};
use crate::project::{PodView, StatefulSet};

/// A cached claim.
pub(super) type Claim = Arc<Item<()>>;

/// The names of a StatefulSet's revisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// The revision of the template before the last change.
    pub(super) current: Str,
    /// The revision of the template that the set has.
    pub(super) update: Str,
    /// How often the name of a new revision was in use already.
    pub(super) collisions: i64,
}

/// The input of the plan: a StatefulSet, its pods, its revisions and its claims.
pub(super) struct Snapshot<'a> {
    pub(super) set: &'a Item<StatefulSet>,
    pub(super) pods: &'a [Pod],
    pub(super) names: &'a Names,
    /// Returns the claim of a name in the set's namespace.
    pub(super) claim: &'a dyn Fn(&str) -> Option<Claim>,
    /// Whether `maxUnavailable` applies to rolling updates (gate `MaxUnavailableStatefulSet`).
    pub(super) counts_unavailable: bool,
    pub(super) now: Time,
}

impl Snapshot<'_> {
    /// Whether pods are created and deleted one by one, in the order of ordinals.
    pub(super) fn is_ordered(&self) -> bool {
        !self.set.value.parallel
    }

    /// Whether a pod counts as available.
    pub(super) fn is_available(&self, pod: &Item<PodView>) -> bool {
        members::is_available(pod, self.set.value.min_ready, self.now)
    }
}
