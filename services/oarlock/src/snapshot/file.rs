//! Writes snapshot files: a file exists under its final name only when it is complete.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use bytes::BytesMut;
use futures::StreamExt;
use oarlock_storage::snapshot::Encoder;
use oarlock_store::Export;

use super::report::Report;

/// Bytes per write.
const WRITE_BYTES: usize = 1 << 20;

/// A snapshot file in progress. It gets its final name once complete and verified; dropped earlier, it is deleted.
#[derive(Debug)]
pub(super) struct Partial {
    file: File,
    path: PathBuf,
    name: PathBuf,
}

impl Partial {
    /// Creates the temporary file for the snapshot `name`.
    pub(super) fn create(name: &Path) -> anyhow::Result<Self> {
        let mut path = name.as_os_str().to_owned();
        path.push(".partial");
        let path = PathBuf::from(path);
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        Ok(Self { file: file.with_context(|| path.display().to_string())?, path, name: name.to_owned() })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.file.write_all(bytes).with_context(|| self.path.display().to_string())
    }

    /// Verifies the file, syncs it to disk and gives it its final name.
    pub(super) fn keep(self) -> anyhow::Result<Report> {
        let keep = || {
            self.file.sync_all()?;
            let report = Report::of(&self.path)?;
            fs::rename(&self.path, &self.name)?;
            let folder = self.name.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
            Ok(report)
        };
        keep().map_err(|error: anyhow::Error| error.context(self.name.display().to_string()))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After the rename no file has this name, and removal fails harmlessly.
        let _renamed = fs::remove_file(&self.path);
    }
}

/// Writes the content of an export.
pub(super) async fn write(mut partial: Partial, export: Export) -> anyhow::Result<Partial> {
    let mut out = BytesMut::new();
    let mut encoder = Encoder::begin(&export.header(), &mut out);
    let mut objects = std::pin::pin!(export.objects());
    while let Some(object) = objects.next().await {
        encoder.object(&object?, &mut out)?;
        if out.len() >= WRITE_BYTES {
            partial.write(&out.split())?;
        }
    }
    encoder.end(&mut out);
    partial.write(&out)?;
    Ok(partial)
}
