//! The probe between engine and disk: forwards calls and classifies the disk's errors.
//!
//! The engine reports all failures alike, but their consequences differ. A failed sync is fatal at once, before the engine can answer a caller; a full disk is survivable.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::disk::{Disk, is_full};
use crate::{Fatal, FatalHook};

/// A disk that watches for faults. After a fatal fault no call reaches the disk.
pub(super) struct Probe {
    disk: Arc<dyn Disk>,
    hook: FatalHook,
    dead: AtomicBool,
    full: AtomicBool,
}

impl Probe {
    pub(super) fn new(disk: Arc<dyn Disk>, hook: FatalHook) -> Self {
        Self { disk, hook, dead: AtomicBool::new(false), full: AtomicBool::new(false) }
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// Whether a fatal fault happened.
    pub(super) fn dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// Returns whether the disk was found full since the last call, and resets the flag.
    pub(super) fn take_full(&self) -> bool {
        self.full.swap(false, Ordering::AcqRel)
    }

    /// Marks the log dead and calls the hook once; later calls do not reach the disk.
    pub(super) fn fail(&self, fatal: &Fatal) {
        if !self.dead.swap(true, Ordering::AcqRel) {
            (self.hook)(fatal);
        }
    }

    fn pass<T>(&self, call: impl FnOnce(&dyn Disk) -> io::Result<T>) -> io::Result<T> {
        self.pass_or(call, Fatal::Io)
    }

    fn pass_or<T>(
        &self,
        call: impl FnOnce(&dyn Disk) -> io::Result<T>,
        fatal: impl FnOnce(Arc<io::Error>) -> Fatal,
    ) -> io::Result<T> {
        if self.dead() {
            return Err(io::Error::other("the store stopped after a fatal fault"));
        }
        call(&*self.disk).map_err(|error| {
            let error = Arc::new(error);
            if is_full(&error) {
                self.full.store(true, Ordering::Release);
            } else {
                self.fail(&fatal(Arc::clone(&error)));
            }
            io::Error::new(error.kind(), error)
        })
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe").field("disk", &self.disk).field("dead", &self.dead()).finish_non_exhaustive()
    }
}

/// The engine's handle on the probe; the engine gets a new one each time it is opened.
#[derive(Debug)]
pub(super) struct Backend(pub(super) Arc<Probe>);

impl redb::StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.0.pass(|disk| disk.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.pass(|disk| disk.read(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.pass(|disk| disk.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        // A sync that finds the disk full (delayed allocation) has lost data, like any other failed sync.
        if self.0.dead() {
            return self.0.pass(|_| Ok(()));
        }
        self.0.disk.sync().map_err(|error| {
            let error = Arc::new(error);
            self.0.fail(&Fatal::Sync(Arc::clone(&error)));
            io::Error::new(error.kind(), error)
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.pass(|disk| disk.write(offset, data))
    }
}
