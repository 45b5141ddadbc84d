//! When a pod has to leave its node.

use std::time::Duration;

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

/// What happens to a pod under taints, each with the time for which the pod has been under it. The shortest of the tolerations that match a taint limits how
/// long that taint is tolerated, and the shortest of these limits decides about the pod.
pub(super) fn fate<'a>(pod: &PodView, taints: impl IntoIterator<Item = (&'a Taint, Duration)>) -> Fate {
    let mut fate = Fate::Stays;
    for (taint, under) in taints {
        let fitting: Vec<&Toleration> =
            pod.tolerations.iter().filter(|toleration| tolerates(toleration, taint)).collect();
        if fitting.is_empty() {
            return Fate::Goes;
        }
        // As upstream: of several matching tolerations the shortest time counts; a toleration without a time sets no limit.
        let Some(seconds) = fitting.iter().filter_map(|toleration| toleration.seconds).min() else { continue };
        let limit = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        fate = match (fate, limit.checked_sub(under).filter(|left| !left.is_zero())) {
            (Fate::TimeIsUp, _) | (_, None) => Fate::TimeIsUp,
            (Fate::Waits(known), Some(left)) => Fate::Waits(known.min(left)),
            (_, Some(left)) => Fate::Waits(left),
        };
    }
    fate
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    if toleration.key.is_empty() {
        return toleration.exists;
    }
    toleration.key == taint.key && (toleration.exists || toleration.value == taint.value)
}
