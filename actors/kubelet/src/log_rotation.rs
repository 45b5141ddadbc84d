//! Rotates containers' logs (`pkg/kubelet/logs/container_log_manager.go`): a file over the size limit is renamed with a timestamp and the runtime begins a new
//! one; the previous file is compressed, and the oldest are removed.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use oarlock_runtime::clock;
use oarlock_schema::Str;

use crate::cri::{self, Runtime};

/// Size in bytes from which a log is rotated (`--container-log-max-size`).
pub(crate) const MAX_LOG_BYTES: u64 = 10 << 20;
/// Largest number of log files per container, including the current one and the one that rotation adds (`--container-log-max-files`).
pub(crate) const MAX_LOG_FILES: usize = 5;
const COMPRESSED: &str = ".gz";
const UNFINISHED: &str = ".tmp";

/// Why a log was not rotated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RotationError {
    /// The log or one of its former files cannot be read, renamed, compressed or removed.
    #[error("{}: {source}", .log.display())]
    File {
        /// Path of the current log file.
        log: PathBuf,
        /// The refusal of the operating system.
        source: io::Error,
    },
    /// The runtime did not begin a new file.
    #[error("{}: {source}", .log.display())]
    Reopen {
        /// Path of the current log file.
        log: PathBuf,
        /// The runtime's error.
        source: cri::Error,
    },
}

/// Rotates the log of a running container, if the log is too large.
///
/// # Errors
/// When rotation fails; the log continues in the same file.
pub(crate) async fn rotate(runtime: &dyn Runtime, id: Str, log: PathBuf) -> Result<(), RotationError> {
    let failed = |source| RotationError::File { log: log.clone(), source };
    match tokio::fs::metadata(&log).await {
        Ok(facts) if facts.len() >= MAX_LOG_BYTES => {}
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    }
    let path = log.clone();
    let tidied = tokio::task::spawn_blocking(move || tidy(&path)).await.map_err(io::Error::other).and_then(|done| done);
    tidied.map_err(failed)?;
    let rotated = with(&log, &clock::wall().strftime(".%Y%m%d-%H%M%S").to_string());
    tokio::fs::rename(&log, &rotated).await.map_err(failed)?;
    if let Err(source) = runtime.reopen_container_log(&id).await {
        tokio::fs::rename(&rotated, &log).await.map_err(failed)?;
        return Err(RotationError::Reopen { log, source });
    }
    Ok(())
}

fn with(log: &Path, suffix: &str) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Makes room for one more file: removes the oldest files and leftovers of failed rotations, and compresses the rest.
fn tidy(log: &Path) -> io::Result<()> {
    let (Some(dir), Some(name)) = (log.parent(), log.file_name().and_then(|name| name.to_str())) else { return Ok(()) };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        names.extend(entry?.file_name().into_string());
    }
    let (remove, compress) = plan(name, names);
    for name in remove {
        std::fs::remove_file(dir.join(name))?;
    }
    for name in compress {
        let (plain, done) = (dir.join(&name), dir.join(format!("{name}{COMPRESSED}")));
        let unfinished = with(&done, UNFINISHED);
        let mut packed = GzEncoder::new(File::create(&unfinished)?, Compression::default());
        io::copy(&mut File::open(&plain)?, &mut packed)?;
        packed.finish()?.sync_all()?;
        std::fs::rename(&unfinished, &done)?;
        std::fs::remove_file(&plain)?;
    }
    Ok(())
}

/// Returns which rotated files of the log `name` to remove, and which to compress.
fn plan(name: &str, names: Vec<String>) -> (Vec<String>, Vec<String>) {
    let own = |other: &String| other.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    let (unfinished, mut kept): (Vec<String>, Vec<String>) =
        names.into_iter().filter(own).partition(|name| name.ends_with(UNFINISHED));
    // A file next to its compressed form: compression succeeded, and only the removal of the original is missing.
    let doubles: Vec<String> =
        kept.iter().filter(|name| kept.contains(&format!("{name}{COMPRESSED}"))).cloned().collect();
    kept.retain(|name| !doubles.contains(name));
    kept.sort();
    let surplus = kept.len().saturating_sub(MAX_LOG_FILES - 2);
    let remove = unfinished.into_iter().chain(doubles).chain(kept.drain(..surplus)).collect();
    kept.retain(|name| !name.ends_with(COMPRESSED));
    (remove, kept)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn the_newest_are_kept_and_all_but_the_next_are_compressed() {
        let all = [
            "0.log",
            "1.log.20260101-000001",
            "0.log.20260101-000001.gz",
            "0.log.20260101-000002",
            "0.log.20260101-000002.gz",
            "0.log.20260101-000003.gz.tmp",
            "0.log.20260101-000003",
            "0.log.20260101-000004",
            "0.log.20260101-000005",
        ];
        let (remove, compress) = plan("0.log", all.iter().map(|name| (*name).to_owned()).collect());
        let wanted = [
            "0.log.20260101-000003.gz.tmp",
            "0.log.20260101-000002",
            "0.log.20260101-000001.gz",
            "0.log.20260101-000002.gz",
        ];
        assert_eq!(remove, wanted);
        assert_eq!(compress, ["0.log.20260101-000003", "0.log.20260101-000004", "0.log.20260101-000005"]);
    }

    #[test]
    fn what_is_compressed_can_be_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("0.log");
        std::fs::write(with(&log, ".20260101-000001"), "one\ntwo\n").unwrap();
        tidy(&log).unwrap();
        let packed = File::open(with(&log, ".20260101-000001.gz")).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntwo\n");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
