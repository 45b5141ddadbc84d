//! What a DELETE does to an object: remove it, mark it, or nothing (upstream: `rest.BeforeDelete` and the store's finalizer rules).
//! A pure decision; the verb carries it out under compare-and-swap.

use std::collections::HashSet;

use oarlock_client::{DeleteOptions, Propagation};
use oarlock_meta::{GroupResource, Status};
use oarlock_schema::{Obj, Str, Value};

use crate::kind::{Grace, KindDef};

/// What is to be done.
#[derive(Clone, PartialEq, Debug)]
pub enum Plan {
    /// Remove the object now.
    Remove,
    /// Store this changed object (deletion timestamp, grace, finalizers).
    Mark(Box<Obj>),
    /// The deletion is already under way and this one changes nothing.
    Pending,
}

/// Finalizer that orphans dependents.
pub const ORPHAN: &str = "orphan";
/// Finalizer that waits for dependents.
pub const FOREGROUND: &str = "foregroundDeletion";

/// Decides. `revision` is the stored object's, `now` the time as RFC 3339 seconds with its Unix seconds.
///
/// # Errors
/// 403 for what may never be deleted, 409 when a precondition does not hold.
pub fn plan(kind: KindDef, obj: &Obj, revision: u64, ask: &DeleteOptions, now: Now) -> Result<Plan, Status> {
    if let Some(why) = kind.strategy.undeletable(obj) {
        return Err(Status::forbidden(&kind.resource.group_resource(), obj.name(), why));
    }
    check_preconditions(kind, obj, revision, ask)?;
    let meta = obj.meta();
    let deleting = !meta.deletion_timestamp().unwrap_or("").is_empty();
    let grace = kind.strategy.grace(obj, ask.grace_period_seconds);
    let finalizers = deletion_finalizers(kind, obj, ask.propagation);

    if deleting {
        // What the kind would give by default counts only once.
        let grace = match (grace, ask.grace_period_seconds) {
            (Grace::NotGraceful, _) => Grace::NotGraceful,
            (_, Some(asked)) => Grace::Seconds(if asked < 0 { 1 } else { asked }),
            (_, None) => Grace::Seconds(meta.deletion_grace_period_seconds().unwrap_or(0)),
        };
        return Ok(plan_again(kind, obj, grace, finalizers, now));
    }
    let mut marked = obj.clone();
    if let Some(list) = &finalizers {
        set_finalizers(&mut marked, list);
    }
    if kind.strategy.marks_first() {
        let at = (now.format)(now.unix);
        kind.strategy.begin_delete(&mut marked, &at);
        if let Some(mut meta) = marked.meta_mut() {
            meta.set_deletion_timestamp(at);
        }
        return Ok(Plan::Mark(Box::new(marked)));
    }
    let kept = !marked.meta().finalizers().is_empty() || kind.strategy.holds_deletion(obj);
    let seconds = match grace {
        Grace::Seconds(s) => s,
        Grace::NotGraceful => 0,
    };
    if seconds == 0 && !kept {
        return Ok(Plan::Remove);
    }
    mark(&mut marked, seconds, now);
    kind.strategy.begin_delete(&mut marked, &(now.format)(now.unix));
    Ok(Plan::Mark(Box::new(marked)))
}

/// The moment of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Unix seconds.
    pub unix: i64,
    /// Formats Unix seconds as RFC 3339.
    pub format: fn(i64) -> String,
}

/// A deletion of an object that is already being deleted: it may only shorten the grace.
fn plan_again(kind: KindDef, obj: &Obj, grace: Grace, finalizers: Option<Vec<Str>>, now: Now) -> Plan {
    let meta = obj.meta();
    let current = meta.deletion_grace_period_seconds().unwrap_or(0);
    let mut changed = obj.clone();
    if let Some(list) = &finalizers {
        set_finalizers(&mut changed, list);
    }
    let kept = !changed.meta().finalizers().is_empty() || kind.strategy.holds_deletion(obj);
    match grace {
        Grace::Seconds(asked) if asked < current => {
            if asked == 0 && !kept {
                return Plan::Remove;
            }
            mark(&mut changed, asked, now);
            Plan::Mark(Box::new(changed))
        }
        _ if current == 0 && !kept => Plan::Remove,
        _ if finalizers.is_some() => Plan::Mark(Box::new(changed)),
        _ => Plan::Pending,
    }
}

