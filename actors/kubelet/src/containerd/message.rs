//! What a container left as its termination message (`terminationMessagePath`, `terminationMessagePolicy`), with upstream's bounds.

use std::io::SeekFrom;
use std::path::Path;

use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use super::{logs, v1};
use crate::cri::LogOptions;

/// The annotation that says which file it is.
pub(crate) const PATH: &str = "io.kubernetes.container.terminationMessagePath";
/// The annotation that says whether the log may stand in for it.
pub(crate) const POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
/// Bytes read of the file, its last ones.
const FILE: u64 = 4096;
/// Lines and bytes of the log that stand in for an empty file.
const LINES: u64 = 80;
const LOG: usize = 2048;

/// The runtime's own message and the container's.
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
    file.seek(SeekFrom::Start(size.saturating_sub(FILE))).await?;
    let mut bytes = Vec::new();
    file.take(FILE).read_to_end(&mut bytes).await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

async fn from_log(path: &Path) -> String {
    let options = LogOptions { tail_lines: Some(LINES), ..LogOptions::default() };
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
        let over = last.len().saturating_sub(LOG);
        last.drain(..over);
    }
    String::from_utf8_lossy(&last).into_owned()
}
