//! The spans that a commit adds to the life of its object: `commit`, and the root of a change that the commit ends (`docs/adr/0007-traces.md`).
//!
//! Only a commit that creates the object, raises its generation or removes it is part of a life. Status writes, writes without effect, dry runs and failed
//! writes are not, nor is the removal of an object whose change has ended, and neither are objects that are written all the time: Events, Leases and Assignments.

use oarlock_apis::last_change;
use oarlock_registry::key;
use oarlock_runtime::{Instant, clock};
use oarlock_schema::{Obj, RESOURCES, Resource, Str, Value};
use oarlock_seeded_bug::seeded_bug;
use oarlock_telemetry::traces::{self, Change, Step, Subject};

use super::Attempt;
use crate::large;
use crate::target::Target;

/// Kinds whose objects have no life, by group and plural: they are written all the time, and nobody waits for what comes of a write.
const WITHOUT_LIFE: [(&str, &str); 4] =
    [("", "events"), ("events.k8s.io", "events"), ("coordination.k8s.io", "leases"), ("oarlock.dev", "assignments")];

/// The most owners of an object that its `commit` is linked with.
const MAX_OWNERS: usize = 8;

/// What a commit does to its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Created,
    /// The generation rises.
    Changed,
    Removed,
}

/// A commit that is part of its object's life, from before the commit until its spans are recorded.
pub(super) struct LifeCommit {
    effect: Effect,
    /// `metadata.generation` after the commit; of a removed object the last one.
    generation: i64,
    began: Instant,
}

impl LifeCommit {
    /// Begins a commit after which the object has this generation, or is removed; `None` if the commit is no part of a life or tracing is off.
    pub(super) fn begin(attempt: &Attempt<'_>, generation: i64, removes: bool) -> Option<Self> {
        if !traces::recording() || !has_life(attempt.target.resource()) {
            return None;
        }
        let before = attempt.old.map(|old| old.meta().generation());
        let effect = effect(before, generation, removes)?;
        Some(Self { effect, generation, began: clock::now() })
    }

    /// Records the spans of a commit that has succeeded, and links the span of the request with the life.
    pub(super) fn done(self, attempt: &Attempt<'_>, uid: &str) {
        let (began, ended) = clock::walls(self.began, clock::now());
        let uid = if seeded_bug!("span_in_another_life") { first_owner(attempt).unwrap_or(uid) } else { uid };
        let subject = Subject {
            kind: attempt.target.resource().kind,
            namespace: attempt.target.namespace,
            name: attempt.object.as_ref().map_or(attempt.target.name, Obj::name),
            uid,
            generation: self.generation,
        };
        let change = subject.change();
        attempt.caller.changed(change.context());
        if let Some(old) = attempt.old.filter(|old| !last_change::has_ended(old)) {
            traces::record(|| self.left(subject, old).ended(ended));
        }
        if self.effect == Effect::Removed {
            return;
        }
        traces::record(|| {
            let owners = owners(attempt.object.as_ref()).filter_map(|owner| owner_change(attempt, owner));
            let step = owners.fold(Step::of(&change, "commit").about(&subject), |step, owner| {
                step.linked("owner", &owner.context())
            });
            let request = traces::current();
            let step = if request.is_valid() { step.linked("request", &request) } else { step };
            step.began(began).ended(ended)
        });
        // Nobody has to bring anything about for the object, so the commit is the whole change.
        if let Some(object) = attempt.object.as_ref().filter(|object| last_change::has_ended(object)) {
            traces::record(|| subject.root(last_change::verb(object)).began(began).ended(ended));
        }
    }

    /// Returns the root of the change before, which this commit ends before the change has reached what it asked for.
    fn left(&self, subject: Subject<'_>, old: &Obj) -> Step {
        let verb = last_change::verb(old);
        let root = Subject { generation: old.meta().generation(), ..subject }.root(verb);
        let root = match last_change::began(old) {
            Some(began) => root.began(began.into()),
            None => root,
        };
        match self.effect {
            Effect::Removed if verb == "delete" => root,
            Effect::Removed => root.failed("removed"),
            Effect::Created | Effect::Changed => root.attribute("oarlock.superseded", true),
        }
    }
}

