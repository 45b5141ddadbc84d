//! Power-loss tests: after a boot from what the disk kept, every acknowledged write is present, revisions have only risen, and each commit is present as a whole or not at
//! all. The disk drops any subset of unsynced operations and tears one write.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use oarlock_storage::embedded::Options;
use oarlock_storage::testing::recording_hook;
use oarlock_storage::testing::rng::Rng;
use oarlock_storage::testing::sim_disk::{PowerLoss, SimDisk};
use oarlock_storage::{Append, EmbeddedLog, Error, Expect, GroupOutcome, Key, Log, Revision};

type State = BTreeMap<Key, Bytes>;

/// The way in which the disk or the log is deliberately broken.
#[derive(Clone, Copy, PartialEq)]
enum Broken {
    Not,
    /// Commits are not synced.
    Undurable,
    /// The disk reports syncs that it did not make.
    LyingDisk,
}

/// The caller's knowledge: acknowledged writes, and the batch in flight.
#[derive(Default)]
struct Known {
    acknowledged: State,
    revisions: BTreeMap<Key, Revision>,
    last: Revision,
    /// The state if the batch in flight was committed.
    in_flight: Option<State>,
}

impl Known {
    fn settle(&mut self, found: &State) {
        self.acknowledged = found.clone();
        self.in_flight = None;
        self.revisions.clear();
    }
}

fn open(disk: &SimDisk, broken: Broken) -> Result<EmbeddedLog, Error> {
    let (fatal, _) = recording_hook();
    let undurable = broken == Broken::Undurable;
    EmbeddedLog::open_on(Arc::new(disk.clone()), &Options { undurable, cache_bytes: 1 << 20, ..Options::new(fatal) })
}

fn keys() -> Vec<Key> {
    let pods = (0..6).map(|n| Key::namespaced("/registry/pods/", "default", &n.to_string()));
    pods.chain((0..3).map(|n| Key::cluster("/registry/minions/", &n.to_string()))).collect()
}

/// Draws a batch of groups that all fit the state; returns the state after them too.
fn batch(rng: &mut Rng, state: &State) -> (Vec<Vec<Append>>, State) {
    let (keys, mut state) = (keys(), state.clone());
    let mut groups = Vec::new();
    for _ in 0..=rng.below(5) {
        let mut group: Vec<Append> = Vec::new();
        for _ in 0..=rng.below(2) {
            let key = &keys[rng.below(keys.len() as u64) as usize];
            if group.iter().any(|append| append.key.resource() == key.resource()) {
                continue;
            }
            let delete = state.contains_key(key) && rng.percent(25);
            let value = (!delete).then(|| Bytes::from(vec![rng.below(256) as u8; rng.below(6000) as usize]));
            match &value {
                Some(value) => state.insert(key.clone(), value.clone()),
                None => state.remove(key),
            };
            group.push(Append { key: key.clone(), expect: Expect::Any, value, fence: None });
        }
        groups.push(group);
    }
    (groups, state)
}

/// Commits batches until the power fails or the limit is reached.
async fn work(log: &EmbeddedLog, rng: &mut Rng, known: &mut Known) -> Result<(), String> {
    for _ in 0..40 {
        if rng.percent(15) {
            let upto = Revision(rng.below(known.last.get() + 1));
            if matches!(log.trim(upto).await, Err(Error::Dead)) {
                return Ok(());
            }
        }
        let (groups, after) = batch(rng, &known.acknowledged);
        known.in_flight = Some(after.clone());
        let written: Vec<Key> = groups.iter().flatten().map(|append| append.key.clone()).collect();
        let mut revisions = Vec::new();
        for answer in log.commit(groups).await {
            match answer {
                Ok(GroupOutcome::Committed(new)) => revisions.extend(new),
                Err(Error::Dead) => return Ok(()),
                other => return Err(format!("unexpected answer {other:?}")),
            }
        }
        for (key, revision) in written.into_iter().zip(revisions) {
            if revision <= known.last {
                return Err(format!("revision {revision} after {}", known.last));
            }
            known.last = revision;
            known.revisions.insert(key, revision);
        }
        known.acknowledged = after;
        known.in_flight = None;
    }
    Ok(())
}

