//! The input of a Deployment's plan: the Deployment with its ReplicaSets, sorted and counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use oarlock_informer::Item;
use oarlock_schema::Str;

use super::annotations;
use crate::project::{Amount, Deployment, ReplicaSet, Strategy};

/// A change of a ReplicaSet: size, annotations and `minReadySeconds`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resize {
    /// The name of the ReplicaSet.
    pub(super) set: Str,
    /// The size before the change.
    pub(super) from: i64,
    /// The size after the change.
    pub(super) to: i64,
    /// Annotations to set.
    pub(super) annotations: BTreeMap<Str, Str>,
    /// `minReadySeconds` to set.
    pub(super) min_ready: Option<i64>,
}

/// ReplicaSets, oldest first.
pub(super) type Sets<'a> = Vec<&'a Item<ReplicaSet>>;

/// The input of a Deployment's plan: the Deployment with its sorted ReplicaSets.
pub(super) struct Snapshot<'a> {
    pub(super) deployment: &'a Item<Deployment>,
    /// The set of the current template.
    pub(super) new: Option<&'a Item<ReplicaSet>>,
    /// The sets of older templates, oldest first.
    pub(super) old: Sets<'a>,
    pub(super) surge: i64,
    pub(super) unavailable: i64,
}

impl<'a> Snapshot<'a> {
    /// Sorts the ReplicaSets of a Deployment.
    pub(super) fn new(deployment: &'a Item<Deployment>, sets: &'a [Arc<Item<ReplicaSet>>]) -> Self {
        let mut all: Sets<'a> = sets.iter().map(|set| &**set).collect();
        all.sort_by(|a, b| (a.meta.created, a.meta.name()).cmp(&(b.meta.created, b.meta.name())));
        // Of several sets with the current template (normally one) the oldest counts, so that every process chooses the same.
        let new = all.iter().copied().find(|set| set.value.template == deployment.value.template);
        let old = all.into_iter().filter(|set| new.is_none_or(|new| !std::ptr::eq(*set, new))).collect();
        let (surge, unavailable) = bounds(&deployment.value);
        Self { deployment, new, old, surge, unavailable }
    }

    /// Returns every set: the old ones, oldest first, then the new one.
    pub(super) fn all(&self) -> impl Iterator<Item = &'a Item<ReplicaSet>> + '_ {
        self.old.iter().copied().chain(self.new)
    }

    /// Returns the number of wanted pods of all sets.
    pub(super) fn total(&self) -> i64 {
        self.all().map(|set| set.value.replicas).sum()
    }

    /// Returns the size that the new set may have now (upstream `NewRSNewReplicas`).
    pub(super) fn new_size(&self) -> i64 {
        let wanted = self.deployment.value.replicas;
        if self.deployment.value.strategy == Strategy::Recreate {
            return wanted;
        }
        let size = self.new.map_or(0, |new| new.value.replicas);
        let room = wanted.saturating_add(self.surge).saturating_sub(self.total());
        if room <= 0 { size } else { size + room.min(wanted - size) }
    }

    /// Returns the change of a set to a size; `None` if nothing changes.
    pub(super) fn resize(&self, set: &Item<ReplicaSet>, to: i64) -> Option<Resize> {
        let annotations = annotations::for_size(Some(set), self.deployment.value.replicas, self.surge);
        let from = set.value.replicas;
        (from != to || !annotations.is_empty()).then(|| Resize {
            set: set.key().name.clone(),
            from,
            to,
            annotations,
            min_ready: None,
        })
    }
}

/// Returns the surge (rounded up) and the unavailable pods (rounded down). If both are zero, one pod may be unavailable, because a rollout could not
/// progress otherwise (upstream `ResolveFenceposts`).
fn bounds(deployment: &Deployment) -> (i64, i64) {
    let Strategy::Rolling { surge, unavailable } = &deployment.strategy else { return (0, 0) };
    let of = |amount: &Amount, up| amount.of(deployment.replicas, up).max(0);
    let (surge, unavailable) = (of(surge, true), of(unavailable, false));
    let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
    (surge, unavailable.min(deployment.replicas))
}
