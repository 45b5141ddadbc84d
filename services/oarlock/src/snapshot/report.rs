//! Prints a summary of a snapshot.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context;
use oarlock_storage::snapshot::{Header, Summary};

use super::file;
use super::place::Filled;

/// Summary of a snapshot that has been read and verified completely.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) header: Header,
    summary: Summary,
    bytes: u64,
    /// Number of objects by key prefix.
    resources: BTreeMap<String, u64>,
}

impl Report {
    /// Reads and verifies a file.
    ///
    /// # Errors
    /// When the file is missing, no snapshot, or damaged; the error says where.
    pub(super) fn of(path: &Path) -> anyhow::Result<Self> {
        let mut reader = file::open(path)?;
        let mut resources = BTreeMap::new();
        for object in reader.by_ref() {
            let object = object.with_context(|| path.display().to_string())?;
            *resources.entry(object.key.resource().to_owned()).or_default() += 1;
        }
        let summary = reader.summary().context("it has no end").with_context(|| path.display().to_string())?;
        Ok(Self { header: reader.header().clone(), summary, bytes: reader.offset(), resources })
    }
}

/// Prints a summary of a snapshot.
pub(super) fn print(report: &Report) {
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