/// Compares the log after a boot with the caller's knowledge.
async fn verify(log: &EmbeddedLog, known: &mut Known) -> Result<(), String> {
    let (mut found, mut at, mut last) = (State::new(), BTreeMap::new(), Revision::ZERO);
    let mut problems = Vec::new();
    let loaded = log
        .load(&mut |piece| {
            let Some(record) = piece.record() else { return };
            if record.revision <= last {
                problems.push(format!("record {} after {last}", record.revision));
            }
            last = record.revision;
            at.insert(record.key.clone(), record.revision);
            match record.value {
                Some(value) => found.insert(record.key, value),
                None => found.remove(&record.key),
            };
        })
        .await
        .map_err(|error| format!("load: {error}"))?;
    if !problems.is_empty() {
        return Err(problems.join(", "));
    }
    if loaded.revision < known.last {
        return Err(format!("acknowledged up to {}, found {}", known.last, loaded.revision));
    }
    if found == known.acknowledged {
        for (key, revision) in &known.revisions {
            if known.acknowledged.contains_key(key) && at.get(key) != Some(revision) {
                return Err(format!("{key} was acknowledged at {revision}, found {:?}", at.get(key)));
            }
        }
    } else if known.in_flight.as_ref() != Some(&found) {
        let (want, have) = (known.acknowledged.len(), found.len());
        return Err(format!("neither what was acknowledged ({want} keys) nor what was in flight: {have} keys"));
    }
    known.last = loaded.revision;
    known.settle(&found);
    Ok(())
}

/// Runs three boots in a row, each cut short at some operation, also during the repair of the previous loss.
async fn trial(seed: u64, broken: Broken) -> Result<PowerLoss, String> {
    let mut rng = Rng::new(seed);
    let (mut known, mut disk, mut sum) = (Known::default(), SimDisk::new(), PowerLoss::default());
    // `EmbeddedLog::open` creates an empty log under a temporary name, so power fails only afterwards.
    drop(open(&disk, Broken::Not).map_err(|error| error.to_string())?);
    for _ in 0..3 {
        if broken == Broken::LyingDisk {
            disk.lie_about_syncs();
        }
        disk.fail_power_at(1 + rng.below(300));
        match open(&disk, broken) {
            Err(_) if disk.is_off() => {}
            Err(error) => return Err(format!("cannot be opened: {error}")),
            Ok(log) => match verify(&log, &mut known).await {
                Err(_) if disk.is_off() => {}
                Err(problem) => return Err(problem),
                Ok(()) => work(&log, &mut rng, &mut known).await?,
            },
        }
        let (next, loss) = disk.reboot(&mut rng);
        disk = next;
        sum.unsynced += loss.unsynced;
        sum.lost += loss.lost;
    }
    let log = open(&disk, Broken::Not).map_err(|error| format!("cannot be opened at last: {error}"))?;
    verify(&log, &mut known).await?;
    Ok(sum)
}

/// Runs seeds on a few threads; returns the failures by seed, and the number of seeds that lost unsynced writes.
fn trials(seeds: u64, broken: Broken) -> (Vec<(u64, String)>, usize) {
    const THREADS: u64 = 4;
    std::thread::scope(|scope| {
        let share = |thread: u64| move || run((thread..seeds).step_by(THREADS as usize), broken);
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(share(thread))).collect();
        let (mut failed, mut bitten) = (Vec::new(), 0);
        for thread in threads {
            let (more, losses) = thread.join().unwrap();
            failed.extend(more);
            bitten += losses;
        }
        failed.sort();
        (failed, bitten)
    })
}

fn run(seeds: impl Iterator<Item = u64>, broken: Broken) -> (Vec<(u64, String)>, usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (mut failed, mut bitten) = (Vec::new(), 0);
    for seed in seeds {
        match runtime.block_on(trial(seed, broken)) {
            Ok(loss) => bitten += usize::from(loss.lost > 0),
            Err(problem) => failed.push((seed, problem)),
        }
    }
    (failed, bitten)
}

#[test]
fn a_thousand_power_losses_lose_nothing_acknowledged() {
    let (failed, bitten) = trials(1000, Broken::Not);
    println!("1000 seeds, {bitten} lost unsynced writes");
    assert!(failed.is_empty(), "{} seeds failed, the first: {:?}", failed.len(), failed.get(..failed.len().min(5)));
    assert!(bitten > 500, "only {bitten} losses of power lost anything: the test proves too little");
}

#[test]
fn commits_that_are_not_synced_are_found_out() {
    let (failed, _) = trials(50, Broken::Undurable);
    println!("undurable commits: {} of 50 seeds noticed", failed.len());
    assert!(failed.len() > 25, "only {} of 50 seeds noticed that nothing was synced", failed.len());
}

#[test]
fn a_disk_that_lies_about_syncs_is_found_out() {
    let (failed, _) = trials(50, Broken::LyingDisk);
    println!("lying disk: {} of 50 seeds noticed", failed.len());
    assert!(failed.len() > 25, "only {} of 50 seeds noticed that nothing was synced", failed.len());
}
