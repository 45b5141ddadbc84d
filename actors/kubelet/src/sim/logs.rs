//! Generates logs without storing them: a line's text and time follow from the script and the container's start.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use oarlock_meta::MicroTime;
use oarlock_runtime::clock;
use oarlock_schema::Str;

use super::Shared;
use crate::cri::{ContainerState, LogOptions, LogStream, Result};

/// Approximate number of bytes per read.
const READ_BYTES: usize = 32 << 10;

/// A reader of one container's log.
pub(super) struct Log {
    shared: Arc<Shared>,
    id: Str,
    options: LogOptions,
    /// Number of the next line; `None` before the first read.
    next: Option<u64>,
    left: u64,
}

/// Extent of a log at one moment.
struct Extent {
    name: Str,
    started: i64,
    interval: Duration,
    /// Number of lines written so far.
    lines: u64,
    /// Whether the log is complete.
    over: bool,
}

impl Log {
    pub(super) fn new(shared: Arc<Shared>, id: Str, options: LogOptions) -> Self {
        Self { shared, id, options, next: None, left: options.limit_bytes.unwrap_or(u64::MAX) }
    }

    fn extent(&self) -> Option<Extent> {
        let state = self.shared.state.lock();
        let container = state.containers.get(&self.id)?;
        let (total, interval) = container.script.as_ref().map_or((1, Duration::ZERO), |script| script.log());
        let ended = container.state == ContainerState::Exited;
        let until = if ended { container.finished } else { clock::wall().as_second() };
        let ran = Duration::from_secs(u64::try_from(until - container.started).unwrap_or(0));
        let written = match u64::try_from(interval.as_millis()).unwrap_or(u64::MAX) {
            0 => total,
            step => total.min(u64::try_from(ran.as_millis()).unwrap_or(u64::MAX) / step + 1),
        };
        let lines = if container.state == ContainerState::Created { 0 } else { written };
        let over = ended || !self.options.follow;
        Some(Extent { name: container.name.clone(), started: container.started, interval, lines, over })
    }

    /// Returns the lines from `from`, up to the size of a read.
    fn part(&mut self, extent: &Extent, from: u64) -> (Bytes, u64) {
        let (mut part, mut at) = (BytesMut::new(), from);
        while at < extent.lines && part.len() < READ_BYTES && self.left > 0 {
            let time = extent.time(at);
            if self.options.since.is_none_or(|since| time.to_time().unix() >= since) {
                let mut line = format!("{}: line {}\n", extent.name, at + 1);
                if self.options.timestamps {
                    line = format!("{}000Z {line}", time.to_string().trim_end_matches('Z'));
                }
                let fits = usize::try_from(self.left).unwrap_or(usize::MAX).min(line.len());
                part.extend_from_slice(line.as_bytes().get(..fits).unwrap_or_default());
                self.left -= fits as u64;
            }
            at += 1;
        }
        (part.freeze(), at)
    }
}

impl Extent {
    fn time(&self, line: u64) -> MicroTime {
        let passed = self.interval.as_micros().saturating_mul(line.into());
        let started = MicroTime::from(oarlock_meta::Time::from_unix(self.started));
        MicroTime::from_unix_micros(started.unix_micros().saturating_add(i64::try_from(passed).unwrap_or(i64::MAX)))
    }
}

#[async_trait]
impl LogStream for Log {
    async fn next(&mut self) -> Option<Result<Bytes>> {
        loop {
            let shared = self.shared.clone();
            let mut changed = std::pin::pin!(shared.changed.notified());
            changed.as_mut().enable();
            // The log of a removed container ends.
            let extent = self.extent()?;
            let from = *self
                .next
                .get_or_insert_with(|| self.options.tail_lines.map_or(0, |tail| extent.lines.saturating_sub(tail)));
            let (part, at) = self.part(&extent, from);
            self.next = Some(at);
            if !part.is_empty() {
                return Some(Ok(part));
            }
            if self.left == 0 || extent.over && at >= extent.lines {
                return None;
            }
            if at < extent.lines {
                tokio::task::yield_now().await;
                continue;
            }
            if extent.interval.is_zero() {
                changed.await;
                continue;
            }
            // The start time has whole seconds, so lines come at most a second late.
            let pause = extent.interval.clamp(Duration::from_millis(100), Duration::from_secs(3600));
            tokio::select! {
                biased;
                () = changed => {}
                () = clock::sleep(pause) => {}
            }
        }
    }
}
