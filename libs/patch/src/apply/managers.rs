//! `metadata.managedFields`: reads, limits and writes the entries of an object's field managers.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use oarlock_meta::Time;
use oarlock_schema::views::meta_v1::{ManagedFieldsEntry, ManagedFieldsEntryMut};
use oarlock_schema::{Obj, Str, Struct, Value, View};
use oarlock_seeded_bug::seeded_bug;

use super::set::FieldSet;
use super::wire;

/// The most Update entries that an object keeps; the oldest ones beyond are merged (upstream `DefaultMaxUpdateManagers`).
const MAX_UPDATERS: usize = 10;

/// The manager of merged old Update entries.
const ANCIENT_MANAGER: &str = "ancient-changes";

type Key<'a> = (&'a str, bool, &'a str, &'a str);

/// The identity of a managed-fields entry: manager, operation, version and subresource. For appliers the version is no part of the identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name of the manager.
    pub manager: Str,
    /// Whether the entry belongs to server-side apply; any other write otherwise.
    pub applied: bool,
    /// The `apiVersion` of the written form.
    pub api_version: Str,
    /// The subresource, empty for the object itself.
    pub subresource: Str,
}

impl Identity {
    fn same(&self, other: &Self) -> bool {
        self.key() == other.key()
    }

    /// Returns the parts that distinguish two identities, as a key for lookups.
    fn key(&self) -> Key<'_> {
        let version = if self.applied { "" } else { self.api_version.as_str() };
        (&self.manager, self.applied, version, &self.subresource)
    }

    /// Returns the text by which upstream sorts and finds managers: the entry as JSON.
    pub(super) fn sort_key(&self) -> String {
        let mut out = Vec::new();
        let text = |value: &str, out: &mut Vec<u8>| {
            oarlock_codec::json::encode_value(&Value::from(value), out);
        };
        out.extend_from_slice(b"{\"manager\":");
        text(&self.manager, &mut out);
        out.extend_from_slice(b",\"operation\":");
        text(if self.applied { "Apply" } else { "Update" }, &mut out);
        if !self.applied {
            out.extend_from_slice(b",\"apiVersion\":");
            text(&self.api_version, &mut out);
        }
        if !self.subresource.is_empty() {
            out.extend_from_slice(b",\"subresource\":");
            text(&self.subresource, &mut out);
        }
        out.push(b'}');
        String::from_utf8(out).unwrap_or_default()
    }
}

/// The fields of one manager. The set is parsed from its text only on first use.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The manager that owns the fields.
    pub who: Identity,
    /// The time of the manager's last change of a field; entries made by a no-op apply have none.
    pub time: Option<Time>,
    text: Option<Str>,
    set: Option<FieldSet>,
}

impl Entry {
    /// Makes an entry with a set.
    #[must_use]
    pub fn new(who: Identity, time: Option<Time>, set: FieldSet) -> Self {
        Self { who, time, text: None, set: Some(set) }
    }

    /// Returns the set; empty for an invalid text.
    #[must_use]
    pub fn set(&self) -> Cow<'_, FieldSet> {
        match (&self.set, &self.text) {
            (Some(set), _) => Cow::Borrowed(set),
            (None, Some(text)) => Cow::Owned(wire::decode(text).unwrap_or_default()),
            (None, None) => Cow::Owned(FieldSet::default()),
        }
    }

    /// Whether the set shares a path with `paths`.
    #[must_use]
    pub fn touches(&self, paths: &FieldSet) -> bool {
        match (&self.set, &self.text) {
            (Some(set), _) => set.touches(paths),
            (None, Some(text)) => wire::touches(text, paths),
            (None, None) => false,
        }
    }

    /// Replaces the set.
    pub fn put(&mut self, set: FieldSet) {
        self.text = None;
        self.set = Some(set);
    }

    fn is_empty(&self) -> bool {
        match (&self.set, &self.text) {
            (Some(set), _) => set.is_empty(),
            (None, text) => text.as_ref().is_none_or(|text| text == "{}"),
        }
    }

    fn text(&self) -> Str {
        match (&self.text, &self.set) {
            (Some(text), _) => text.clone(),
            (None, Some(set)) => wire::encode(set),
            (None, None) => Str::const_new("{}"),
        }
    }
}

