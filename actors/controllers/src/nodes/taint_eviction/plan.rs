//! Decides whether and when a pod is evicted from its node.

use std::time::Duration;

use oarlock_pods::Effect;

use crate::project::{PodView, Taint, Toleration};

/// The decision about a pod on a tainted node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The pod stays.
    Stays,
    /// The pod stays for this much longer.
    Waits(Duration),
    /// The pod is evicted, because the time is over for which it tolerates a taint.
    TimeIsUp,
    /// The pod is evicted, because it does not tolerate a taint.
    Goes,
}

/// Decides about a pod under NoExecute taints, each with the time for which the pod has been under the taint. The first toleration that matches a taint
/// determines how long the taint is tolerated (upstream `GetMatchingTolerations`); the shortest of these times decides.
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
