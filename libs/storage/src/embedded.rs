//! The embedded log: a durable log in one file, for one process.
//!
//! A commit is one engine transaction and one sync, however many writes the commit holds. After a failed sync the log neither retries nor answers: the fatal hook ends the
//! process. On a full disk the log turns read-only; deletes and trims continue from a reserve until space is free again.

mod engine;
mod probe;
mod record;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use oarlock_meta::Revision;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use self::engine::{Engine, EngineError};
use self::probe::Probe;
use crate::disk::{Disk, FileDisk};
use crate::follow::{Follower, Past};
use crate::heads::{Heads, Plan};
use crate::{Append, Error, FatalHook, GroupOutcome, Health, Key, LoadPart, Loaded, Log, Record, Sharing, Tail, Value};

/// Versions deleted in one transaction, at about 15 µs each. The bound keeps a trim from delaying writes.
const TRIM_STEP: usize = 256;
/// Creates and updates are refused while free space is below this many bytes or below four times the size of the batch.
const LOW_WATER_BYTES: u64 = 8 << 20;
/// Creates and updates are accepted again once this many bytes are free beside the reserve.
const HIGH_WATER_BYTES: u64 = 16 << 20;

/// Settings of an embedded log.
#[derive(Clone)]
pub struct Options {
    /// Called on a fault after which the log must not answer; in production the hook ends the process.
    pub fatal: FatalHook,
    /// Bytes of pages that the engine caches in memory. Reads are rare (the View answers most of them), so a small cache is enough.
    pub cache_bytes: usize,
    /// Bytes set aside for deletes and trims on a full disk.
    pub reserve_bytes: u64,
    #[cfg(feature = "testing")]
    /// Leaves commits unsynced, to prove that the power-loss tests notice. Compiled for tests only.
    pub undurable: bool,
}

impl Options {
    /// The defaults: 4 MiB of cache, 16 MiB of reserve.
    #[must_use]
    pub fn new(fatal: FatalHook) -> Self {
        Self {
            fatal,
            cache_bytes: 4 << 20,
            reserve_bytes: 16 << 20,
            #[cfg(feature = "testing")]
            undurable: false,
        }
    }

    #[cfg(feature = "testing")]
    fn durable(&self) -> bool {
        !self.undurable
    }

    #[cfg(not(feature = "testing"))]
    fn durable(&self) -> bool {
        true
    }
}

/// A [`Log`] in one file. Clones share the log. Calls block the calling thread on the disk.
#[derive(Clone, Debug)]
pub struct EmbeddedLog {
    shared: Arc<Shared>,
}

/// State shared by all clones of an [`EmbeddedLog`].
#[derive(Debug)]
struct Shared {
    probe: Arc<Probe>,
    engine: Engine,
    /// State of the single writer; locked until the sync has finished.
    writer: Mutex<Writer>,
    tip: watch::Sender<Revision>,
    floor: AtomicU64,
    stale_bytes: AtomicU64,
    read_only: AtomicBool,
}

/// State of the log's single writer.
#[derive(Debug, Default)]
struct Writer {
    /// Last revision of every key; `None` until all records have been read.
    heads: Option<Heads>,
    reserve_released: bool,
}

impl EmbeddedLog {
    /// Opens the log in the file at `path`, or creates the file.
    ///
    /// # Errors
    /// The file cannot be opened, is in use by another process, or is not an embedded log.
    pub fn open(path: &Path, options: &Options) -> Result<Self, Error> {
        if !path.try_exists()? {
            Self::make(path, options)?;
        }
        Self::open_on(Arc::new(FileDisk::open(path, options.reserve_bytes)?), options)
    }

    /// Creates an empty log under a temporary name and renames the file. The engine cannot tell a half-created file from a damaged one.
    fn make(path: &Path, options: &Options) -> Result<(), Error> {
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let new = Path::new(&new);
        let disk = Arc::new(FileDisk::open(new, 0)?);
        disk.set_len(0)?;
        drop(Self::open_on(Arc::clone(&disk) as Arc<dyn Disk>, options)?);
        disk.sync()?;
        std::fs::rename(new, path)?;
        Ok(())
    }

    /// Opens or creates the log on the given disk.
    ///
    /// # Errors
    /// As [`EmbeddedLog::open`].
    pub fn open_on(disk: Arc<dyn Disk>, options: &Options) -> Result<Self, Error> {
        let probe = Arc::new(Probe::new(disk, Arc::clone(&options.fatal)));
        let engine = Engine::open(Arc::clone(&probe), options.cache_bytes, options.durable())?;
        let floor = engine.floor()?;
        let last = engine.last()?.max(floor);
        let shared = Shared {
            probe,
            engine,
            writer: Mutex::default(),
            tip: watch::Sender::new(last),
            floor: AtomicU64::new(floor.get()),
            stale_bytes: AtomicU64::new(0),
            read_only: AtomicBool::new(false),
        };
        Ok(Self { shared: Arc::new(shared) })
    }
}

