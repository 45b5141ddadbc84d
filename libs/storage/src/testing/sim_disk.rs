//! A simulated disk: loses power at a chosen operation, keeps any subset of unsynced writes, tears one write, fails a sync, runs full.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::rng::Rng;
use crate::disk::Disk;

const BLOCK_BYTES: u64 = 4096;
const SECTOR_BYTES: usize = 512;

/// An operation since the last sync.
#[derive(Debug)]
enum Pending {
    Write(u64, Vec<u8>),
    SetLen(u64),
}

/// Content and planned faults of a [`SimDisk`].
#[derive(Debug, Default)]
struct State {
    /// Content as a reader sees it.
    current: Vec<u8>,
    /// Content after a loss of power, without the operations in `pending`.
    durable: Vec<u8>,
    pending: Vec<Pending>,
    operations: u64,
    power_fails_at: Option<u64>,
    off: bool,
    lies: bool,
    syncs: u64,
    sync_fails_at: Option<u64>,
    capacity: Option<u64>,
    reserve: u64,
    reserve_held: bool,
    /// Reports free space although the disk is full.
    secretly: bool,
    blocks: BTreeSet<u64>,
    /// Operations that reached the disk after a failed sync.
    after_failed_sync: u64,
    sync_failed: bool,
}

/// Effects of a loss of power.
#[derive(Clone, Copy, Debug, Default)]
pub struct PowerLoss {
    /// Number of unsynced operations.
    pub unsynced: usize,
    /// Number of unsynced operations that were lost, wholly or in part.
    pub lost: usize,
}

/// A simulated [`Disk`]. Clones share the disk.
#[derive(Clone, Debug, Default)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

impl SimDisk {
    /// Creates an empty disk without limits or faults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Turns the power off at the `operation`-th write, cut or sync from now (1 is the next).
    pub fn fail_power_at(&self, operation: u64) {
        let mut state = self.state.lock();
        state.power_fails_at = Some(state.operations + operation);
    }

    /// Makes syncs report success without syncing.
    pub fn lie_about_syncs(&self) {
        self.state.lock().lies = true;
    }

    /// Fails the `sync`-th sync from now with EIO (1 is the next).
    pub fn fail_sync_at(&self, sync: u64) {
        let mut state = self.state.lock();
        state.sync_fails_at = Some(state.syncs + sync);
    }

    /// Limits the disk's capacity, of which `reserve` bytes are reserved.
    pub fn limit(&self, capacity: u64, reserve: u64) {
        let mut state = self.state.lock();
        state.capacity = Some(capacity);
        state.reserve = reserve;
        state.reserve_held = true;
        state.secretly = false;
    }

    /// Fills the disk up to this many free bytes, as another process would; [`Disk::available`] does not show it.
    pub fn fill_leaving(&self, spare: u64) {
        let mut state = self.state.lock();
        let used = state.blocks.len() as u64 * BLOCK_BYTES + if state.reserve_held { state.reserve } else { 0 };
        state.capacity = Some(used + spare);
        state.secretly = true;
    }

    /// Whether the power is off.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.state.lock().off
    }

    /// Whether the reserve is taken.
    #[must_use]
    pub fn holds_reserve(&self) -> bool {
        self.state.lock().reserve_held
    }

    /// Returns the number of writes, cuts and syncs so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// Returns the number of operations after a failed sync.
    #[must_use]
    pub fn operations_after_failed_sync(&self) -> u64 {
        self.state.lock().after_failed_sync
    }

    /// Returns the disk as the next boot finds it: every synced byte, and any subset of the unsynced operations in order, one of them torn at sectors.
    #[must_use]
    pub fn reboot(&self, rng: &mut Rng) -> (Self, PowerLoss) {
        let state = self.state.lock();
        let mut image = state.durable.clone();
        let mut loss = PowerLoss { unsynced: state.pending.len(), lost: 0 };
        // Some boots lose all unsynced operations, some nearly none, most a part.
        let keep = u32::try_from(rng.below(101)).unwrap_or(50);
        let torn = rng.below(state.pending.len() as u64 + 1);
        for (index, pending) in state.pending.iter().enumerate() {
            let tear = index as u64 == torn && matches!(pending, Pending::Write(..));
            if !tear && !rng.percent(keep) {
                loss.lost += 1;
                continue;
            }
            match pending {
                Pending::SetLen(len) => image.resize(size(*len), 0),
                Pending::Write(offset, data) if tear => {
                    loss.lost += 1;
                    for (number, sector) in data.chunks(SECTOR_BYTES).enumerate() {
                        if rng.percent(50) {
                            put(&mut image, *offset + (number * SECTOR_BYTES) as u64, sector);
                        }
                    }
                }
                Pending::Write(offset, data) => put(&mut image, *offset, data),
            }
        }
        let booted = State { current: image.clone(), durable: image, ..State::default() };
        (Self { state: Arc::new(Mutex::new(booted)) }, loss)
    }
}