/// Whether an update leaves an object that must go: it is being deleted and nothing holds it any more.
#[must_use]
pub fn is_finished(kind: KindDef, obj: &Obj) -> bool {
    let meta = obj.meta();
    !meta.deletion_timestamp().unwrap_or("").is_empty()
        && meta.finalizers().is_empty()
        && meta.deletion_grace_period_seconds().unwrap_or(0) == 0
        && !kind.strategy.holds_deletion(obj)
}

fn mark(obj: &mut Obj, seconds: i64, now: Now) {
    let first = obj.meta().deletion_timestamp().unwrap_or("").is_empty();
    let generation = obj.meta().generation();
    if let Some(mut meta) = obj.meta_mut() {
        meta.set_deletion_timestamp((now.format)(now.unix + seconds)).set_deletion_grace_period_seconds(seconds);
        if first && generation > 0 {
            meta.set_generation(generation + 1);
        }
    }
}

/// Finalizers after adding or removing what the propagation asks for; `None` when they stay (upstream
/// `deletionFinalizersForGarbageCollection`). The request decides, else what the object already carries, else the kind.
fn deletion_finalizers(kind: KindDef, obj: &Obj, asked: Option<Propagation>) -> Option<Vec<Str>> {
    let default = kind.strategy.default_propagation()?;
    let current = obj.meta().finalizers();
    let carried = current.iter().find_map(|f| match f {
        ORPHAN => Some(Propagation::Orphan),
        FOREGROUND => Some(Propagation::Foreground),
        _ => None,
    });
    let add = match asked.or(carried).unwrap_or(default) {
        Propagation::Orphan => Some(ORPHAN),
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Background => None,
    };
    let mut list: Vec<Str> = current.iter().filter(|f| *f != ORPHAN && *f != FOREGROUND).map(Str::new).collect();
    list.extend(add.map(Str::new));
    let kept: HashSet<&str> = list.iter().map(Str::as_str).collect();
    let same = list.len() == current.len() && current.iter().all(|f| kept.contains(f));
    (!same).then_some(list)
}

fn set_finalizers(obj: &mut Obj, list: &[Str]) {
    if let Some(mut meta) = obj.meta_mut() {
        if list.is_empty() {
            meta.clear_finalizers();
        } else {
            meta.set_finalizers(list.iter().cloned().collect::<Value>());
        }
    }
}

/// Whether the object is the one that the caller means.
///
/// # Errors
/// 409 when it is not.
pub fn check_preconditions(kind: KindDef, obj: &Obj, revision: u64, ask: &DeleteOptions) -> Result<(), Status> {
    let resource = kind.resource;
    // Two kinds check in their storage, all others before it: other words, and the kind in place of the resource.
    let late = matches!(resource.plural, "namespaces" | "customresourcedefinitions");
    let about = if late { resource.group_resource() } else { GroupResource::new(resource.group, resource.kind) };
    let conflict = |text: String| Err(Status::conflict(&about, obj.name(), text));
    if let Some(uid) = &ask.uid {
        let have = obj.meta().uid();
        if have != uid.as_str() {
            return conflict(if late {
                format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {have}")
            } else {
                format!(
                    "the UID in the precondition ({uid}) does not match the UID in record ({have}). \
                     The object might have been deleted and then recreated"
                )
            });
        }
    }
    if let Some(rv) = ask.resource_version
        && rv.get() != revision
    {
        return conflict(if late {
            format!(
                "Precondition failed: ResourceVersion in precondition: {rv}, ResourceVersion in object meta: {revision}"
            )
        } else {
            format!(
                "the ResourceVersion in the precondition ({rv}) does not match the ResourceVersion in record ({revision}). \
                 The object might have been modified"
            )
        });
    }
    Ok(())
}