impl Shared {
    fn floor(&self) -> Revision {
        Revision(self.floor.load(Ordering::Acquire))
    }

    fn check_alive(&self) -> Result<(), Error> {
        if self.probe.dead() { Err(Error::Dead) } else { Ok(()) }
    }

    /// Reads every record, passes each to `each` and returns the heads.
    fn scan(&self, each: &mut dyn FnMut(Record)) -> Result<Heads, Error> {
        let mut heads = Heads::default();
        heads.raise_floor(self.floor());
        self.engine.scan(Revision::ZERO, usize::MAX, &mut |record| {
            heads.note(&record);
            each(record);
        })?;
        self.stale_bytes.store(heads.stale_bytes(), Ordering::Release);
        Ok(heads)
    }

    fn commit(&self, groups: &[Vec<Append>]) -> Vec<Result<GroupOutcome, Error>> {
        let refuse = |error: Error| groups.iter().map(|_| Err(error.clone())).collect();
        if let Err(error) = self.check_alive() {
            return refuse(error);
        }
        let mut writer = self.writer.lock();
        match self.commit_locked(&mut writer, groups) {
            Ok(answers) => answers,
            Err(error) => refuse(error),
        }
    }

    fn commit_locked(
        &self,
        writer: &mut Writer,
        groups: &[Vec<Append>],
    ) -> Result<Vec<Result<GroupOutcome, Error>>, Error> {
        self.look_at_space(writer, groups);
        let read_only = self.read_only.load(Ordering::Acquire);
        let (heads, reserve) = self.parts(writer)?;
        let plan = heads.plan(groups, read_only);
        match self.make_durable(heads, plan) {
            Ok(answers) => return Ok(answers),
            Err((EngineError::Dead, _)) => return Err(Error::Dead),
            Err((EngineError::Full, plan)) => {
                self.read_only.store(true, Ordering::Release);
                tracing::warn!("the disk is full: the store is read-only until there is room");
                self.give_up_reserve(reserve);
                self.engine.reopen()?;
                // The engine may have failed after its last write: then the commit is on the disk, and durable since the repair at reopening.
                if plan
                    .records
                    .last()
                    .is_some_and(|record| self.engine.last().is_ok_and(|last| last == record.revision))
                {
                    return Ok(self.landed(heads, plan));
                }
            }
        }
        let plan = heads.plan(groups, true);
        match self.make_durable(heads, plan) {
            Ok(answers) => Ok(answers),
            Err((EngineError::Dead, _)) => Err(Error::Dead),
            Err((EngineError::Full, _)) => self.engine.reopen().and(Err(Error::ReadOnly)),
        }
    }

