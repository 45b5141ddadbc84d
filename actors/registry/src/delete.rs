//! The effect of a DELETE on an object: remove it, mark it as being deleted, or nothing (upstream: `rest.BeforeDelete` and the store's finalizer
//! rules). The decision is pure; the verb carries it out under compare-and-swap.

use std::collections::HashSet;

use oarlock_client::{DeleteOptions, Propagation};
use oarlock_meta::{GroupResource, Status};
use oarlock_schema::{Obj, Str, Value};

use crate::kind::{Grace, KindDef};

/// The effect of a deletion request.
#[derive(Clone, PartialEq, Debug)]
pub enum Plan {
    /// Remove the object now.
    Remove,
    /// Store this changed object (deletion timestamp, grace, finalizers).
    Mark(Box<Obj>),
    /// The object is being deleted already and this request changes nothing.
    Pending,
}

/// The finalizer that orphans dependents.
pub const ORPHAN: &str = "orphan";
/// The finalizer that waits for dependents.
pub const FOREGROUND: &str = "foregroundDeletion";

/// Decides what a deletion request does. `revision` is the revision of the stored object.
///
/// # Errors
/// 403 for an object that may never be deleted, 409 when a precondition does not hold.
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
        // The kind's default grace applies only to the first deletion.
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

/// The time of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Unix seconds.
    pub unix: i64,
    /// Formats Unix seconds as RFC 3339.
    pub format: fn(i64) -> String,
}

/// Decides about an object that is already being deleted: a further deletion may only shorten the grace.
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

/// Whether an updated object must be removed: its deletion has begun, its grace is zero and no finalizer is left.
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

/// Returns the finalizers after adding or removing those of the propagation; `None` when they do not change (upstream
/// `deletionFinalizersForGarbageCollection`). The propagation is the request's, else that of the object's finalizers, else the kind's default.
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

/// Checks the preconditions of a deletion against the stored object.
///
/// # Errors
/// 409 when the uid or the resourceVersion differs.
pub fn check_preconditions(kind: KindDef, obj: &Obj, revision: u64, ask: &DeleteOptions) -> Result<(), Status> {
    let resource = kind.resource;
    // Upstream checks two kinds in their storage and all others before: the error has another text, and names the kind instead of the resource.
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
