//! Decides whether a record becomes a new Event, a repetition of an earlier Event, or is dropped. The rules and numbers are those of client-go's correlator.

use std::collections::BTreeSet;
use std::hash::Hash;
use std::time::Duration;

use hashbrown::HashMap;
use oarlock_runtime::clock::Instant;
use oarlock_schema::Str;

use super::{EventType, ObjectRef};

/// The most entries of each memory; when full, the least recently used quarter is dropped.
const MEMORY_ENTRIES: usize = 4096;
/// The most records about one object that are accepted in a burst.
const BURST: u32 = 25;
/// The time after which one more record about the object is accepted.
const REFILL_INTERVAL: Duration = Duration::from_secs(300);
/// The number of different messages of one object, type and reason beyond which further messages are combined into one Event.
const SIMILAR_MESSAGES: usize = 10;
/// The longest pause between two messages that are counted together for combining.
const SIMILAR_INTERVAL: Duration = Duration::from_secs(600);
/// The length in bytes to which messages are cut.
const MESSAGE_BYTES: usize = 1024;

/// One call of a recorder: what happened to which object, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) about: ObjectRef,
    pub(super) kind: EventType,
    pub(super) reason: Str,
    pub(super) message: String,
    /// Seconds since 1970.
    pub(super) at: i64,
}

/// What to do with a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Drop the record: too many were made about the object.
    Drop,
    /// Create an Event.
    New {
        /// The Event's message.
        message: String,
    },
    /// Increase the count of an earlier Event.
    Repeat {
        /// The name of the Event.
        name: String,
        /// The count including this record.
        count: u32,
        /// The Event's new message.
        message: String,
    },
}

/// The properties of a record that similar records share: all but the message and the time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Group {
    about: ObjectRef,
    kind: EventType,
    reason: Str,
}

impl Group {
    fn of(record: &Record) -> Self {
        // Records about different revisions of one object are the same event.
        let about = ObjectRef { resource_version: Str::default(), ..record.about.clone() };
        Self { about, kind: record.kind, reason: record.reason.clone() }
    }
}

/// The identity of an Event: the group, and the message unless messages are combined.
type Identity = (Group, String);

/// Decides about records, with bounded memories of rates, similar messages and written Events.
#[derive(Default)]
pub(super) struct Correlator {
    buckets: Memory<ObjectRef, Bucket>,
    similar: Memory<Group, Similar>,
    written: Memory<Identity, (String, u32)>,
}

/// The token bucket that limits the records about one object.
struct Bucket {
    tokens: u32,
    since: Instant,
}

/// The different messages of one group of records, and the time of the last one.
struct Similar {
    messages: BTreeSet<String>,
    last: Instant,
}

impl Correlator {
    /// Decides about a record. The caller reports a written Event by [`Correlator::wrote`].
    pub(super) fn take(&mut self, record: &Record, now: Instant) -> Outcome {
        let message = cut(&record.message);
        let group = Group::of(record);
        let combined = self.combine(&group, message, now);
        let message = if combined { format!("(combined from similar events): {message}") } else { message.to_owned() };
        if !self.admit(&group.about, now) {
            return Outcome::Drop;
        }
        match self.written.get(&identity(group, &message)) {
            Some((name, count)) => Outcome::Repeat { name: name.clone(), count: count.saturating_add(1), message },
            None => Outcome::New { message },
        }
    }

    /// Remembers that the Event `name` was written for a record, with `count`.
    pub(super) fn wrote(&mut self, record: &Record, message: &str, name: &str, count: u32) {
        self.written.put(identity(Group::of(record), message), (name.to_owned(), count));
    }

    /// Whether the message must be combined with similar ones, because there are too many.
    fn combine(&mut self, group: &Group, message: &str, now: Instant) -> bool {
        match self.similar.get(group) {
            Some(similar) if now - similar.last < SIMILAR_INTERVAL => {
                similar.last = now;
                if similar.messages.len() < SIMILAR_MESSAGES {
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
        while bucket.tokens < BURST && now - bucket.since >= REFILL_INTERVAL {
            bucket.tokens += 1;
            bucket.since += REFILL_INTERVAL;
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
    let mut end = message.len().min(MESSAGE_BYTES);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message.get(..end).unwrap_or_default()
}

/// A bounded map that drops the least recently used entries.
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
        if self.entries.len() >= MEMORY_ENTRIES {
            // Dropping a quarter at once makes the search for the oldest entries rare.
            let mut ages: Vec<u64> = self.entries.values().map(|(used, _)| *used).collect();
            let (_, limit, _) = ages.select_nth_unstable(MEMORY_ENTRIES / 4);
            let limit = *limit;
            self.entries.retain(|_, (used, _)| *used > limit);
        }
        self.clock += 1;
        self.entries.insert(key, (self.clock, value));
    }
}
