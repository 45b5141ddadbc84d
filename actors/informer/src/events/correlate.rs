//! What becomes of a record: a new Event, one more of an old one, or nothing. The rules and numbers are those of client-go's correlator.

use std::collections::BTreeSet;
use std::hash::Hash;
use std::time::Duration;

use hashbrown::HashMap;
use oarlock_runtime::clock::Instant;
use oarlock_schema::Str;

use super::{EventType, ObjectRef};

/// What each of the memories holds at most.
const REMEMBERED: usize = 4096;
/// A source may tell so much about one object at once …
const BURST: u32 = 25;
/// … and then one more in this time.
const REFILL: Duration = Duration::from_secs(300);
/// More different messages than this for one reason, about one object, are combined …
const SIMILAR: usize = 10;
/// … if none comes later than this after the one before.
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);
/// Longer messages are cut.
const MESSAGE: usize = 1024;

/// What a component told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) about: ObjectRef,
    pub(super) kind: EventType,
    pub(super) reason: Str,
    pub(super) message: String,
    /// Seconds since 1970.
    pub(super) at: i64,
}

/// What to do about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing: too much was told about the object.
    Drop,
    /// A new Event.
    New {
        /// Its message.
        message: String,
    },
    /// One more of an Event.
    Again {
        /// The Event.
        name: String,
        /// How many with this one.
        count: u32,
        /// Its message from now on.
        message: String,
    },
}

/// Everything but the message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Group {
    about: ObjectRef,
    kind: EventType,
    reason: Str,
}

impl Group {
    fn of(record: &Record) -> Self {
        // The revision that was looked at does not make it another event.
        let about = ObjectRef { resource_version: Str::default(), ..record.about.clone() };
        Self { about, kind: record.kind, reason: record.reason.clone() }
    }
}

/// The group, and the message unless messages are combined.
type Identity = (Group, String);

#[derive(Default)]
pub(super) struct Correlator {
    buckets: Memory<ObjectRef, Bucket>,
    similar: Memory<Group, Similar>,
    written: Memory<Identity, (String, u32)>,
}

struct Bucket {
    tokens: u32,
    since: Instant,
}

struct Similar {
    messages: BTreeSet<String>,
    last: Instant,
}

impl Correlator {
    /// Decides about a record. What it decides becomes known by [`Correlator::wrote`].
    pub(super) fn take(&mut self, record: &Record, now: Instant) -> Outcome {
        let message = cut(&record.message);
        let group = Group::of(record);
        let combined = self.combine(&group, message, now);
        let message = if combined { format!("(combined from similar events): {message}") } else { message.to_owned() };
        if !self.admit(&group.about, now) {
            return Outcome::Drop;
        }
        match self.written.get(&identity(group, &message)) {
            Some((name, count)) => Outcome::Again { name: name.clone(), count: count.saturating_add(1), message },
            None => Outcome::New { message },
        }
    }

    /// An Event was written for a record: `count` of `name`.
    pub(super) fn wrote(&mut self, record: &Record, message: &str, name: &str, count: u32) {
        self.written.put(identity(Group::of(record), message), (name.to_owned(), count));
    }

    /// Whether the message is one of too many similar ones.
    fn combine(&mut self, group: &Group, message: &str, now: Instant) -> bool {
        match self.similar.get(group) {
            Some(similar) if now - similar.last < SIMILAR_WITHIN => {
                similar.last = now;
                if similar.messages.len() < SIMILAR {
                    similar.messages.insert(message.to_owned());
                    return false;
                }
                !similar.messages.contains(message)
            }
            _ => {
                let messages = BTreeSet::from([message.to_owned()]);
                self.similar.put(group.clone(), Similar { messages, last: now });
                false
            }
        }
    }

    fn admit(&mut self, about: &ObjectRef, now: Instant) -> bool {
        let Some(bucket) = self.buckets.get(about) else {
            self.buckets.put(about.clone(), Bucket { tokens: BURST - 1, since: now });
            return true;
        };
        while bucket.tokens < BURST && now - bucket.since >= REFILL {
            bucket.tokens += 1;
            bucket.since += REFILL;
        }
        if bucket.tokens == BURST {
            bucket.since = now;
        }
        bucket.tokens.checked_sub(1).map(|left| bucket.tokens = left).is_some()
    }
}

fn identity(group: Group, message: &str) -> Identity {
    let combined = message.starts_with("(combined from similar events): ");
    (group, if combined { String::new() } else { message.to_owned() })
}

fn cut(message: &str) -> &str {
    let mut end = message.len().min(MESSAGE);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message.get(..end).unwrap_or_default()
}

/// A map that forgets what was used longest ago.
struct Memory<K, V> {
    entries: HashMap<K, (u64, V)>,
    clock: u64,
}

impl<K, V> Default for Memory<K, V> {
    fn default() -> Self {
        Self { entries: HashMap::new(), clock: 0 }
    }
}

impl<K: Eq + Hash, V> Memory<K, V> {
    fn get(&mut self, key: &K) -> Option<&mut V> {
        self.clock += 1;
        let (used, value) = self.entries.get_mut(key)?;
        *used = self.clock;
        Some(value)
    }

    fn put(&mut self, key: K, value: V) {
        if self.entries.len() >= REMEMBERED {
            // A quarter at once, so that the search for the oldest is rare.
            let mut ages: Vec<u64> = self.entries.values().map(|(used, _)| *used).collect();
            let (_, limit, _) = ages.select_nth_unstable(REMEMBERED / 4);
            let limit = *limit;
            self.entries.retain(|_, (used, _)| *used > limit);
        }
        self.clock += 1;
        self.entries.insert(key, (self.clock, value));
    }
}
