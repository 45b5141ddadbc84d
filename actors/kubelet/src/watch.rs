//! Waits for changes in a directory (inotify).

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::io::unix::AsyncFd;

/// A watch of one directory.
pub(crate) struct Watch {
    fd: AsyncFd<OwnedFd>,
}

impl Watch {
    /// Starts a watch. Must be called inside tokio.
    pub(crate) fn new(dir: &Path, what: WatchFlags) -> std::io::Result<Self> {
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        inotify::add_watch(&fd, dir, what)?;
        #[expect(deprecated, reason = "sound for an OwnedFd, whose descriptor never changes; the successor is unsafe")]
        let fd = AsyncFd::new(fd)?;
        Ok(Self { fd })
    }

    /// Waits for a change since the last call. Cancel safe.
    pub(crate) async fn changed(&mut self) -> std::io::Result<()> {
        let mut ready = self.fd.readable_mut().await?;
        // The events' content is irrelevant: the caller reads the files.
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(ready.get_inner(), &mut buffer);
        while events.next().is_ok() {}
        ready.clear_ready();
        Ok(())
    }
}
