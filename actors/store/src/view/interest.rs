//! Interests: a cheap test of which watchers an event can concern, before any work per watcher.
//!
//! A thousand kubelets each watch the pods of one node. If every pod event woke all of them, fan-out would cost a thousand wake-ups per write. So
//! watchers with an equal interest form a group with a list of the ring positions that touch it; an event is posted to the few groups it touches, and
//! only their watchers wake.

use std::collections::VecDeque;
use std::sync::Arc;

use compact_str::CompactString;
use hashbrown::HashMap;
use oarlock_storage::Key;
use tokio::sync::Notify;

use super::ring::Ring;
use crate::entry::Entry;
use crate::event::Event;

/// The set of objects that a watcher wants events of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Interest {
    /// Every object of the resource.
    All,
    /// The objects of one namespace.
    Namespace(CompactString),
    /// One object.
    Object {
        /// The object's namespace; empty for a cluster-scoped object.
        namespace: CompactString,
        /// The object's name.
        name: CompactString,
    },
    /// The objects with this value in a selectable field, before or after a write.
    Field {
        /// The name of the field, such as `spec.nodeName`.
        field: CompactString,
        /// The field's value.
        value: CompactString,
    },
}

impl Interest {
    /// Whether an event may concern this watcher.
    #[must_use]
    pub fn touches(&self, event: &Event) -> bool {
        let key = &event.entry.key;
        match self {
            Self::All => true,
            Self::Namespace(namespace) => key.namespace() == namespace,
            Self::Object { namespace, name } => key.namespace() == namespace && key.name() == name,
            Self::Field { field, value } => {
                let has = |entry: &Entry| entry.field(field) == Some(value);
                has(&event.entry) || event.prev.as_deref().is_some_and(has)
            }
        }
    }
}

/// The watchers of one interest, and the ring positions of the events that touch it.
#[derive(Debug)]
pub(super) struct Group {
    notify: Arc<Notify>,
    members: usize,
    /// Positions at or above `from`; those below the ring's base are removed lazily.
    posts: VecDeque<u64>,
    from: u64,
    /// The highest posted position that has left the ring.
    lost: Option<u64>,
    /// The number of the round that last woke this group.
    woken: u64,
}

/// A cursor's position relative to its group's posts.
pub(super) enum CursorPosition {
    /// The ring's tail has passed an event that this watcher had not received.
    Lost,
    /// The next positions to read, and the position to continue from.
    At(Vec<u64>, u64),
}

impl Group {
    fn new(from: u64) -> Self {
        Self { notify: Arc::default(), members: 0, posts: VecDeque::new(), from, lost: None, woken: 0 }
    }

    fn shed(&mut self, base: u64) {
        while let Some(post) = self.posts.front().copied().filter(|post| *post < base) {
            self.lost = Some(post);
            self.posts.pop_front();
        }
    }

    /// Returns up to `max` posted positions at or above `next`.
    pub(super) fn cursor_position(&self, next: u64, ring: &Ring, max: usize) -> CursorPosition {
        let at = self.posts.partition_point(|post| *post < next);
        let first = self.posts.get(at).copied();
        if self.lost.is_some_and(|lost| lost >= next) || first.is_some_and(|first| first < ring.base()) {
            return CursorPosition::Lost;
        }
        let posts: Vec<u64> = self.posts.range(at..).take(max).copied().collect();
        let more = self.posts.len() - at > posts.len();
        let resume = if more { posts.last().map_or(next, |last| last + 1) } else { ring.end() };
        CursorPosition::At(posts, resume)
    }
}

/// All groups of one resource.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: HashMap<Interest, Group, foldhash::fast::FixedState>,
    /// The number of groups by namespace, by object and by field, so that lookups of unused types are skipped.
    namespaces: usize,
    objects: usize,
    fields: Vec<CompactString>,
    /// Counts rounds of posting, so that a group is woken at most once per round.
    round: u64,
}

