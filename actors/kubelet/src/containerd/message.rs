//! Reads a container's termination message (`terminationMessagePath`, `terminationMessagePolicy`), with upstream's limits.

use std::io::SeekFrom;
use std::path::Path;

use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use super::{logs, v1};
use crate::cri::LogOptions;

/// Annotation with the path of the termination message file.
pub(crate) const PATH: &str = "io.kubernetes.container.terminationMessagePath";
/// Annotation with the policy that says whether the log replaces an empty file.
pub(crate) const POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
/// Largest number of bytes read from the end of the file.
const MAX_FILE_BYTES: u64 = 4096;
/// Largest number of lines and of bytes of the log that replace an empty file.
const MAX_LOG_LINES: u64 = 80;
const MAX_LOG_BYTES: usize = 2048;

/// Returns the runtime's own message followed by the container's.
pub(super) async fn read(status: &v1::ContainerStatus) -> String {
    let fallback = status.annotations.get(POLICY).is_some_and(|policy| policy == "FallbackToLogsOnError")
        && status.exit_code != 0
        && status.reason != "ContainerCannotRun";
    let path = status.annotations.get(PATH).map_or("", String::as_str);
    let file = status.mounts.iter().find(|mount| !path.is_empty() && mount.container_path == path);
    let mut said = match file {
        Some(mount) => match last_bytes(Path::new(&mount.host_path)).await {
            Ok(said) => said,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => format!("Error on reading termination log {}: {error}", mount.host_path),
        },
        None => String::new(),
    };
    if said.is_empty() && fallback {
        said = from_log(Path::new(&status.log_path)).await;
    }
    [status.message.as_str(), &said].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
}

async fn last_bytes(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path).await?;
    let size = file.metadata().await?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(MAX_FILE_BYTES))).await?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

async fn from_log(path: &Path) -> String {
    let options = LogOptions { tail_lines: Some(MAX_LOG_LINES), ..LogOptions::default() };
    let failed = |error: &dyn std::fmt::Display| format!("Error on reading termination message from logs: {error}");
    let mut log = match logs::Log::open(path.to_owned(), options, None).await {
        Ok(log) => log,
        Err(error) => return failed(&error),
    };
    let mut last = Vec::new();
    while let Some(part) = crate::cri::LogStream::next(&mut log).await {
        match part {
            Ok(part) => last.extend_from_slice(&part),
            Err(error) => return failed(&error),
        }
        let over = last.len().saturating_sub(MAX_LOG_BYTES);
        last.drain(..over);
    }
    String::from_utf8_lossy(&last).into_owned()
}
