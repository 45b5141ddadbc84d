//! SchedulingGates: a pod with gates is not queued until the last gate is removed.

use crate::cluster::Cluster;
use crate::event::{Event, kind};
use crate::model::PodInfo;
use crate::plugin::Plugin;

/// The row of SchedulingGates in the table of plugins.
pub(crate) const ROW: Plugin = Plugin {
    name: "SchedulingGates",
    pre_enqueue: Some(gated),
    events: kind::ITSELF,
    hint: Some(hint),
    ..Plugin::NONE
};

fn gated(pod: &PodInfo) -> Option<String> {
    (!pod.gates.is_empty()).then(|| format!("waiting for scheduling gates: [{}]", pod.gates.join(" ")))
}

fn hint(_: &Cluster, _: &PodInfo, event: &Event<'_>) -> bool {
    matches!(event, Event::Itself { old, new } if !old.gates.is_empty() && new.gates.is_empty())
}
