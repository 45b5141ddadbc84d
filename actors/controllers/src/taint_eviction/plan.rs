//! When a pod has to leave its node.

use oarlock_meta::Time;

use crate::project::{PodView, Taint, Toleration};

/// The time at which the pod leaves; `None` for never. A taint is tolerated as long as the shortest of the tolerations that fit it says, counted
/// from when it was added; the pod stays as long as the shortest of its taints lets it.
pub(super) fn leaves<'a>(pod: &PodView, taints: impl Iterator<Item = &'a Taint>, now: Time) -> Option<Time> {
    taints.filter_map(|taint| limit(pod, taint, now)).min()
}

fn limit(pod: &PodView, taint: &Taint, now: Time) -> Option<Time> {
    let fitting: Vec<&Toleration> = pod.tolerations.iter().filter(|toleration| tolerates(toleration, taint)).collect();
    if fitting.is_empty() {
        return Some(now);
    }
    // Of several that fit, upstream takes the shortest.
    let seconds = fitting.iter().filter_map(|toleration| toleration.seconds).min()?;
    Some(Time::from_unix(taint.added.unwrap_or(now).unix().saturating_add(seconds.max(0))))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    if toleration.key.is_empty() {
        return toleration.exists;
    }
    toleration.key == taint.key && (toleration.exists || toleration.value == taint.value)
}
