//! When a pod has to leave its node.

use std::time::Duration;

use crate::project::{PodView, Taint, Toleration};

/// What becomes of a pod on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It may stay.
    Stays,
    /// It may stay for this time yet.
    Waits(Duration),
    /// What it tolerated for a while it has tolerated for so long.
    TimeIsUp,
    /// It does not tolerate a taint.
    Goes,
}

/// The fate of a pod under taints, each with the time for which the pod has been under it. A taint is tolerated as long as the shortest of
/// the tolerations that fit it says; the pod stays as long as the shortest of its taints lets it.
pub(super) fn fate<'a>(pod: &PodView, taints: impl IntoIterator<Item = (&'a Taint, Duration)>) -> Fate {
    let mut fate = Fate::Stays;
    for (taint, under) in taints {
        let fitting: Vec<&Toleration> =
            pod.tolerations.iter().filter(|toleration| tolerates(toleration, taint)).collect();
        if fitting.is_empty() {
            return Fate::Goes;
        }
        // Of several that fit, upstream takes the shortest; those without a time never are.
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
