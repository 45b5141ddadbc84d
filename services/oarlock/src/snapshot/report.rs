//! Reads and verifies snapshot files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::Context;
use oarlock_storage::snapshot::{Header, Reader, Summary};

/// Bytes per read.
const READ_BYTES: usize = 1 << 20;

/// Opens a snapshot and reads its header.
pub(super) fn open(path: &Path) -> anyhow::Result<Reader<BufReader<File>>> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    Reader::open(BufReader::with_capacity(READ_BYTES, file)).with_context(|| path.display().to_string())
}

/// Summary of a snapshot that has been read and verified completely.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) header: Header,
    pub(super) summary: Summary,
    pub(super) bytes: u64,
    /// Number of objects by key prefix.
    pub(super) resources: BTreeMap<String, u64>,
}

impl Report {
    /// Reads and verifies a file.
    ///
    /// # Errors
    /// When the file is missing, no snapshot, or damaged; the error says where.
    pub(super) fn of(path: &Path) -> anyhow::Result<Self> {
        let mut reader = open(path)?;
        let mut resources = BTreeMap::new();
        for object in reader.by_ref() {
            let object = object.with_context(|| path.display().to_string())?;
            *resources.entry(object.key.resource().to_owned()).or_default() += 1;
        }
        let summary = reader.summary().context("it has no end").with_context(|| path.display().to_string())?;
        Ok(Self { header: reader.header().clone(), summary, bytes: reader.offset(), resources })
    }
}