    fn parts<'a>(&self, writer: &'a mut Writer) -> Result<(&'a mut Heads, &'a mut bool), Error> {
        let heads = match writer.heads.take() {
            Some(heads) => heads,
            None => self.scan(&mut |_| ())?,
        };
        Ok((writer.heads.insert(heads), &mut writer.reserve_released))
    }

    fn make_durable(
        &self,
        heads: &mut Heads,
        plan: Plan,
    ) -> Result<Vec<Result<GroupOutcome, Error>>, (EngineError, Plan)> {
        if plan.records.is_empty() {
            return Ok(plan.answers);
        }
        match self.engine.write(&plan.records) {
            Ok(()) => Ok(self.landed(heads, plan)),
            Err(trouble) => Err((trouble, plan)),
        }
    }

    fn landed(&self, heads: &mut Heads, plan: Plan) -> Vec<Result<GroupOutcome, Error>> {
        for record in &plan.records {
            heads.note(record);
        }
        self.stale_bytes.store(heads.stale_bytes(), Ordering::Release);
        self.tip.send_replace(heads.last());
        plan.answers
    }

    /// Turns the log read-only before the disk is really full, and writable again when space is free.
    fn look_at_space(&self, writer: &mut Writer, groups: &[Vec<Append>]) {
        let values = groups.iter().flatten().filter_map(|append| append.value.as_ref());
        let bytes: u64 = values.map(|value| value.len() as u64).sum();
        if bytes == 0 {
            return;
        }
        let Ok(available) = self.probe.disk().available() else { return };
        if !self.read_only.load(Ordering::Acquire) {
            if available < LOW_WATER_BYTES + 4 * bytes {
                self.read_only.store(true, Ordering::Release);
                tracing::warn!(available, "the disk is nearly full: the store is read-only until there is room");
            }
        } else if available >= HIGH_WATER_BYTES + 4 * bytes {
            if writer.reserve_released && self.probe.disk().take_reserve().is_err() {
                return;
            }
            writer.reserve_released = false;
            self.read_only.store(false, Ordering::Release);
            tracing::info!(available, "the store takes writes again");
        }
    }

    fn give_up_reserve(&self, released: &mut bool) {
        match self.probe.disk().release_reserve() {
            Ok(()) => *released = true,
            Err(error) => tracing::error!(%error, "the reserve on the full disk cannot be released"),
        }
    }

    fn trim(&self, revision: Revision) -> Result<(), Error> {
        let current = self.last()?;
        if revision > current {
            return Err(Error::Future { asked: revision, current });
        }
        self.forget(revision)
    }

    /// Revision of the last write.
    fn last(&self) -> Result<Revision, Error> {
        self.check_alive()?;
        Ok(self.parts(&mut self.writer.lock())?.0.last())
    }

    /// Raises the floor, and with it the lowest next revision, and deletes versions that no state above the floor needs.
    fn forget(&self, revision: Revision) -> Result<(), Error> {
        loop {
            self.check_alive()?;
            let mut writer = self.writer.lock();
            let (heads, reserve) = self.parts(&mut writer)?;
            let floor = heads.floor().max(revision);
            let rises = floor > heads.floor();
            heads.raise_floor(floor);
            let versions = heads.take_stale(TRIM_STEP);
            if versions.is_empty() && !rises {
                return Ok(());
            }
            // The floor rises before versions are deleted: a reader in between gets "compacted", never a hole.
            self.floor.store(floor.get(), Ordering::Release);
            match self.engine.forget(&versions, floor) {
                Ok(()) => {
                    self.stale_bytes.store(heads.stale_bytes(), Ordering::Release);
                    let last = heads.last();
                    self.tip.send_if_modified(|tip| std::mem::replace(tip, last) != last);
                    // Hands the lock to a waiting commit instead of racing it for the next step.
                    MutexGuard::unlock_fair(writer);
                }
                Err(EngineError::Dead) => return Err(Error::Dead),
                Err(EngineError::Full) => {
                    self.read_only.store(true, Ordering::Release);
                    self.give_up_reserve(reserve);
                    // The list of versions to delete was already shortened; the next load builds a new one.
                    writer.heads = None;
                    self.engine.reopen()?;
                    return Err(Error::ReadOnly);
                }
            }
        }
    }
}

impl Past for Shared {
    fn after(&self, after: Revision, max: usize) -> Result<Vec<Record>, Error> {
        self.check_alive()?;
        let mut records = Vec::new();
        self.engine.scan(after, max, &mut |record| records.push(record))?;
        // Checked after the read: a concurrent trim may have removed records while they were read.
        let floor = self.floor();
        if after < floor { Err(Error::Compacted { floor }) } else { Ok(records) }
    }
}

#[async_trait]
impl Log for EmbeddedLog {
    async fn commit(&self, groups: Vec<Vec<Append>>) -> Vec<Result<GroupOutcome, Error>> {
        self.shared.commit(&groups)
    }

    async fn tail(&self, after: Revision) -> Result<Box<dyn Tail>, Error> {
        self.shared.after(after, 0)?;
        Ok(Box::new(Follower::new(Arc::clone(&self.shared), self.shared.tip.subscribe(), after)))
    }

    async fn load(&self, each: &mut (dyn FnMut(LoadPart) + Send)) -> Result<Loaded, Error> {
        self.shared.check_alive()?;
        let mut writer = self.shared.writer.lock();
        let floor = self.shared.floor();
        let heads = self.shared.scan(&mut LoadPart::of(floor, each))?;
        let loaded = Loaded { revision: heads.last(), floor: heads.floor() };
        writer.heads = Some(heads);
        Ok(loaded)
    }

    async fn body(&self, key: &Key, revision: Revision) -> Result<Option<Value>, Error> {
        self.shared.check_alive()?;
        let record = self.shared.engine.get(revision)?;
        Ok(record.filter(|record| record.key == *key).and_then(|record| record.value))
    }

    async fn barrier(&self) -> Result<Revision, Error> {
        self.shared.check_alive()?;
        Ok(*self.shared.tip.borrow())
    }

    async fn trim(&self, revision: Revision) -> Result<(), Error> {
        self.shared.trim(revision)
    }

    async fn raise(&self, to: Revision) -> Result<(), Error> {
        self.shared.forget(self.shared.last()?.max(to))
    }

    fn health(&self) -> Health {
        let shared = &self.shared;
        let dead = shared.probe.dead();
        Health {
            writable: !dead && !shared.read_only.load(Ordering::Acquire),
            dead,
            revision: *shared.tip.borrow(),
            floor: shared.floor(),
            history_bytes: shared.stale_bytes.load(Ordering::Acquire),
            stored_bytes: shared.engine.bytes(),
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::Exclusive
    }

    fn blocks(&self) -> bool {
        true
    }
}