/// The entry into which old entries of one version are merged.
struct Bucket {
    /// The position of the entry that receives the others.
    into: usize,
    /// The time of the newest of the merged entries.
    time: Option<Time>,
    /// The field sets of the merged entries, united at the end: adding one entry at a time to a growing set would cost the square of the number of entries.
    sets: Vec<FieldSet>,
}

/// Returns the last entry of each identity, in its position. A request may list any number of entries, so identities are looked up in a set.
fn last_of_each(entries: Vec<Entry>) -> Vec<Entry> {
    if seeded_bug!("managers_by_search") {
        let mut kept: Vec<Entry> = Vec::new();
        for entry in entries {
            kept.retain(|have| !have.who.same(&entry.who));
            kept.push(entry);
        }
        return kept;
    }
    let mut seen = HashSet::with_capacity(entries.len());
    let last: Vec<bool> = entries.iter().rev().map(|entry| seen.insert(entry.who.key())).collect();
    let mut last = last.into_iter().rev();
    drop(seen);
    let mut entries = entries;
    entries.retain(|_| last.next().unwrap_or_default());
    entries
}

/// All field managers of an object.
#[derive(Debug, Clone, Default)]
pub struct Managers {
    /// One entry per identity.
    pub entries: Vec<Entry>,
}

impl Managers {
    /// Reads `metadata.managedFields`; `None` when an entry is malformed, in which case upstream drops all entries.
    #[must_use]
    pub fn read(obj: &Obj) -> Option<Self> {
        let list = obj.at(&["metadata", "managedFields"]).map_or(&[][..], Value::items);
        let mut entries = Vec::with_capacity(list.len());
        for item in list {
            let entry = ManagedFieldsEntry::of(item.as_struct()?)?;
            let applied = match entry.operation() {
                "Apply" => true,
                "Update" => false,
                _ => return None,
            };
            if entry.api_version().is_empty() || entry.fields_type() != "FieldsV1" {
                return None;
            }
            let who = Identity {
                manager: entry.manager().into(),
                applied,
                api_version: entry.api_version().into(),
                subresource: entry.subresource().into(),
            };
            let time = item.get("time").and_then(Value::as_str).and_then(|text| Time::parse(text).ok());
            let text = item.get("fieldsV1").and_then(Value::as_str).map(Str::new);
            if let Some(text) = &text
                && !text.starts_with('{')
                && text != "null"
            {
                return None;
            }
            entries.push(Entry { who, time, text, set: None });
        }
        Some(Self { entries: last_of_each(entries) })
    }