/// Returns the owner references of an object, one for each UID.
fn owners(object: Option<&Obj>) -> impl Iterator<Item = &Value> {
    let owners = object.map_or(&[][..], |object| object.meta().owner_references().values());
    let owners = owners.get(..owners.len().min(MAX_OWNERS)).unwrap_or_default();
    let uid = |owner: &Value| owner.get("uid").and_then(Value::as_str).map(Str::new);
    let is_first = move |at: usize, owner: &Value| !owners.iter().take(at).any(|other| uid(other) == uid(owner));
    owners.iter().enumerate().filter(move |(at, owner)| is_first(*at, owner)).map(|(_, owner)| owner)
}

/// Returns the last change of an owner; its first one if the owner is not to be found, not in memory or large: to decode a large object takes longer than a
/// small request may.
fn owner_change(attempt: &Attempt<'_>, owner: &Value) -> Option<Change> {
    let text = |field| owner.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (version, kind, name, uid) = (text("apiVersion")?, text("kind")?, text("name")?, text("uid")?);
    let generation = || {
        let row = RESOURCES.iter().find(|row| row.kind == kind && row.group_version() == version)?;
        let namespace = if row.namespaced { attempt.target.namespace } else { "" };
        let entry = attempt
            .server
            .view()
            .get(&key::key(row, namespace, name)?)
            .filter(|entry| entry.uid == uid && !large::is_large_stored(entry.length()))?;
        Some(Target::new(row, "", namespace, name).decode(&entry).ok()?.meta().generation())
    };
    Some(Change::new(uid, generation().unwrap_or(1)))
}

/// The seeded bug `span_in_another_life`: returns the UID of the first owner.
fn first_owner<'a>(attempt: &'a Attempt<'_>) -> Option<&'a str> {
    owners(attempt.object.as_ref()).next()?.get("uid")?.as_str()
}

/// Whether objects of the resource have a life.
fn has_life(resource: &Resource) -> bool {
    !WITHOUT_LIFE.contains(&(resource.group, resource.plural))
}

/// Decides what a commit does to its object, by the generations before and after; `None` for a commit without effect on what the spec asks for.
fn effect(before: Option<i64>, after: i64, removes: bool) -> Option<Effect> {
    match before {
        None => Some(Effect::Created),
        Some(_) if removes => Some(Effect::Removed),
        Some(before) if after > before || seeded_bug!("span_of_no_change") => Some(Effect::Changed),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use oarlock_schema::resource;

    use super::*;

    #[test]
    fn a_commit_is_part_of_a_life_if_it_creates_removes_or_raises_the_generation() {
        for (before, after, removes, expected) in [
            (None, 1, false, Some(Effect::Created)),
            (None, 0, false, Some(Effect::Created)),
            (Some(1), 2, false, Some(Effect::Changed)),
            (Some(1), 1, false, None),
            (Some(0), 0, false, None),
            (Some(1), 1, true, Some(Effect::Removed)),
            (Some(0), 0, true, Some(Effect::Removed)),
        ] {
            assert_eq!(effect(before, after, removes), expected, "{before:?} {after} {removes}");
        }
    }

    #[test]
    fn what_is_written_all_the_time_has_no_life() {
        for (group, plural) in WITHOUT_LIFE {
            let row = RESOURCES.iter().find(|row| (row.group, row.plural) == (group, plural));
            assert!(!has_life(row.unwrap_or_else(|| panic!("the schema has no {plural} of {group:?}"))));
        }
        assert!(
            has_life(resource("", "v1", "pods").unwrap()) && has_life(resource("apps", "v1", "deployments").unwrap())
        );
    }
}
