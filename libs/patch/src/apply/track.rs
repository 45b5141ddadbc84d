//! Records ownership after a write other than apply (upstream `managedfields.Update`).

use std::sync::LazyLock;

use oarlock_meta::Time;
use oarlock_schema::{Obj, Str, Struct, Value};

use super::compare::{Comparison, compare_structs};
use super::create::{SERVER_FIELDS, fields_of_new};
use super::element::Element;
use super::managers::{Entry, Identity, Managers, clear, write_single};
use super::set::FieldSet;

/// The author of a write, and the endpoint of the write.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    /// The `fieldManager` of the request, or what [`manager_name`] makes of the user agent.
    pub manager: &'a str,
    /// The `apiVersion` of the request's body.
    pub api_version: &'a str,
    /// The subresource, empty for the object itself.
    pub subresource: &'a str,
    /// The endpoint's reset fields, dotted. The endpoint restores their stored values, so a writer never comes to own these fields.
    pub reset: &'a [&'a str],
    /// The time of the write.
    pub now: Time,
    /// The other versions of the kind, in which entries of other managers may be written.
    pub versions: Versions<'a>,
}

/// Converts an object into the form of another version; `None` when the kind has no such version.
type Convert<'a> = &'a dyn Fn(&Obj, &str) -> Option<Obj>;

/// The conversion of a kind's objects into its other versions.
#[derive(Clone, Copy, Default)]
pub struct Versions<'a>(Option<Convert<'a>>);

impl<'a> Versions<'a> {
    /// The conversion of a kind with one version.
    pub const ONE: Self = Self(None);

    /// Makes the conversion of a kind whose versions differ; the function takes an object and an `apiVersion`.
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
    /// Returns the time of a changed entry. Upstream loses the time when a write through Scale is recorded on the scaled object.
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

/// Returns the manager of a request: its `fieldManager`, or its user agent up to the first slash, printable characters only and at most 128 bytes.
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

static UNOWNED_FIELDS: LazyLock<FieldSet> = LazyLock::new(|| {
    let mut set = FieldSet::of_fields(&["apiVersion", "kind"]);
    for name in SERVER_FIELDS {
        set.insert(&[Element::Field("metadata".into()), Element::Field(name.into())]);
    }
    set
});

/// Returns the paths that no write through an endpoint comes to own.
pub(super) fn unowned_fields(reset: &[&str]) -> FieldSet {
    UNOWNED_FIELDS.union(&FieldSet::of_fields(reset))
}

/// Returns the changes without the paths that no manager owns.
fn owned(changes: Comparison, reset: &[&str]) -> Comparison {
    if changes.is_empty() {
        return changes;
    }
    changes.without(&UNOWNED_FIELDS).without(&FieldSet::of_fields(reset))
}

/// Records the owner of a new object. Must run after defaulting and before admission, as upstream does, so that no manager owns the fields that admission
/// adds.
pub fn track_create(obj: &mut Obj, writer: &Writer<'_>) {
    let requested = requested_managers(obj);
    clear(obj);
    if let RequestedManagers::Managers(managers) = requested {
        let zero = Obj::from_root(Struct::zero(obj.ty()));
        update(&zero, obj, managers, writer);
        return;
    }
    if let Some(fields) = fields_of_new(obj, writer.reset) {
        let who = writer.identity(writer.manager, false);
        write_single(obj, &who, writer.now, Str::from(fields));
    }
}

/// Records the owners after an update or a patch: the writer takes the fields that the write changed or added.
///
/// An object without any owners keeps none. A request may replace the owners by sending its own list, or clear
/// the owners by sending one empty entry; a request through a subresource may not.
pub fn track_update(live: &Obj, new: &mut Obj, writer: &Writer<'_>) {
    let requested = if writer.subresource.is_empty() { requested_managers(new) } else { RequestedManagers::Nothing };
    clear(new);
    let managers = match requested {
        RequestedManagers::Managers(managers) => managers,
        RequestedManagers::Reset => Managers::default(),
        RequestedManagers::Nothing => Managers::read(live).unwrap_or_default(),
    };
    if managers.entries.is_empty() {
        return;
    }
    update(live, new, managers, writer);
}

enum RequestedManagers {
    Managers(Managers),
    Reset,
    Nothing,
}

/// Reads the owners that the request sets.
fn requested_managers(obj: &Obj) -> RequestedManagers {
    let list = obj.at(&["metadata", "managedFields"]).map_or(&[][..], Value::items);
    if let [Value::Struct(one)] = list
        && one.is_empty()
    {
        return RequestedManagers::Reset;
    }
    match Managers::read(obj) {
        Some(managers) if !managers.entries.is_empty() => RequestedManagers::Managers(managers),
        _ => RequestedManagers::Nothing,
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

/// Takes changed fields from the entries that `of` selects, and returns these fields.
fn take(managers: &mut Managers, changes: &Comparison, of: impl Fn(&Identity) -> bool) -> FieldSet {
    if changes.is_empty() {
        return FieldSet::default();
    }
    let taken = changes.modified.union(&changes.added);
    let gone = taken.union(&changes.removed);
    subtract(managers, &gone, of);
    taken
}

/// Takes the changed fields from owners of another version, comparing the object's forms in that version.
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

/// Removes paths from the entries that `of` selects; entries without remaining fields are removed.
pub(super) fn subtract(managers: &mut Managers, paths: &FieldSet, of: impl Fn(&Identity) -> bool) {
    for entry in managers.entries.iter_mut().filter(|entry| of(&entry.who)) {
        if entry.touches(paths) {
            let rest = entry.set().difference(paths);
            entry.put(rest);
        }
    }
    managers.drop_empty();
}

/// Makes `manager` the owner of all fields of an object without owners.
pub(super) fn adopt(obj: &Obj, managers: &mut Managers, manager: &str, writer: &Writer<'_>) {
    let changes = owned(compare_structs(&Struct::zero(obj.ty()), obj), writer.reset);
    let taken = take(managers, &changes, |_| true);
    if !taken.is_empty() {
        managers.put(Entry::new(writer.identity(manager, false), Some(writer.now), taken));
    }
}
