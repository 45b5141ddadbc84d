//! Disks: what the embedded log needs of the place it lives in, so that a simulated one can be put under it.

mod file;

use std::fmt::Debug;
use std::io;

pub use file::FileDisk;

/// A growable array of bytes that survives a crash up to its last [`Disk::sync`].
///
/// Writes since the last sync may survive a crash in any subset, and one of them in part. An error of kind
/// [`io::ErrorKind::StorageFull`] or [`io::ErrorKind::QuotaExceeded`] says that the disk is full; any other is fatal.
pub trait Disk: Debug + Send + Sync + 'static {
    /// How long the array is, in bytes.
    ///
    /// # Errors
    /// The device's.
    fn len(&self) -> io::Result<u64>;

    /// Whether nothing has been written yet.
    ///
    /// # Errors
    /// The device's.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `out` from `offset`.
    ///
    /// # Errors
    /// The device's; also when the array ends too early.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes `data` at `offset`; not durable before [`Disk::sync`].
    ///
    /// # Errors
    /// The device's.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Cuts the array or fills it up with zeros.
    ///
    /// # Errors
    /// The device's.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// The device's. What was written before may then be lost, whatever a later sync says.
    fn sync(&self) -> io::Result<()>;

    /// Bytes that can still be written before the disk is full, the reserve not counted.
    ///
    /// # Errors
    /// The device's.
    fn available(&self) -> io::Result<u64>;

    /// Gives the reserve back to the disk, so that deletes and trims find room on a full one.
    ///
    /// # Errors
    /// The device's.
    fn release_reserve(&self) -> io::Result<()>;

    /// Sets the reserve aside (again).
    ///
    /// # Errors
    /// The device's; a full disk among them.
    fn take_reserve(&self) -> io::Result<()>;
}

/// Whether an error says that the disk is full.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
