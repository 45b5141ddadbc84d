//! Ownership after a write that is no apply (upstream `managedfields.Update`).

use std::sync::LazyLock;

use oarlock_meta::Time;
use oarlock_schema::{Obj, Str, Struct, Value};

use super::compare::{Comparison, compare_structs};
use super::create::{SERVER_FIELDS, fields_of_new};
use super::element::Element;
use super::managers::{Entry, Identity, Managers, clear, write_single};
use super::set::FieldSet;

/// Who writes, and through which endpoint.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    /// The `fieldManager` of the request, or what [`manager_name`] makes of the user agent.
    pub manager: &'a str,
    /// The `apiVersion` of the request's body.
    pub api_version: &'a str,
    /// The subresource, empty for the object itself.
    pub subresource: &'a str,
    /// The endpoint's reset fields, dotted: what the endpoint puts back, nobody comes to own through it.
    pub reset: &'a [&'a str],
    /// When.
    pub now: Time,
    /// The other versions of the kind, in whose forms others may own fields.
    pub versions: Versions<'a>,
}

/// Converts an object into the form of another version; `None` when the kind has no such version.
type Convert<'a> = &'a dyn Fn(&Obj, &str) -> Option<Obj>;

/// How objects of a kind look in its other versions.
#[derive(Clone, Copy, Default)]
pub struct Versions<'a>(Option<Convert<'a>>);

impl<'a> Versions<'a> {
    /// A kind of one version.
    pub const ONE: Self = Self(None);

    /// A kind whose versions differ; the function takes an object and an `apiVersion`.
    #[must_use]
    pub const fn of(convert: Convert<'a>) -> Self {
        Self(Some(convert))
    }
}

impl std::fmt::Debug for Versions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "many" } else { "one" })
    }
}

impl Writer<'_> {
    /// The time of a changed entry. On the way from a Scale to the object behind it upstream loses it.
    fn stamp(&self) -> Option<Time> {
        (self.subresource != "scale").then_some(self.now)
    }

    pub(super) fn identity(&self, manager: &str, applied: bool) -> Identity {
        Identity {
            manager: Str::new(if manager.is_empty() { "unknown" } else { manager }),
            applied,
            api_version: self.api_version.into(),
            subresource: self.subresource.into(),
        }
    }
}

/// The manager of a request: its `fieldManager`, or its user agent up to the first slash, printable characters only and
/// at most 128 bytes.
#[must_use]
pub fn manager_name(field_manager: &str, user_agent: &str) -> Str {
    if !field_manager.is_empty() {
        return field_manager.into();
    }
    let head = user_agent.split('/').next().unwrap_or_default();
    let mut name = Str::const_new("");
    for c in head.chars().filter(|c| !c.is_control()) {
        if name.len() + c.len_utf8() > 128 {
            break;
        }
        name.push(c);
    }
    name
}

static NOBODYS: LazyLock<FieldSet> = LazyLock::new(|| {
    let mut set = FieldSet::of_fields(&["apiVersion", "kind"]);
    for name in SERVER_FIELDS {
        set.insert(&[Element::Field("metadata".into()), Element::Field(name.into())]);
    }
    set
});

/// The paths that no write through an endpoint comes to own.
pub(super) fn nobodys(reset: &[&str]) -> FieldSet {
    NOBODYS.union(&FieldSet::of_fields(reset))
}

/// The changes that somebody comes to own.
fn owned(changes: Comparison, reset: &[&str]) -> Comparison {
    if changes.is_empty() {
        return changes;
    }
    changes.without(&NOBODYS).without(&FieldSet::of_fields(reset))
}

/// Records the owner of a new object. Call it after defaulting and before admission, as upstream does, so that what
/// admission adds belongs to nobody.
pub fn track_create(obj: &mut Obj, writer: &Writer<'_>) {
    let given = given_managers(obj);
    clear(obj);
    if let Given::Managers(managers) = given {
        let zero = Obj::from_root(Struct::zero(obj.ty()));
        update(&zero, obj, managers, writer);
        return;
    }
    if let Some(fields) = fields_of_new(obj, writer.reset) {
        let who = writer.identity(writer.manager, false);
        write_single(obj, &who, writer.now, Str::from(fields));
    }
}

