//! Builds the messages of unschedulable pods, letter for letter as upstream's (`FitError`, `handleSchedulingFailure`),
//! because people and tools search for them.

use crate::framework::{Nominating, PostFilterContext};
use crate::table::PLUGINS;

/// Message while the cluster has no node (upstream: `ErrNoNodesAvailable`).
pub(crate) const NO_NODES: &str = "no nodes available to schedule pods";

/// Bound of an Event's note, in bytes.
const NOTE_LIMIT: usize = 1024;

/// Returns `0/<nodes> nodes are available: <reasons>.`
pub(crate) fn unavailable(nodes: usize, reasons: &str) -> String {
    if reasons.is_empty() {
        format!("0/{nodes} nodes are available:")
    } else {
        format!("0/{nodes} nodes are available: {reasons}.")
    }
}

/// Runs the PostFilters and returns the full message. If a PostFilter nominates the pod, the other PostFilters' messages are left out.
pub(crate) fn unschedulable(mut context: PostFilterContext<'_>) -> (String, Nominating) {
    let diagnosis = context.diagnosis;
    let mut text = match &diagnosis.rejected {
        Some(reason) => unavailable(diagnosis.nodes, reason),
        None => unavailable(diagnosis.nodes, &diagnosis.tally.text(&context.cluster.names)),
    };
    let mut messages = Vec::new();
    let mut nominating = Nominating::AsBefore;
    for post_filter in PLUGINS.iter().filter_map(|plugin| plugin.post_filter) {
        let result = post_filter(&mut context);
        match result.nominating {
            Nominating::Preempt(_) => return (text, result.nominating),
            Nominating::Nowhere => nominating = Nominating::Nowhere,
            Nominating::AsBefore => {}
        }
        if !result.message.is_empty() {
            messages.push(result.message);
        }
        if result.stop {
            break;
        }
    }
    if !messages.is_empty() {
        text.push(' ');
        text.push_str(&messages.join(", "));
    }
    (text, nominating)
}

/// Truncates a text to the bound of an Event's note.
pub(crate) fn note(text: &str) -> String {
    if text.len() <= NOTE_LIMIT {
        return text.to_owned();
    }
    let mut end = NOTE_LIMIT - " ...".len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{} ...", text.get(..end).unwrap_or_default())
}
