//! Reads logs in the format of CRI runtimes: lines of `<RFC 3339 with nanoseconds> <stdout|stderr> <F|P> <text>`, with `P` where the text continues in the next
//! line.

use std::io::SeekFrom;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use oarlock_meta::Time;
use oarlock_runtime::clock;
use rustix::fs::inotify::WatchFlags;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use super::{REQUEST_TIMEOUT, Socket, v1};
use crate::cri::{Error, LogOptions, LogStream, Result};
use crate::watch::Watch;

/// Bytes per read.
const READ_BYTES: usize = 32 << 10;
/// Period of checking whether a followed container without output has ended; output is read at once.
const END_CHECK_PERIOD: Duration = Duration::from_secs(1);

/// Container whose log is followed until the container ends.
type Followed = (Socket, String);

/// A reader of one container's log.
pub(super) struct Log {
    path: PathBuf,
    file: File,
    inode: u64,
    /// Bytes of an incomplete line.
    rest: BytesMut,
    options: LogOptions,
    left: u64,
    follow: Option<(Followed, Watch)>,
    /// Whether the container has ended, so the file will not grow.
    over: bool,
}

impl Log {
    pub(super) async fn open(path: PathBuf, options: LogOptions, follow: Option<Followed>) -> Result<Self> {
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::NotFound(format!("{}: {error}", path.display())),
            _ => Error::Failed(format!("{}: {error}", path.display())),
        };
        let mut file = File::open(&path).await.map_err(failed)?;
        let facts = file.metadata().await.map_err(failed)?;
        if let Some(lines) = options.tail_lines {
            let start = tail(&mut file, facts.len(), lines).await.map_err(failed)?;
            file.seek(SeekFrom::Start(start)).await.map_err(failed)?;
        }
        let follow = match follow {
            Some(followed) => {
                // The file is written to, or another file gets its name.
                let what = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO;
                let dir = path.parent().unwrap_or(&path);
                Some((followed, Watch::new(dir, what).map_err(failed)?))
            }
            None => None,
        };
        let left = options.limit_bytes.unwrap_or(u64::MAX);
        Ok(Self { inode: facts.ino(), path, file, rest: BytesMut::new(), options, left, follow, over: false })
    }

    /// Returns the complete lines read, in the format the client asked for.
    fn shown(&mut self) -> Bytes {
        let mut out = BytesMut::new();
        while let Some(end) = memchr(&self.rest) {
            let line = self.rest.split_to(end + 1);
            if let Some(line) = Line::parse(&line)
                && self.options.since.is_none_or(|since| line.unix >= since)
            {
                if self.options.timestamps && line.begins(&out) {
                    out.extend_from_slice(line.time);
                    out.extend_from_slice(b" ");
                }
                out.extend_from_slice(line.text);
            }
        }
        let fits = usize::try_from(self.left).unwrap_or(usize::MAX).min(out.len());
        out.truncate(fits);
        self.left -= fits as u64;
        out.freeze()
    }

    async fn read(&mut self) -> std::io::Result<usize> {
        self.rest.reserve(READ_BYTES);
        self.file.read_buf(&mut self.rest).await
    }

    /// Switches to the new file if the runtime has rotated the log; returns whether it has.
    async fn rotated(&mut self) -> bool {
        let Ok(file) = File::open(&self.path).await else { return false };
        let Ok(facts) = file.metadata().await else { return false };
        let other = facts.ino() != self.inode;
        if other {
            (self.file, self.inode) = (file, facts.ino());
        }
        other
    }
}

#[async_trait]
impl LogStream for Log {
    async fn next(&mut self) -> Option<Result<Bytes>> {
        while self.left > 0 {
            match self.read().await {
                Err(error) => return Some(Err(Error::Failed(format!("{}: {error}", self.path.display())))),
                Ok(0) => {
                    if self.follow.is_none() || self.over {
                        return None;
                    }
                    if self.rotated().await {
                        continue;
                    }
                    let (followed, watch) = self.follow.as_mut()?;
                    let silent = clock::timeout(END_CHECK_PERIOD, watch.changed()).await.is_err();
                    if silent {
                        self.over = ended(followed).await;
                    }
                }
                Ok(_) => {
                    let shown = self.shown();
                    if !shown.is_empty() {
                        return Some(Ok(shown));
                    }
                }
            }
        }
        None
    }
}

