//! The pods of a StatefulSet by their ordinals: those of the ordinals that the set wants, and those that it has too many.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use oarlock_informer::Item;
use oarlock_meta::Time;
use oarlock_seeded_bug::seeded_bug;

use crate::project::{Phase, PodView, StatefulSet};

/// A cached pod.
pub(super) type Pod = Arc<Item<PodView>>;

/// The label with a pod's own name (upstream `StatefulSetPodNameLabel`).
pub(super) const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
/// The label with a pod's ordinal (upstream `PodIndexLabel`).
pub(super) const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
/// The label with the name of a pod's revision (upstream `StatefulSetRevisionLabel`).
pub(super) const REVISION: &str = "controller-revision-hash";

/// Returns the name of the pod of an ordinal.
pub(super) fn pod_name(set: &str, ordinal: i64) -> String {
    format!("{set}-{ordinal}")
}

/// Returns the ordinal in a pod's name; `None` unless the set's pod of the ordinal has exactly this name, so that an ordinal has one name only.
pub(super) fn ordinal(set: &str, pod: &str) -> Option<i64> {
    let digits = pod.strip_prefix(set)?.strip_prefix('-')?;
    let ordinal = i64::from(digits.parse::<i32>().ok()?);
    (ordinal >= 0 && pod_name(set, ordinal) == pod).then_some(ordinal)
}

/// Returns the ordinals that a set wants. If `spec.ordinals.start` is 5 and three replicas are wanted: 5, 6 and 7.
pub(super) fn ordinals(set: &StatefulSet) -> Range<i64> {
    set.start..set.start.saturating_add(set.replicas)
}

/// The pods of a StatefulSet by their ordinals.
pub(super) struct Members {
    /// The pods of wanted ordinals.
    pub(super) wanted: BTreeMap<i64, Pod>,
    /// The pods of other ordinals.
    pub(super) surplus: BTreeMap<i64, Pod>,
}

impl Members {
    /// Sorts the pods of a set.
    pub(super) fn of(set: &Item<StatefulSet>, pods: &[Pod]) -> Self {
        let range = ordinals(&set.value);
        let named = pods.iter().filter_map(|pod| Some((ordinal(set.meta.name(), pod.meta.name())?, pod.clone())));
        let present = named.filter(|(_, pod)| !(pod.meta.deleting() && seeded_bug!("two_ordinals_at_once")));
        let (wanted, surplus) = present.partition(|(ordinal, _)| range.contains(ordinal));
        Self { wanted, surplus }
    }
}

/// Whether a pod runs and is ready (upstream `isRunningAndReady`).
pub(super) fn runs_ready(pod: &PodView) -> bool {
    pod.phase == Phase::Running && pod.ready
}

/// Whether a pod counts as available: ready for `seconds`, and not being deleted (upstream `!isUnavailable`).
pub(super) fn is_available(pod: &Item<PodView>, seconds: i64, now: Time) -> bool {
    pod.value.available(seconds, now) && !pod.meta.deleting()
}
