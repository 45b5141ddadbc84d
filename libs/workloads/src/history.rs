//! The history of a workload: its ControllerRevisions in order, the revision of its current template, and the revisions beyond the limit.

use oarlock_meta::Time;

use crate::revision::Fingerprint;

/// A revision of a workload, as far as the rules of the history need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revision<'a> {
    /// The ControllerRevision's name.
    pub name: &'a str,
    /// The place in the history: the highest number is the newest.
    pub number: i64,
    /// When the ControllerRevision was created.
    pub created: Option<Time>,
    /// The ControllerRevision's data.
    pub data: Fingerprint,
}

/// The revision of a workload's current template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update<'a> {
    /// The newest revision has the template.
    Newest(Revision<'a>),
    /// An older revision has the template, and becomes the newest by this number.
    Raise(Revision<'a>, i64),
    /// No revision has the bytes of the template. A new one gets this number, unless `newest` is another form of the same template.
    New {
        /// The number of a new revision.
        number: i64,
        /// The newest revision, if there is any.
        newest: Option<Revision<'a>>,
    },
}

/// The revisions of a workload, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History<'a>(Vec<Revision<'a>>);

impl<'a> History<'a> {
    /// Sorts the revisions of a workload: by number, of one number by age, then by name (upstream `SortControllerRevisions`).
    #[must_use]
    pub fn new(revisions: impl IntoIterator<Item = Revision<'a>>) -> Self {
        let mut all: Vec<Revision<'a>> = revisions.into_iter().collect();
        all.sort_by(|a, b| (a.number, a.created, a.name).cmp(&(b.number, b.created, b.name)));
        Self(all)
    }

    /// Returns the revisions, oldest first.
    #[must_use]
    pub fn revisions(&self) -> &[Revision<'a>] {
        &self.0
    }

    /// Returns the revision of this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<Revision<'a>> {
        self.0.iter().find(|revision| revision.name == name).copied()
    }

    /// Decides which revision the current template has: the newest revision with these bytes (upstream `getStatefulSetRevisions`).
    #[must_use]
    pub fn update(&self, template: Fingerprint) -> Update<'a> {
        let newest = self.0.last().copied();
        let number = newest.map_or(1, |newest| newest.number.saturating_add(1));
        match self.0.iter().rev().enumerate().find(|(_, revision)| revision.data == template) {
            Some((0, found)) => Update::Newest(*found),
            Some((_, found)) => Update::Raise(*found, number),
            None => Update::New { number, newest },
        }
    }

    /// Returns the other revisions of this template, oldest first: a workload keeps only the one that [`History::update`] finds (upstream `dedupCurHistories`).
    #[must_use]
    pub fn duplicates(&self, template: Fingerprint, kept: &str) -> Vec<Revision<'a>> {
        self.0.iter().filter(|revision| revision.data == template && revision.name != kept).copied().collect()
    }

    /// Returns the revisions beyond `limit` beside `current`, oldest first. Live revisions are counted, but not returned (upstream `cleanupHistory` of
    /// DaemonSets).
    #[must_use]
    pub fn surplus_beside(&self, current: &str, limit: usize, is_live: impl Fn(&str) -> bool) -> Vec<Revision<'a>> {
        let old: Vec<Revision<'a>> = self.0.iter().filter(|revision| revision.name != current).copied().collect();
        let most = old.len().saturating_sub(limit);
        old.into_iter().filter(|revision| !is_live(revision.name)).take(most).collect()
    }

    /// Returns the revisions beyond `limit`, oldest first. Live revisions are neither counted nor returned (upstream `truncateHistory` of StatefulSets).
    #[must_use]
    pub fn surplus(&self, limit: usize, is_live: impl Fn(&str) -> bool) -> Vec<Revision<'a>> {
        let mut old: Vec<Revision<'a>> = self.0.iter().filter(|revision| !is_live(revision.name)).copied().collect();
        old.truncate(old.len().saturating_sub(limit));
        old
    }
}
