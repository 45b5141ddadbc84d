//! Texts of the cluster for the terminal.

/// Returns a text of the cluster for the terminal: control characters, which could move the cursor or begin a false line, become U+FFFD.
pub(super) fn plain(text: &str) -> String {
    text.replace(char::is_control, "\u{FFFD}")
}
