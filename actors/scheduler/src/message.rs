//! The texts of an unschedulable pod, letter for letter as upstream's (`FitError`, `handleSchedulingFailure`):
//! people and tools search for them.

use crate::cluster::Cluster;
use crate::framework::{Diagnosis, PostFiltered};
use crate::model::PodInfo;
use crate::table::PLUGINS;

/// What is said while the cluster has no node (upstream: `ErrNoNodesAvailable`).
pub(crate) const NO_NODES: &str = "no nodes available to schedule pods";

/// Longest note an event may have, in bytes.
const NOTE_LIMIT: usize = 1024;

/// `0/<nodes> nodes are available: <reasons>.`
pub(crate) fn unavailable(nodes: usize, reasons: &str) -> String {
    if reasons.is_empty() {
        format!("0/{nodes} nodes are available:")
    } else {
        format!("0/{nodes} nodes are available: {reasons}.")
    }
}

/// Runs the PostFilters and writes the full text.
pub(crate) fn unschedulable(cluster: &Cluster, pod: &PodInfo, diagnosis: &Diagnosis) -> (String, PostFiltered) {
    let mut text = match diagnosis.rejected {
        Some(reason) => unavailable(diagnosis.nodes, reason),
        None => unavailable(diagnosis.nodes, &diagnosis.tally.text(&cluster.names)),
    };
    let mut messages = Vec::new();
    let mut outcome = PostFiltered::default();
    for plugin in PLUGINS {
        let Some(post_filter) = plugin.post_filter else { continue };
        let mut result = post_filter(cluster, pod, diagnosis);
        if !result.message.is_empty() {
            messages.push(std::mem::take(&mut result.message));
        }
        let (stop, found) = (result.stop, result.nominated.is_some());
        if found {
            outcome = result;
        }
        if stop || found {
            break;
        }
    }
    if !messages.is_empty() {
        text.push(' ');
        text.push_str(&messages.join(", "));
    }
    (text, outcome)
}

/// Cuts a text to what fits into an event.
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
