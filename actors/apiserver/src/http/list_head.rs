//! The beginning of a list in JSON, which all forms of lists share.

use oarlock_client::List;

/// Returns the beginning of a list in JSON: kind, version, metadata.
pub(super) fn head(kind: &str, version: &str, list: &List) -> String {
    use std::fmt::Write as _;
    let mut head = format!(
        "{{\"kind\":\"{kind}\",\"apiVersion\":\"{version}\",\"metadata\":{{\"resourceVersion\":\"{}\"",
        list.revision
    );
    // Writing to a String cannot fail.
    if !list.continue_token.is_empty() {
        let _ = write!(head, ",\"continue\":\"{}\"", list.continue_token);
    }
    if let Some(remaining) = list.remaining {
        let _ = write!(head, ",\"remainingItemCount\":{remaining}");
    }
    head.push('}');
    head
}