/// Records who owns what after an update or a patch: the writer takes the fields it changed or added.
///
/// An object that has no owners at all stays without. A request may replace the owners by sending its own list, or clear
/// them by sending one empty entry; through a subresource it may not.
pub fn track_update(live: &Obj, new: &mut Obj, writer: &Writer<'_>) {
    let given = if writer.subresource.is_empty() { given_managers(new) } else { Given::Nothing };
    clear(new);
    let managers = match given {
        Given::Managers(managers) => managers,
        Given::Reset => Managers::default(),
        Given::Nothing => Managers::read(live).unwrap_or_default(),
    };
    if managers.entries.is_empty() {
        return;
    }
    update(live, new, managers, writer);
}

enum Given {
    Managers(Managers),
    Reset,
    Nothing,
}

/// What the request says about owners.
fn given_managers(obj: &Obj) -> Given {
    let list = obj.at(&["metadata", "managedFields"]).map_or(&[][..], Value::items);
    if let [Value::Struct(one)] = list
        && one.is_empty()
    {
        return Given::Reset;
    }
    match Managers::read(obj) {
        Some(managers) if !managers.entries.is_empty() => Given::Managers(managers),
        _ => Given::Nothing,
    }
}

fn update(old: &Obj, new: &mut Obj, mut managers: Managers, writer: &Writer<'_>) {
    let changes = owned(compare_structs(old, new), writer.reset);
    take_elsewhere(&mut managers, old, new, writer);
    let one = writer.versions.0.is_none();
    let taken = take(&mut managers, &changes, |who| one || who.api_version == writer.api_version);
    if !taken.is_empty() {
        let who = writer.identity(writer.manager, false);
        let set = match managers.get(&who) {
            Some(entry) => taken.union(&entry.set()),
            None => taken,
        };
        managers.put(Entry::new(who, writer.stamp(), set));
    }
    managers.cap();
    managers.write(new);
}

/// Takes changed fields from the entries that `of` chooses, and gives them.
fn take(managers: &mut Managers, changes: &Comparison, of: impl Fn(&Identity) -> bool) -> FieldSet {
    if changes.is_empty() {
        return FieldSet::default();
    }
    let taken = changes.modified.union(&changes.added);
    let gone = taken.union(&changes.removed);
    subtract(managers, &gone, of);
    taken
}

/// Takes what changed from owners who wrote it in another version, by its paths there.
fn take_elsewhere(managers: &mut Managers, old: &Obj, new: &Obj, writer: &Writer<'_>) {
    let Some(convert) = writer.versions.0 else { return };
    let mut versions: Vec<Str> = managers.entries.iter().map(|entry| entry.who.api_version.clone()).collect();
    versions.retain(|version| version != writer.api_version);
    versions.sort();
    versions.dedup();
    for version in versions {
        let (Some(old), Some(new)) = (convert(old, &version), convert(new, &version)) else { continue };
        let changes = owned(compare_structs(&old, &new), writer.reset);
        let gone = changes.modified.union(&changes.added).union(&changes.removed);
        subtract(managers, &gone, |who| who.api_version == version);
    }
}

/// Removes paths from the entries that `of` chooses; entries that lose everything go.
pub(super) fn subtract(managers: &mut Managers, paths: &FieldSet, of: impl Fn(&Identity) -> bool) {
    for entry in managers.entries.iter_mut().filter(|entry| of(&entry.who)) {
        if entry.touches(paths) {
            let rest = entry.set().difference(paths);
            entry.put(rest);
        }
    }
    managers.drop_empty();
}

/// Makes `manager` the owner of everything an object without owners has.
pub(super) fn adopt(obj: &Obj, managers: &mut Managers, manager: &str, writer: &Writer<'_>) {
    let changes = owned(compare_structs(&Struct::zero(obj.ty()), obj), writer.reset);
    let taken = take(managers, &changes, |_| true);
    if !taken.is_empty() {
        managers.put(Entry::new(writer.identity(manager, false), Some(writer.now), taken));
    }
}
