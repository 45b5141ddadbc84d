//! What a history is made of: one JSON object per line.
//!
//! Times are nanoseconds on one monotonic clock. Keys are opaque (`configmaps/default/a`); a prefix (`configmaps/default/`) is the beginning
//! of keys. Bodies are hashes, compared as they are, of objects without their revision.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Labels of an object, or those that a selector wants.
pub type Labels = BTreeMap<String, String>;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    /// What the records below cover; once.
    Truth(Truth),
    /// One write in the log.
    Record(Record),
    /// History up to a revision may be gone.
    Floor(Floor),
    /// A client's call.
    Call(Call),
    /// A watch begins, or goes on at another server or after a break.
    Watch(Open),
    /// What a watch said.
    Event(Event),
    /// A watch was given up by its client.
    End(End),
    /// A write that was made under a claim.
    Claim(Claim),
}

/// What the records cover.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// Records up to here are the state at this revision; those above are every write.
    pub after: u64,
    /// The log was read up to here.
    pub through: u64,
    /// Prefixes to which nobody else wrote.
    #[serde(default)]
    pub own: Vec<String>,
}

/// One write in the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Its place in the total order.
    pub revision: u64,
    /// What was written.
    pub key: String,
    /// The revision it replaced; none: there was nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prev: Option<u64>,
    /// Hash of what was written; none: a delete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The mark of the call that wrote it, found in the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The object's labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

/// History up to `revision` may be gone from `at` on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Floor {
    /// The oldest revision from which a watch can still be asked for.
    pub revision: u64,
    /// Since when.
    #[serde(default)]
    pub at: u64,
}

/// What a call asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Of a key that is not there.
    Create,
    /// Of a key that is there.
    Update,
    /// Of a key that is there.
    Delete,
    /// One object.
    #[default]
    Get,
    /// A page of objects.
    List,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Done.
    Ok,
    /// Not done, and the server said why.
    Rejected,
    /// No answer, or one that leaves it open.
    #[default]
    Unknown,
}

/// Why it was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The key is there (409 `AlreadyExists`).
    Exists,
    /// The key is not there (404).
    Absent,
    /// The key was last written at another revision than `expect` (409 `Conflict`).
    Conflict,
    /// What was asked for is gone (410).
    Expired,
    /// Something that has nothing to do with the state (400, 403, 429, …).
    Other,
}

/// Of which moment a read wants to hear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// The most recent one (`resourceVersion` unset).
    #[default]
    Recent,
    /// Any that is not older (`resourceVersion=N`; 0: any at all).
    AtLeast(u64),
    /// Exactly this one.
    Exactly(u64),
}

/// A client's call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Who called.
    pub client: String,
    /// Which server was called.
    pub replica: String,
    /// What for.
    pub op: Op,
    /// Of which key; for a list, of which prefix.
    pub key: String,
    /// When it began.
    pub invoke: u64,
    /// When it ended. Without meaning when the outcome is unknown.
    #[serde(rename = "return", default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<u64>,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it was rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The revision at which a write wants its key to be; none: wherever it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<u64>,
    /// The revision of the answer: of the object, or of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// Hash of the object in the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// What a create or update left in the object: no other call has the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Of which moment a read wanted to hear.
    #[serde(default, skip_serializing_if = "is_default")]
    pub asked: Asked,
    /// Which part of which list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<Page>,
}

fn is_default(asked: &Asked) -> bool {
    *asked == Asked::default()
}

/// A page of a list; a list that is not paged has one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// Which list: all its pages have the same.
    pub id: String,
    /// Which page, from 0.
    pub page: u64,
    /// Whether another follows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// Labels that the objects have.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub selector: Labels,
    /// Key, revision and hash of each object, as they came.
    #[serde(default)]
    pub items: Vec<(String, u64, String)>,
}

/// A watch begins or goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// Which watch.
    pub watch: String,
    /// Whose.
    pub client: String,
    /// At which server.
    pub replica: String,
    /// What is watched: a prefix of keys.
    pub key: String,
    /// Labels that the objects have.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub selector: Labels,
    /// Events above this revision are wanted. Of a resume: the last revision that the watch has told.
    pub from: u64,
    /// When it was asked for.
    pub at: u64,
}

/// What an event says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// The object came into the selector's sight.
    Added,
    /// It changed in sight.
    #[default]
    Modified,
    /// It left, or was deleted; the body is the last one in sight.
    Deleted,
    /// Everything up to the revision has been told.
    Bookmark,
    /// What comes next is gone (410); the watch is over.
    Gone,
}

/// What a watch said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Which watch.
    pub watch: String,
    /// When it was heard.
    pub at: u64,
    /// What it says.
    pub told: Told,
    /// Of which key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// The event's revision; none for [`Told::Gone`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// Hash of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

/// The client of a watch leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Which watch.
    pub watch: String,
    /// When.
    pub at: u64,
    /// It waited long enough to have heard everything up to here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<u64>,
}

/// A write that a server has made under `Oarlock-Fence: unit@epoch`, as it tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// For which unit.
    pub unit: String,
    /// The revision at which the unit was assigned, as the writer believed.
    pub epoch: u64,
    /// Where the write is in the log.
    pub revision: u64,
    /// What was written, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Where a line stands: file and line, both from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Index among [`History::sources`].
    pub file: usize,
    /// Line in it.
    pub line: usize,
}

/// A line and where it stands.
#[derive(Clone, Debug)]
pub struct At<T> {
    /// The line.
    pub is: T,
    /// Where.
    pub place: Place,
}

/// One watch through all its resumes, in the order of its lines.
#[derive(Clone, Debug)]
pub struct Watch {
    /// How it began.
    pub open: At<Open>,
    /// What came after.
    pub steps: Vec<At<Step>>,
}

/// What happened to a watch.
#[derive(Clone, Debug)]
pub enum Step {
    /// It went on.
    Resume(Open),
    /// It said something.
    Event(Event),
    /// Its client left.
    End(End),
}

/// Where lines came from.
#[derive(Clone, Debug)]
pub struct Source {
    /// A file's name.
    pub name: String,
    /// Its lines, as evidence.
    pub lines: Vec<String>,
}

/// A sound history: what may be judged.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Where it was read.
    pub sources: Vec<Source>,
    /// What the records cover.
    pub truth: Truth,
    /// The log, as recorded.
    pub records: Vec<At<Record>>,
    /// Where it may begin.
    pub floors: Vec<At<Floor>>,
    /// The calls.
    pub calls: Vec<At<Call>>,
    /// The watches.
    pub watches: Vec<Watch>,
    /// What was written under claims.
    pub claims: Vec<At<Claim>>,
}

impl History {
    /// Whether a 410 at a moment, for what follows `from`, has a reason.
    pub(crate) fn gone(&self, from: u64, at: u64) -> bool {
        self.floors.iter().any(|floor| floor.is.at <= at && floor.is.revision > from)
    }
}

/// Whether an object with these labels is selected.
pub(crate) fn selects(selector: &Labels, labels: &Labels) -> bool {
    selector.iter().all(|(name, value)| labels.get(name) == Some(value))
}
