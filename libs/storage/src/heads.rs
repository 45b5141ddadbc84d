//! The heads: the last revision of every key, used for the compares of writes and to find versions that can be deleted.
//!
//! This module does no I/O. It serves the backends that have one writing process. A batch is first *planned* against the heads and the earlier groups of the same batch; the
//! heads move only when the plan is durable.

use std::collections::VecDeque;

use hashbrown::HashMap;
use oarlock_meta::Revision;

use crate::{Append, Cause, Error, Expect, GroupOutcome, Key, Record};

/// The longest value that a log accepts, in bytes; the API's body limit is 3 MiB.
pub const MAX_VALUE_BYTES: usize = 8 << 20;

type Map<V> = HashMap<Key, V, foldhash::fast::FixedState>;

/// Last write of a key: its revision and the length of its value.
#[derive(Clone, Copy, Debug)]
struct Head {
    revision: Revision,
    bytes: u32,
}

/// A version that no current state needs since the write at `by`; only history still reads it.
#[derive(Clone, Copy, Debug)]
struct Stale {
    by: Revision,
    version: Revision,
    bytes: u32,
}

/// Result of planning a batch: the answers to give and the records to write.
#[derive(Debug)]
pub(crate) struct Plan {
    /// One answer per group; valid once the records are durable.
    pub(crate) answers: Vec<Result<GroupOutcome, Error>>,
    /// Records to write, in order.
    pub(crate) records: Vec<Record>,
}

/// The last revision of every key.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    map: Map<Head>,
    last: Revision,
    floor: Revision,
    stale: VecDeque<Stale>,
    stale_bytes: u64,
}

impl Heads {
    /// Returns the revision of the last write.
    pub(crate) fn last(&self) -> Revision {
        self.last
    }

    /// Returns the oldest revision from which history is complete.
    pub(crate) fn floor(&self) -> Revision {
        self.floor
    }

    /// Returns the bytes of versions that only history needs.
    pub(crate) fn stale_bytes(&self) -> u64 {
        self.stale_bytes
    }

    /// Adds a durable record; records arrive in revision order.
    pub(crate) fn note(&mut self, record: &Record) {
        let bytes = record.value.as_ref().map_or(0, |value| u32::try_from(value.len()).unwrap_or(u32::MAX));
        self.last = self.last.max(record.revision);
        let revision = record.revision;
        let before = if record.value.is_some() {
            self.map.insert(record.key.clone(), Head { revision, bytes })
        } else {
            self.map.remove(&record.key)
        };
        if let Some(head) = before {
            self.add_stale(Stale { by: revision, version: head.revision, bytes: head.bytes });
        }
        if record.value.is_none() {
            // No current state needs a tombstone, so it counts as history at once.
            self.add_stale(Stale { by: revision, version: revision, bytes: 0 });
        }
    }

    fn add_stale(&mut self, stale: Stale) {
        self.stale_bytes += u64::from(stale.bytes);
        self.stale.push_back(stale);
    }

    /// Raises the floor. Revisions never fall below the floor, even when no record above it exists.
    pub(crate) fn raise_floor(&mut self, floor: Revision) {
        self.floor = self.floor.max(floor);
        self.last = self.last.max(floor);
    }

    /// Removes up to `max` versions from the list of stale ones that nothing above the floor needs, and returns their revisions.
    pub(crate) fn take_stale(&mut self, max: usize) -> Vec<Revision> {
        let mut versions = Vec::new();
        while versions.len() < max {
            let Some(stale) = self.stale.pop_front_if(|stale| stale.by <= self.floor) else { break };
            self.stale_bytes -= u64::from(stale.bytes);
            versions.push(stale.version);
        }
        versions
    }

    /// Plans a batch. With `read_only`, groups that hold a create or an update are refused.
    pub(crate) fn plan(&self, groups: &[Vec<Append>], read_only: bool) -> Plan {
        let mut planner = Planner { heads: self, next: self.last.next(), ahead: Map::default(), records: Vec::new() };
        let answers = groups.iter().map(|group| planner.group(group, read_only)).collect();
        Plan { answers, records: planner.records }
    }
}

/// Plans the groups of one batch, each on top of the accepted groups before it.
struct Planner<'a> {
    heads: &'a Heads,
    next: Revision,
    /// Changes that the planned records make to the heads.
    ahead: Map<Option<Revision>>,
    records: Vec<Record>,
}

impl Planner<'_> {
    fn current(&self, key: &Key) -> Option<Revision> {
        match self.ahead.get(key) {
            Some(ahead) => *ahead,
            None => self.heads.map.get(key).map(|head| head.revision),
        }
    }

    fn group(&mut self, group: &[Append], read_only: bool) -> Result<GroupOutcome, Error> {
        check_shape(group)?;
        if read_only && group.iter().any(|append| append.value.is_some()) {
            return Err(Error::ReadOnly);
        }
        // The keys of a group differ (they are of different resources), so all compares come before all effects.
        for (index, append) in group.iter().enumerate() {
            let claim = append.fence.as_ref().and_then(|fence| self.current(&fence.key));
            if let Some((current, cause)) = refusal(append, self.current(&append.key), claim) {
                return Ok(GroupOutcome::Rejected { index, current, cause });
            }
        }
        Ok(GroupOutcome::Committed(group.iter().map(|append| self.write(append)).collect()))
    }

    fn write(&mut self, append: &Append) -> Revision {
        let revision = self.next;
        self.next = revision.next();
        let prev = self.current(&append.key);
        self.ahead.insert(append.key.clone(), append.value.as_ref().map(|_| revision));
        self.records.push(Record { revision, key: append.key.clone(), prev, value: append.value.clone() });
        revision
    }
}

/// Returns why a write is refused when its key was last written at `current` and its fence at `claim`; `None` when the write is accepted.
pub(crate) fn refusal(
    append: &Append,
    current: Option<Revision>,
    claim: Option<Revision>,
) -> Option<(Option<Revision>, Cause)> {
    if append.fence.as_ref().is_some_and(|fence| claim != Some(fence.at)) {
        return Some((claim, Cause::Fence));
    }
    let holds = match append.expect {
        Expect::Absent => current.is_none() && append.value.is_some(),
        Expect::At(revision) => current == Some(revision),
        Expect::Any => append.value.is_some() || current.is_some(),
    };
    (!holds).then_some((current, Cause::Head))
}

/// Refuses groups that are invalid in any state of the log.
pub(crate) fn check_shape(group: &[Append]) -> Result<(), Error> {
    if group.is_empty() {
        return Err(Error::EmptyGroup);
    }
    for (index, append) in group.iter().enumerate() {
        let len = append.value.as_ref().map_or(0, bytes::Bytes::len);
        if len > MAX_VALUE_BYTES {
            return Err(Error::TooLarge { len, limit: MAX_VALUE_BYTES });
        }
        let resource = append.key.resource();
        if group.iter().take(index).any(|other| other.key.resource() == resource) {
            return Err(Error::SameResource { resource: resource.to_owned() });
        }
    }
    Ok(())
}