impl Groups {
    /// Adds a watcher that starts at `next`; returns the notifier that wakes it.
    pub(super) fn join(&mut self, interest: &Interest, next: u64, ring: &Ring) -> Arc<Notify> {
        if !self.groups.contains_key(interest) {
            match interest {
                Interest::All => {}
                Interest::Namespace(_) => self.namespaces += 1,
                Interest::Object { .. } => self.objects += 1,
                Interest::Field { field, .. } if self.fields.contains(field) => {}
                Interest::Field { field, .. } => self.fields.push(field.clone()),
            }
        }
        let group = self.groups.entry(interest.clone()).or_insert_with(|| Group::new(ring.end()));
        group.members += 1;
        if *interest != Interest::All && next < group.from {
            let touched = |(number, event): (u64, &Arc<Event>)| interest.touches(event).then_some(number);
            let earlier = (next..).zip(ring.range(next, group.from)).filter_map(touched);
            let mut posts: VecDeque<u64> = earlier.collect();
            posts.append(&mut group.posts);
            group.posts = posts;
            group.from = next;
        }
        Arc::clone(&group.notify)
    }

    /// Removes a watcher.
    pub(super) fn leave(&mut self, interest: &Interest) {
        let Some(group) = self.groups.get_mut(interest) else { return };
        group.members -= 1;
        if group.members > 0 {
            return;
        }
        self.groups.remove(interest);
        match interest {
            Interest::All => {}
            Interest::Namespace(_) => self.namespaces -= 1,
            Interest::Object { .. } => self.objects -= 1,
            Interest::Field { field, .. } => {
                let same = |other: &Interest| matches!(other, Interest::Field { field: f, .. } if f == field);
                if !self.groups.keys().any(same) {
                    self.fields.retain(|f| f != field);
                }
            }
        }
    }

    /// Returns the position of a watcher of this interest; [`Interest::All`] needs no posts.
    pub(super) fn cursor_position(&self, interest: &Interest, next: u64, ring: &Ring, max: usize) -> CursorPosition {
        if *interest == Interest::All {
            if next < ring.base() {
                return CursorPosition::Lost;
            }
            let resume = ring.end().min(next + max as u64);
            return CursorPosition::At((next..resume).collect(), resume.max(next));
        }
        self.groups.get(interest).map_or(CursorPosition::Lost, |group| group.cursor_position(next, ring, max))
    }

    /// Begins a round: a group touched by several events of one round is woken once.
    pub(super) fn begin_round(&mut self) {
        self.round += 1;
    }

    /// Posts an event to the groups it touches and collects the notifiers to wake.
    pub(super) fn post(&mut self, number: u64, event: &Event, base: u64, wake: &mut Vec<Arc<Notify>>) {
        if self.groups.is_empty() {
            return;
        }
        let key = &event.entry.key;
        self.post_to(&Interest::All, number, base, wake);
        if self.namespaces > 0 {
            self.post_to(&Interest::Namespace(key.namespace().into()), number, base, wake);
        }
        if self.objects > 0 {
            self.post_to(&object(key), number, base, wake);
        }
        let fields = std::mem::take(&mut self.fields);
        for field in &fields {
            let now = event.entry.field(field).map(CompactString::from);
            let before = event.prev.as_ref().and_then(|prev| prev.field(field)).map(CompactString::from);
            if let Some(value) = before.filter(|before| now.as_ref() != Some(before)) {
                self.post_to(&Interest::Field { field: field.clone(), value }, number, base, wake);
            }
            if let Some(value) = now {
                self.post_to(&Interest::Field { field: field.clone(), value }, number, base, wake);
            }
        }
        self.fields = fields;
    }

    fn post_to(&mut self, interest: &Interest, number: u64, base: u64, wake: &mut Vec<Arc<Notify>>) {
        let Some(group) = self.groups.get_mut(interest) else { return };
        if *interest != Interest::All {
            group.shed(base);
            group.posts.push_back(number);
        }
        if group.woken != self.round {
            group.woken = self.round;
            wake.push(Arc::clone(&group.notify));
        }
    }

    /// Returns the notifiers of all groups, for a reset.
    pub(super) fn everybody(&self) -> Vec<Arc<Notify>> {
        self.groups.values().map(|group| Arc::clone(&group.notify)).collect()
    }

    /// Marks everything below `base` as lost for all groups, because a reset leaves a hole in the history.
    pub(super) fn reset(&mut self, base: u64) {
        for group in self.groups.values_mut() {
            group.shed(base);
            group.lost = base.checked_sub(1);
        }
    }
}

fn object(key: &Key) -> Interest {
    Interest::Object { namespace: key.namespace().into(), name: key.name().into() }
}
