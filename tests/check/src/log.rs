//! The recorded log, against which all rules are checked.

use std::collections::HashMap;

use crate::history::{At, History, Record};
use crate::report::{Report, Rule};

/// The records in their order, found by revision, key and tag. A record is identified by its index.
pub(crate) struct Log<'a> {
    records: Vec<&'a At<Record>>,
    by_key: HashMap<&'a str, Vec<usize>>,
    by_tag: HashMap<&'a str, Vec<usize>>,
    /// The index of the next record of the same key, for each record.
    next: Vec<Option<usize>>,
    after: u64,
    through: u64,
}

impl<'a> Log<'a> {
    /// Sorts the records, and reports records that do not form one order.
    pub(crate) fn new(history: &'a History, report: &mut Report) -> Self {
        let mut records: Vec<_> = history.records.iter().collect();
        for (earlier, later) in records.iter().zip(records.iter().skip(1)) {
            // Objects of different resources may be written together, at one revision.
            if later.is.revision < earlier.is.revision {
                let what = format!("revision {} follows {}", later.is.revision, earlier.is.revision);
                report.broke(Rule::Log, what, [Some(later.place), Some(earlier.place)]);
            }
        }
        records.sort_by_key(|record| record.is.revision);
        let mut log = Self {
            next: vec![None; records.len()],
            records,
            by_key: HashMap::new(),
            by_tag: HashMap::new(),
            after: history.truth.after,
            through: history.truth.through,
        };
        for (index, record) in log.records.iter().enumerate() {
            report.count(Rule::Log);
            let own = log.by_key.entry(&record.is.key).or_default();
            let before = own.last().copied();
            if let Some(next) = before.and_then(|before| log.next.get_mut(before)) {
                *next = Some(index);
            }
            own.push(index);
            if let Some(tag) = &record.is.tag {
                log.by_tag.entry(tag).or_default().push(index);
            }
            let before = before.and_then(|before| log.records.get(before)).copied();
            log.judge(record, before, report);
        }
        log
    }

    fn judge(&self, record: &At<Record>, before: Option<&At<Record>>, report: &mut Report) {
        let Record { revision, prev, body, key, .. } = &record.is;
        let evidence = [Some(record.place), before.map(|before| before.place)];
        if *revision > self.through {
            report.broke(Rule::Log, format!("revision {revision}, but the log ends at {}", self.through), evidence);
        }
        if *revision <= self.after {
            if body.is_none() || before.is_some() {
                let what = format!("the state at {} holds {key} twice, or as deleted", self.after);
                report.broke(Rule::Log, what, evidence);
            }
            return;
        }
        let there = before.filter(|before| before.is.body.is_some()).map(|before| before.is.revision);
        if there != *prev {
            let what = format!("revision {revision} replaces {prev:?} of {key}, but there was {there:?}");
            report.broke(Rule::Log, what, evidence);
        }
        if before.is_some_and(|before| before.is.revision == *revision) {
            report.broke(Rule::Log, format!("{key} was written twice at {revision}"), evidence);
        }
        if body.is_none() && prev.is_none() {
            report.broke(Rule::Log, format!("revision {revision} deletes {key}, which was not there"), evidence);
        }
    }

    /// Returns the last revision of the log.
    pub(crate) fn through(&self) -> u64 {
        self.through
    }

    /// Returns the revision up to which the records are a state and not single writes.
    pub(crate) fn after(&self) -> u64 {
        self.after
    }

    /// Returns all records with their indices.
    pub(crate) fn records(&self) -> impl Iterator<Item = (usize, &'a At<Record>)> {
        self.records.iter().copied().enumerate()
    }

    /// Returns the record with this index.
    pub(crate) fn get(&self, index: usize) -> Option<&'a At<Record>> {
        self.records.get(index).copied()
    }

    /// Returns the record of this key at exactly this revision, or else any record at this revision.
    pub(crate) fn written_at(&self, revision: u64, key: &str) -> Option<(usize, &'a At<Record>)> {
        let first = self.records.partition_point(|record| record.is.revision < revision);
        let here = || self.records().skip(first).take_while(|(_, record)| record.is.revision == revision);
        here().find(|(_, record)| record.is.key == key).or_else(|| here().next())
    }

    /// Returns the records with a call's tag.
    pub(crate) fn tagged(&self, tag: &str) -> &[usize] {
        self.by_tag.get(tag).map_or(&[], Vec::as_slice)
    }

    /// Returns the next record of the same key.
    pub(crate) fn successor(&self, index: usize) -> Option<(usize, &'a At<Record>)> {
        let next = self.next.get(index).copied().flatten()?;
        self.get(next).map(|record| (next, record))
    }

    /// Returns the last record of a key up to a revision, which gives the key's state there. A delete is a record too.
    pub(crate) fn state(&self, key: &str, revision: u64) -> Option<(usize, &'a At<Record>)> {
        let own = self.by_key.get(key)?;
        let later = own.partition_point(|index| self.get(*index).is_some_and(|record| record.is.revision <= revision));
        let index = *own.get(later.checked_sub(1)?)?;
        self.get(index).map(|record| (index, record))
    }

    /// Returns the first revision from `from` on at which the state of a key satisfies `wanted`, which gets the key's revision, or `None` when the
    /// key is absent.
    pub(crate) fn moment(&self, key: &str, from: u64, wanted: impl Fn(Option<u64>) -> bool) -> Option<u64> {
        let there = |record: &Record| record.body.as_ref().map(|_| record.revision);
        let own = self.by_key.get(key).map_or(&[][..], Vec::as_slice);
        let later = own.partition_point(|index| self.get(*index).is_some_and(|record| record.is.revision <= from));
        let now = later.checked_sub(1).and_then(|last| own.get(last)).and_then(|index| self.get(*index));
        if wanted(now.and_then(|record| there(&record.is))) {
            return Some(from);
        }
        let mut rest = own.iter().skip(later).filter_map(|index| self.get(*index));
        rest.find(|record| wanted(there(&record.is))).map(|record| record.is.revision)
    }
}
