//! A [`Disk`] in a file.
//!
//! The engine writes single pages. This disk buffers them until the next sync and hands neighbouring pages to the kernel in one call: data need not leave memory before a
//! sync.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};

use super::Disk;
use crate::private;

/// Buffered writes are handed to the kernel when they reach this many bytes.
const GATHER_BYTES: usize = 4 << 20;
/// The longest single write, in bytes.
const RUN_BYTES: usize = 1 << 20;

/// A [`Disk`] in a file, locked against other processes, with its reserve in a second file beside it.
#[derive(Debug)]
pub struct FileDisk {
    file: File,
    reserve: PathBuf,
    reserve_bytes: u64,
    gathered: Mutex<Gathered>,
}

/// Writes that are buffered until the next flush, by their offset.
#[derive(Debug, Default)]
struct Gathered {
    writes: BTreeMap<u64, Vec<u8>>,
    bytes: usize,
}

impl FileDisk {
    /// Opens or creates the file at `path`, and reserves `reserve_bytes` in `<path>.reserve` as far as there is room.
    ///
    /// # Errors
    /// The file cannot be opened, or another process has it open.
    pub fn open(path: &Path, reserve_bytes: u64) -> io::Result<Self> {
        let file = private::options().read(true).write(true).create(true).truncate(false).open(path)?;
        private::file(path)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::Error(error) => error,
            TryLockError::WouldBlock => {
                let text = format!("{} is in use by another process", path.display());
                io::Error::new(io::ErrorKind::ResourceBusy, text)
            }
        })?;
        let mut reserve = path.as_os_str().to_owned();
        reserve.push(".reserve");
        let disk = Self { file, reserve: reserve.into(), reserve_bytes, gathered: Mutex::default() };
        // Without the directory's own sync a new file's name can be lost although its content is durable.
        if let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            File::open(directory)?.sync_all()?;
        }
        match disk.take_reserve() {
            Err(error) if !super::is_full(&error) => Err(error),
            _ => Ok(disk),
        }
    }

    /// Hands buffered writes to the kernel, neighbours together.
    fn flush(&self, gathered: &mut Gathered) -> io::Result<()> {
        let writes = std::mem::take(&mut gathered.writes);
        gathered.bytes = 0;
        let mut run: Vec<u8> = Vec::new();
        let mut start = 0;
        for (offset, data) in writes {
            if offset != start + run.len() as u64 || run.len() + data.len() > RUN_BYTES {
                self.file.write_all_at(&run, start)?;
                run.clear();
                start = offset;
            }
            run.extend_from_slice(&data);
        }
        self.file.write_all_at(&run, start)
    }
}

impl Drop for FileDisk {
    /// Unlocks explicitly: closing the file releases the lock only when no other descriptor is open, and a child that another thread has forked holds one until it executes
    /// its program.
    fn drop(&mut self) {
        if let Err(error) = self.file.unlock() {
            tracing::warn!(%error, "the lock on the log's file is released only when its last descriptor is closed");
        }
    }
}

impl Gathered {
    fn overlaps(&self, offset: u64, len: usize) -> bool {
        let end = offset + len as u64;
        self.writes.range(..end).next_back().is_some_and(|(at, data)| at + data.len() as u64 > offset)
    }
}

impl Disk for FileDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut gathered = self.gathered.lock();
        if gathered.overlaps(offset, out.len()) {
            self.flush(&mut gathered)?;
        }
        drop(gathered);
        self.file.read_exact_at(out, offset)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut gathered = self.gathered.lock();
        let same = gathered.writes.get(&offset).is_some_and(|old| old.len() == data.len());
        if !same && gathered.overlaps(offset, data.len()) {
            self.flush(&mut gathered)?;
        }
        if gathered.writes.insert(offset, data.to_vec()).is_none() {
            gathered.bytes += data.len();
        }
        if gathered.bytes >= GATHER_BYTES { self.flush(&mut gathered) } else { Ok(()) }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        // Keeps the order with earlier writes: a later flush beyond the new end would extend the file again.
        self.flush(&mut self.gathered.lock())?;
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.flush(&mut self.gathered.lock())?;
        self.file.sync_data()
    }

    fn available(&self) -> io::Result<u64> {
        let stat = fstatvfs(&self.file)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn release_reserve(&self) -> io::Result<()> {
        match std::fs::remove_file(&self.reserve) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn take_reserve(&self) -> io::Result<()> {
        if self.reserve_bytes == 0 {
            return Ok(());
        }
        let file = private::options().write(true).create(true).truncate(false).open(&self.reserve)?;
        private::file(&self.reserve)?;
        let taken = fallocate(&file, FallocateFlags::empty(), 0, self.reserve_bytes).map_err(io::Error::from);
        match taken {
            // Some file systems cannot preallocate. A sparse reserve reserves nothing, so it is released.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => self.release_reserve(),
            Err(error) => self.release_reserve().and(Err(error)),
            Ok(()) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_file_is_free_though_a_forked_child_still_has_its_descriptor() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        let disk = FileDisk::open(&path, 0).unwrap();
        // A child gets the same after a fork: another descriptor of the same open file.
        let inherited = disk.file.try_clone().unwrap();
        assert_eq!(FileDisk::open(&path, 0).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        drop(disk);
        FileDisk::open(&path, 0).unwrap();
        drop(inherited);
    }
}
