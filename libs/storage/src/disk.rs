//! The [`Disk`] trait: the operations that the embedded log needs of its file, so that tests can run the log on a simulated disk.

mod file;

use std::fmt::Debug;
use std::io;

pub use file::FileDisk;

/// A growable array of bytes that survives a crash up to its last [`Disk::sync`].
///
/// Writes since the last sync may survive a crash in any subset, and one of them in part. An error of kind
/// [`io::ErrorKind::StorageFull`] or [`io::ErrorKind::QuotaExceeded`] says that the disk is full; any other is fatal.
pub trait Disk: Debug + Send + Sync + 'static {
    /// Length of the array in bytes.
    ///
    /// # Errors
    /// Any error of the device.
    fn len(&self) -> io::Result<u64>;

    /// Whether the array is empty.
    ///
    /// # Errors
    /// Any error of the device.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `out` from `offset`.
    ///
    /// # Errors
    /// Any error of the device, or an array that ends before `out` is full.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes `data` at `offset`. The data is durable only after [`Disk::sync`].
    ///
    /// # Errors
    /// Any error of the device.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Truncates the array or extends it with zeros.
    ///
    /// # Errors
    /// Any error of the device.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes all earlier writes durable.
    ///
    /// # Errors
    /// Any error of the device. Writes before a failed sync may be lost, even if a later sync succeeds.
    fn sync(&self) -> io::Result<()>;

    /// Bytes that can still be written before the disk is full, without the reserve.
    ///
    /// # Errors
    /// Any error of the device.
    fn available(&self) -> io::Result<u64>;

    /// Releases the reserved space, so that deletes and trims still find room on a full disk.
    ///
    /// # Errors
    /// Any error of the device.
    fn release_reserve(&self) -> io::Result<()>;

    /// Reserves the space again.
    ///
    /// # Errors
    /// Any error of the device, a full disk included.
    fn take_reserve(&self) -> io::Result<()>;
}

/// Whether an error says that the disk is full.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