fn size(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

fn put(image: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let (from, to) = (size(offset), size(offset) + data.len());
    if image.len() < to {
        image.resize(to, 0);
    }
    if let Some(place) = image.get_mut(from..to) {
        place.copy_from_slice(data);
    }
}

impl State {
    fn step(&mut self) -> io::Result<()> {
        self.alive()?;
        self.operations += 1;
        if self.sync_failed {
            self.after_failed_sync += 1;
        }
        if self.power_fails_at.is_some_and(|at| self.operations >= at) {
            self.off = true;
        }
        self.alive()
    }

    fn alive(&self) -> io::Result<()> {
        if self.off { Err(io::Error::other("the power is off")) } else { Ok(()) }
    }

    fn free(&self) -> u64 {
        let used = self.blocks.len() as u64 * BLOCK_BYTES + if self.reserve_held { self.reserve } else { 0 };
        self.capacity.map_or(u64::MAX / 2, |capacity| capacity.saturating_sub(used))
    }

    /// Allocates the blocks of a write.
    fn allocate(&mut self, offset: u64, len: usize) -> io::Result<()> {
        if self.capacity.is_none() || len == 0 {
            return Ok(());
        }
        let blocks = offset / BLOCK_BYTES..=(offset + len as u64 - 1) / BLOCK_BYTES;
        let new: Vec<u64> = blocks.filter(|block| !self.blocks.contains(block)).collect();
        if new.len() as u64 * BLOCK_BYTES > self.free() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.blocks.extend(new);
        Ok(())
    }
}

impl Disk for SimDisk {
    fn len(&self) -> io::Result<u64> {
        let state = self.state.lock();
        state.alive()?;
        Ok(state.current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state.lock();
        state.alive()?;
        let from = size(offset);
        let bytes = state.current.get(from..from.saturating_add(out.len()));
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock();
        state.alive()?;
        // The write at the power failure is among those that may survive in part.
        let stepped = state.step();
        if stepped.is_ok() {
            state.allocate(offset, data.len())?;
            put(&mut state.current, offset, data);
        }
        state.pending.push(Pending::Write(offset, data.to_vec()));
        stepped
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        state.step()?;
        state.current.resize(size(len), 0);
        state.blocks.split_off(&len.div_ceil(BLOCK_BYTES));
        state.pending.push(Pending::SetLen(len));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        state.step()?;
        state.syncs += 1;
        if state.sync_fails_at == Some(state.syncs) {
            state.sync_failed = true;
            return Err(io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error()));
        }
        if !state.lies {
            let state = &mut *state;
            for pending in state.pending.drain(..) {
                match pending {
                    Pending::Write(offset, data) => put(&mut state.durable, offset, &data),
                    Pending::SetLen(len) => state.durable.resize(size(len), 0),
                }
            }
        }
        Ok(())
    }

    fn available(&self) -> io::Result<u64> {
        let state = self.state.lock();
        state.alive()?;
        Ok(if state.secretly { u64::MAX / 2 } else { state.free() })
    }

    fn release_reserve(&self) -> io::Result<()> {
        self.state.lock().reserve_held = false;
        Ok(())
    }

    fn take_reserve(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        if !state.reserve_held && state.free() < state.reserve {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.reserve_held = true;
        Ok(())
    }
}