/// Whether a container has ended or been removed; false when the runtime's answer is an error, since the caller asks again.
async fn ended((socket, id): &Followed) -> bool {
    let ask = v1::ContainerStatusRequest { container_id: id.clone() };
    match socket.call(v1::RuntimeService::CONTAINER_STATUS, ask, REQUEST_TIMEOUT).await {
        Ok(answer) => answer.status.is_none_or(|status| super::state(status.state) == super::ContainerState::Exited),
        Err(error) => matches!(error, Error::NotFound(_)),
    }
}

/// Returns the offset where the last `lines` lines begin.
async fn tail(file: &mut File, size: u64, lines: u64) -> std::io::Result<u64> {
    let (mut at, mut found) = (size, 0);
    let mut part = vec![0; READ_BYTES];
    while at > 0 {
        let length = at.min(READ_BYTES as u64);
        at -= length;
        file.seek(SeekFrom::Start(at)).await?;
        let Some(part) = part.get_mut(..usize::try_from(length).unwrap_or(READ_BYTES)) else { break };
        file.read_exact(part).await?;
        for (index, _) in part.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let end = at + index as u64 + 1;
            // The final line feed ends the last line; an unfinished line after it counts as one more.
            if end < size || lines == 0 {
                found += 1;
            }
            if found > lines || (found == lines && end < size) {
                return Ok(end);
            }
        }
    }
    Ok(0)
}

fn memchr(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n')
}

/// One line of a log file.
struct Line<'a> {
    time: &'a [u8],
    unix: i64,
    /// Text with its line feed, or without one where the next line continues the text.
    text: &'a [u8],
}

impl<'a> Line<'a> {
    /// Parses a line; `None` for a line that no CRI runtime writes.
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let (time, stream, tag) = (parts.next()?, parts.next()?, parts.next()?);
        let text = parts.next()?;
        if !matches!(stream, b"stdout" | b"stderr") {
            return None;
        }
        let unix = Time::parse(std::str::from_utf8(time).ok()?).ok()?.unix();
        // Further tags may follow the first one, separated by colons.
        let partial = tag.first() == Some(&b'P');
        let text = if partial { text.strip_suffix(b"\n").unwrap_or(text) } else { text };
        Some(Self { time, unix, text })
    }

    /// Whether the text after `before` begins a new line.
    fn begins(&self, before: &[u8]) -> bool {
        before.last().is_none_or(|byte| *byte == b'\n')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "2026-01-01T00:00:00.000000001Z stdout F one\n\
        2026-01-01T00:00:01.5Z stderr P tw\n\
        2026-01-01T00:00:01.6Z stderr F o\n\
        not a line of a log\n\
        2026-01-01T00:00:02Z stdout F three\n";

    async fn read(options: LogOptions) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        std::fs::write(&path, FILE).unwrap();
        let mut log = Log::open(path, options, None).await.unwrap();
        let mut all = Vec::new();
        while let Some(part) = log.next().await {
            all.extend_from_slice(&part.unwrap());
        }
        String::from_utf8(all).unwrap()
    }

    #[tokio::test]
    async fn shows_what_was_asked_for() {
        let all = LogOptions::default();
        assert_eq!(read(all).await, "one\ntwo\nthree\n");
        assert_eq!(read(LogOptions { tail_lines: Some(1), ..all }).await, "three\n");
        assert_eq!(read(LogOptions { tail_lines: Some(0), ..all }).await, "");
        assert_eq!(read(LogOptions { tail_lines: Some(9), ..all }).await, "one\ntwo\nthree\n");
        assert_eq!(read(LogOptions { since: Some(1_767_225_601), ..all }).await, "two\nthree\n");
        assert_eq!(read(LogOptions { limit_bytes: Some(5), ..all }).await, "one\nt");
        let stamped = "2026-01-01T00:00:00.000000001Z one\n2026-01-01T00:00:01.5Z two\n2026-01-01T00:00:02Z three\n";
        assert_eq!(read(LogOptions { timestamps: true, ..all }).await, stamped);
    }

    #[tokio::test]
    async fn a_log_that_is_not_there_is_not_found() {
        let error = Log::open("/nowhere/0.log".into(), LogOptions::default(), None).await.err().unwrap();
        assert!(matches!(error, Error::NotFound(_)));
    }

    #[test]
    fn damaged_lines_are_left_out_or_read() {
        for line in oarlock_testkit::damaged(7, FILE.as_bytes(), 3000) {
            for line in line.split_inclusive(|byte| *byte == b'\n') {
                let _ = Line::parse(line);
            }
        }
    }
}
