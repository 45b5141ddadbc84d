//! Prints summaries for people.

use std::io::Write as _;

use super::place::Filled;
use super::report::Report;

/// Prints a summary of a snapshot.
pub(super) fn report(report: &Report) {
    let Report { header, summary, bytes, resources } = report;
    let cluster = if header.cluster.is_empty() { "-" } else { &header.cluster };
    let mut text = format!(
        "cluster   {cluster}\nrevision  {}\nobjects   {}\nsize      {bytes} bytes\nhash      {summary}\n\n",
        header.revision, summary.count
    );
    for (prefix, count) in resources {
        let name = prefix.strip_prefix(oarlock_storage::etcd::PREFIX).unwrap_or(prefix);
        text.push_str(&format!("{count:>9} {}\n", name.trim_matches('/')));
    }
    say(&text);
}

/// Prints a summary of a store after a restore.
pub(super) fn restored(filled: &Filled) {
    let Filled { place, revision, summary } = filled;
    let count = summary.count;
    say(&format!("restored  {place}\nrevision  {revision}\nobjects   {count}\nhash      {summary}\n"));
}

fn say(text: &str) {
    // A closed pipe is no error: its reader has read enough.
    let _closed = std::io::stdout().write_all(text.as_bytes());
}
