//! The lines of a history: one JSON object each.
//!
//! Times are nanoseconds on one monotonic clock. Keys are opaque (`configmaps/default/a`); a prefix (`configmaps/default/`) is the beginning
//! of keys. Bodies are hashes, compared as they are, of objects without their revision.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Labels of an object, or those that a selector wants.
pub type Labels = BTreeMap<String, String>;

/// One line of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    /// The revisions and keys that the records cover; appears once.
    Truth(Truth),
    /// One write in the log.
    Record(Record),
    /// From some time on, history up to a revision may be compacted.
    Floor(Floor),
    /// A client's call.
    Call(Call),
    /// A watch begins, or resumes at another server or after a break.
    Watch(Open),
    /// An event that a watch delivered.
    Event(Event),
    /// The client ended a watch.
    End(End),
    /// A write that was made under a claim.
    Claim(Claim),
}

/// The revisions that the records cover.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// Records up to this revision are the state at it; those above are every write.
    pub after: u64,
    /// The revision up to which the log was read.
    pub through: u64,
    /// Prefixes below which only the recorded clients write.
    #[serde(default)]
    pub own: Vec<String>,
}

/// One write in the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The write's place in the total order.
    pub revision: u64,
    /// The key that was written.
    pub key: String,
    /// The replaced revision; `None` if the key was absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prev: Option<u64>,
    /// Hash of the written object; `None` for a delete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The tag of the call that made the write, found in the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The object's labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

/// History up to `revision` may be compacted from `at` on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Floor {
    /// The oldest revision from which a watch can still start.
    pub revision: u64,
    /// The time from which on the floor applies.
    #[serde(default)]
    pub at: u64,
}

/// The operation of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Creates an absent key.
    Create,
    /// Updates a present key.
    Update,
    /// Deletes a present key.
    Delete,
    /// Reads one object.
    #[default]
    Get,
    /// Reads a page of objects.
    List,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The call had its effect.
    Ok,
    /// The call had no effect; the server gave a reason.
    Rejected,
    /// No answer, or an answer that leaves the outcome open.
    #[default]
    Unknown,
}

/// The reason of a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The key is present (409 `AlreadyExists`).
    Exists,
    /// The key is absent (404).
    Absent,
    /// The key was last written at another revision than `expect` (409 `Conflict`).
    Conflict,
    /// The requested history is compacted (410).
    Expired,
    /// A reason that does not depend on the state (400, 403, 429, …).
    Other,
}

/// The state that a read asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// The most recent state (`resourceVersion` unset).
    #[default]
    Recent,
    /// Any state that is not older (`resourceVersion=N`; 0: any state).
    AtLeast(u64),
    /// The state at exactly this revision.
    Exactly(u64),
}

/// A client's call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The client.
    pub client: String,
    /// The called server.
    pub replica: String,
    /// The operation.
    pub op: Op,
    /// The key; for a list, the prefix.
    pub key: String,
    /// The time at which the call began.
    pub invoke: u64,
    /// The time at which the call ended. Without meaning when the outcome is unknown.
    #[serde(rename = "return", default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<u64>,
    /// The outcome.
    pub outcome: Outcome,
    /// The reason of a rejection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The revision that a write expects its key to have; `None`: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<u64>,
    /// The revision of the answer: of the object, or of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// Hash of the object in the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The tag that a create or update leaves in the object; no other call has the same tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The state that a read asked for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub asked: Asked,
    /// The page of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<Page>,
}

fn is_default(asked: &Asked) -> bool {
    *asked == Asked::default()
}

/// A page of a list; a list that is not paged has one page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// The list; all its pages have the same id.
    pub id: String,
    /// The number of the page, from 0.
    pub page: u64,
    /// Whether another page follows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// The labels that listed objects must have.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub selector: Labels,
    /// Key, revision and hash of each object, in the order of the answer.
    #[serde(default)]
    pub items: Vec<(String, u64, String)>,
}

/// A watch begins or resumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// The watch's name.
    pub watch: String,
    /// The client.
    pub client: String,
    /// The server.
    pub replica: String,
    /// The watched prefix of keys.
    pub key: String,
    /// The labels that watched objects must have.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub selector: Labels,
    /// The watch starts after this revision; for a resume: the last delivered revision.
    pub from: u64,
    /// The time of the request.
    pub at: u64,
}

/// The type of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventType {
    /// The object was created, or began to match the selector.
    Added,
    /// The object changed and matches the selector.
    #[default]
    Modified,
    /// The object was deleted, or stopped matching; the body is the last one that matched.
    Deleted,
    /// Everything up to the revision has been delivered.
    Bookmark,
    /// The next events are compacted (410); the watch has ended.
    Gone,
}

/// An event that a watch delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// The watch's name.
    pub watch: String,
    /// The time at which the client received the event.
    pub at: u64,
    /// The event's type.
    pub told: EventType,
    /// The object's key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// The event's revision; `None` for [`EventType::Gone`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// Hash of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

/// The end of a watch by its client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// The watch's name.
    pub watch: String,
    /// The time of the end.
    pub at: u64,
    /// The client waited long enough to have received all events up to this revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<u64>,
}

/// A write that a server has made under `Oarlock-Fence: unit@epoch`, as the server logged it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The unit.
    pub unit: String,
    /// The revision at which the unit was assigned, as the writer believed.
    pub epoch: u64,
    /// The write's revision.
    pub revision: u64,
    /// The written key, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The place of a line: file and line, both from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Index among [`History::sources`].
    pub file: usize,
    /// Index of the line in the source.
    pub line: usize,
}

/// A line and its place.
#[derive(Clone, Debug)]
pub struct At<T> {
    /// The line.
    pub is: T,
    /// The line's place.
    pub place: Place,
}

/// One watch through all its resumes, in the order of its lines.
#[derive(Clone, Debug)]
pub struct Watch {
    /// The first line of the watch.
    pub open: At<Open>,
    /// All later lines.
    pub steps: Vec<At<Step>>,
}

/// A later line of a watch.
#[derive(Clone, Debug)]
pub enum Step {
    /// The watch resumed.
    Resume(Open),
    /// The watch delivered an event.
    Event(Event),
    /// The client ended the watch.
    End(End),
}

/// A source of lines.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name of the file.
    pub name: String,
    /// The lines of the file, as evidence.
    pub lines: Vec<String>,
}

/// A well-formed history, which the rules can judge.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The sources of the history.
    pub sources: Vec<Source>,
    /// The revisions and keys that the records cover.
    pub truth: Truth,
    /// The log, as recorded.
    pub records: Vec<At<Record>>,
    /// The floors of the log: the revisions up to which history may be compacted.
    pub floors: Vec<At<Floor>>,
    /// The calls.
    pub calls: Vec<At<Call>>,
    /// The watches.
    pub watches: Vec<Watch>,
    /// The writes under claims.
    pub claims: Vec<At<Claim>>,
}

impl History {
    /// Whether a 410 at time `at`, for events after `from`, is justified.
    pub(crate) fn gone(&self, from: u64, at: u64) -> bool {
        self.floors.iter().any(|floor| floor.is.at <= at && floor.is.revision > from)
    }
}

/// Whether a selector matches an object with these labels.
pub(crate) fn selects(selector: &Labels, labels: &Labels) -> bool {
    selector.iter().all(|(name, value)| labels.get(name) == Some(value))
}
