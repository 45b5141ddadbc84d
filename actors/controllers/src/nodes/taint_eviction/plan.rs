//! When a pod has to leave its node.

use std::time::Duration;

use oarlock_pods::Effect;

use crate::project::{PodView, Taint, Toleration};

/// What becomes of a pod on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It may stay.
    Stays,
    /// It may stay for this much longer.
    Waits(Duration),
    /// The time for which it tolerates a taint is over.
    TimeIsUp,
    /// It does not tolerate a taint.
    Goes,
}

/// What happens to a pod under taints that evict, each with the time for which the pod has been under it. The first of the tolerations that match a taint says
/// how long that taint is tolerated (upstream `GetMatchingTolerations`), and the shortest of these times decides about the pod.
pub(super) fn fate<'a>(pod: &PodView, taints: impl IntoIterator<Item = (&'a Taint, Duration)>) -> Fate {
    let mut fate = Fate::Stays;
    for (taint, under) in taints {
        let tolerates = |one: &&Toleration| one.taints.tolerates(&taint.key, &taint.value, Effect::NoExecute);
        let Some(first) = pod.tolerations.iter().find(tolerates) else { return Fate::Goes };
        let Some(seconds) = first.seconds else { continue };
        let limit = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        fate = match (fate, limit.checked_sub(under).filter(|left| !left.is_zero())) {
            (Fate::TimeIsUp, _) | (_, None) => Fate::TimeIsUp,
            (Fate::Waits(known), Some(left)) => Fate::Waits(known.min(left)),
            (_, Some(left)) => Fate::Waits(left),
        };
    }
    fate
}
