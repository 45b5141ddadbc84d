//! The texts about unschedulable pods, letter for letter as upstream's (`FitError`, `handleSchedulingFailure`),
//! because people and tools search for them.

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