    /// Returns the entry of an identity.
    #[must_use]
    pub fn get(&self, who: &Identity) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.who.same(who))
    }

    /// Sets the entry of an identity.
    pub fn put(&mut self, entry: Entry) {
        match self.entries.iter_mut().find(|have| have.who.same(&entry.who)) {
            Some(have) => *have = entry,
            None => self.entries.push(entry),
        }
    }

    /// Removes entries without fields.
    pub fn drop_empty(&mut self) {
        self.entries.retain(|entry| !entry.is_empty());
    }

    /// Merges the oldest Update entries, per version, until at most ten remain.
    pub fn cap(&mut self) {
        let mut updaters: Vec<usize> =
            self.entries.iter().enumerate().filter(|(_, entry)| !entry.who.applied).map(|(at, _)| at).collect();
        if updaters.len() <= MAX_UPDATERS {
            return;
        }
        let seconds = |entry: &Entry| entry.time.map_or(0, Time::unix);
        updaters.sort_by_key(|at| self.entries.get(*at).map(|entry| (seconds(entry), entry.who.sort_key())));
        let ancient: HashMap<Str, usize> = self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| {
                !entry.who.applied && entry.who.manager == ANCIENT_MANAGER && entry.who.subresource.is_empty()
            })
            .map(|(at, entry)| (entry.who.api_version.clone(), at))
            .collect();
        let mut left = updaters.len();
        let mut buckets: HashMap<Str, Bucket> = HashMap::new();
        let mut gone = vec![false; self.entries.len()];
        for at in updaters {
            if left <= MAX_UPDATERS {
                break;
            }
            let Some(entry) = self.entries.get(at) else { continue };
            let version = &entry.who.api_version;
            let Some(bucket) = buckets.get_mut(version) else {
                // The first entry of a version becomes its bucket when a second one joins, unless a bucket of an earlier merge exists.
                let into = ancient.get(version).copied().unwrap_or(at);
                buckets.insert(version.clone(), Bucket { into, time: None, sets: Vec::new() });
                continue;
            };
            bucket.time = entry.time;
            if at != bucket.into {
                bucket.sets.push(entry.set().into_owned());
                if let Some(gone) = gone.get_mut(at) {
                    *gone = true;
                }
            }
            left -= 1;
        }
        for (version, mut bucket) in buckets {
            let Some(entry) =
                self.entries.get_mut(bucket.into).filter(|_| bucket.time.is_some() || !bucket.sets.is_empty())
            else {
                continue;
            };
            bucket.sets.push(entry.set().into_owned());
            let (manager, subresource) = (Str::const_new(ANCIENT_MANAGER), Str::const_new(""));
            let who = Identity { manager, applied: false, api_version: version, subresource };
            *entry = Entry::new(who, bucket.time, FieldSet::union_of(bucket.sets));
        }
        let mut gone = gone.into_iter();
        self.entries.retain(|_| !gone.next().unwrap_or_default());
    }

    /// Writes `metadata.managedFields` in upstream's order: Apply before Update, then by time, manager, version and
    /// subresource.
    pub fn write(&mut self, obj: &mut Obj) {
        self.entries.sort_by(|a, b| {
            let key = |entry: &Entry| (!entry.who.applied, entry.time.map_or(0, Time::unix));
            key(a).cmp(&key(b)).then_with(|| {
                (&a.who.manager, &a.who.api_version, &a.who.subresource).cmp(&(
                    &b.who.manager,
                    &b.who.api_version,
                    &b.who.subresource,
                ))
            })
        });
        let list = self.entries.iter().map(|entry| row(&entry.who, entry.time, entry.text())).collect();
        set_list(obj, list);
    }
}

/// Writes the only entry of a new object.
pub(super) fn write_single(obj: &mut Obj, who: &Identity, time: Time, fields: Str) {
    set_list(obj, vec![row(who, Some(time), fields)]);
}

/// Removes `metadata.managedFields`.
pub(super) fn clear(obj: &mut Obj) {
    if let Some(meta) = obj.get_mut("metadata").and_then(Value::as_struct_mut) {
        meta.remove_name("managedFields");
    }
}

fn set_list(obj: &mut Obj, rows: Vec<Struct>) {
    clear(obj);
    if !rows.is_empty() {
        obj.set_at(&["metadata", "managedFields"], rows.into_iter().map(Value::Struct).collect::<Value>());
    }
}

fn row(who: &Identity, time: Option<Time>, fields: Str) -> Struct {
    let mut node = Struct::with_capacity(<ManagedFieldsEntry<'_> as View<'_>>::TYPE, 7);
    let mut entry = ManagedFieldsEntryMut::new(&mut node);
    entry.set_manager(who.manager.clone());
    entry.set_operation(if who.applied { "Apply" } else { "Update" });
    entry.set_api_version(who.api_version.clone());
    entry.set_fields_type("FieldsV1");
    if !who.subresource.is_empty() {
        entry.set_subresource(who.subresource.clone());
    }
    if let Some(time) = time {
        node.set_name("time", Value::Str(compact_str::format_compact!("{time}")));
    }
    node.set_name("fieldsV1", Value::Str(fields));
    node
}
