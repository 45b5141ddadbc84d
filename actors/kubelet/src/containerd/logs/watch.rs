//! Notices at once when something is written to a log, or another file takes its name.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify;
use tokio::io::unix::AsyncFd;

/// Watches the directory of a log.
pub(super) struct Watch {
    fd: AsyncFd<OwnedFd>,
}

impl Watch {
    /// Must be called inside tokio.
    pub(super) fn new(log: &Path) -> std::io::Result<Self> {
        use inotify::{CreateFlags, WatchFlags};
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let dir = log.parent().unwrap_or(log);
        inotify::add_watch(&fd, dir, WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO)?;
        #[expect(deprecated, reason = "sound for an OwnedFd, whose descriptor never changes; the successor is unsafe")]
        let fd = AsyncFd::new(fd)?;
        Ok(Self { fd })
    }

    /// Waits for a change since the last one. Cancel safe.
    pub(super) async fn changed(&mut self) -> std::io::Result<()> {
        let mut ready = self.fd.readable_mut().await?;
        // What happened is of no interest: the reader looks at the file.
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(ready.get_inner(), &mut buffer);
        while events.next().is_ok() {}
        ready.clear_ready();
        Ok(())
    }
}
