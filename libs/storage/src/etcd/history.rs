//! Histories of etcd, and the translation between etcd's revisions and the log's.
//!
//! A revision of the log is etcd's revision plus a base, which is stored in a key of our own. The base is written when a snapshot is restored, and when etcd itself was
//! restored from an older state while a server ran; so revisions only rise. Without that key the base is 0 and revisions equal etcd's, as with upstream's API servers. Writes
//! from before the base was stored belong to another history and count as compacted.

use oarlock_contracts::etcd::RangeResponse;
use oarlock_meta::Revision;

use crate::Error;

/// One history of an etcd cluster. Revisions of histories with different bases or clusters cannot be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    pub(crate) cluster: u64,
    base: u64,
    /// etcd's revision at which the base was written; 0 without a base.
    pub(crate) since: i64,
}

impl History {
    /// Reads the history and etcd's revision from an answer to a read of the base.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the stored base is not a number.
    pub(crate) fn of(answer: &RangeResponse) -> Result<(Self, i64), Error> {
        let header = answer.header.unwrap_or_default();
        let mut history = Self { cluster: header.cluster_id, ..Self::default() };
        if let Some(kv) = answer.kvs.first() {
            let base = std::str::from_utf8(&kv.value).ok().and_then(|text| text.parse().ok());
            history.base = base
                .ok_or_else(|| Error::Corrupt(format!("{} in etcd is no number", String::from_utf8_lossy(&kv.key))))?;
            history.since = kv.mod_revision;
        }
        Ok((history, header.revision))
    }

    /// Converts etcd's revision to the log's. etcd never sends a negative revision.
    pub(crate) fn revision(&self, number: i64) -> Revision {
        Revision(self.base.saturating_add(u64::try_from(number).unwrap_or(0)))
    }

    /// Converts the log's revision to etcd's; 0 stands for none. A revision of an earlier history maps to a number that etcd never reaches.
    pub(crate) fn number(&self, revision: Revision) -> i64 {
        if revision.is_zero() {
            return 0;
        }
        let number = revision.get().checked_sub(self.base).filter(|number| *number > 0);
        number.and_then(|number| i64::try_from(number).ok()).unwrap_or(i64::MAX)
    }

    /// First revision of the history; zero when the history begins with etcd itself.
    pub(crate) fn floor(&self) -> Revision {
        if self.since == 0 { Revision::ZERO } else { self.revision(self.since) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_go_there_and_back_and_those_of_before_lead_nowhere() {
        let plain = History::default();
        assert_eq!((plain.revision(7), plain.number(Revision(7)), plain.floor()), (Revision(7), 7, Revision::ZERO));
        let raised = History { base: 1000, since: 5, ..plain };
        assert_eq!((raised.revision(7), raised.number(Revision(1007))), (Revision(1007), 7));
        assert_eq!(raised.floor(), Revision(1005));
        assert_eq!(raised.number(Revision::ZERO), 0);
        for before in [1, 7, 1000] {
            assert_eq!(raised.number(Revision(before)), i64::MAX, "{before}");
        }
    }
}
