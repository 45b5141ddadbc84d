//! Translates the managers of a workload's `spec.replicas` into managers of its Scale, and back (upstream `managedfields.ScaleHandler`).

use std::collections::HashSet;

use oarlock_patch::apply::{Element, Entry, FieldSet, Identity, Managers};
use oarlock_schema::{Obj, Str};

use crate::ownership::SCALE;
use crate::target::Target;

/// Returns the versions in which managers may have written a workload of this kind. Upstream still recognizes versions that it no longer serves.
fn versions(target: &Target<'_>) -> &'static [&'static str] {
    match (target.resource().group, target.resource().plural) {
        ("apps", "replicasets") => &["apps/v1", "apps/v1beta2"],
        ("apps", _) => &["apps/v1", "apps/v1beta2", "apps/v1beta1"],
        _ => &["v1"],
    }
}

/// Returns the path of `spec.replicas`, which is the same in each of the versions and in Scale.
fn path() -> [Element; 2] {
    ["spec", "replicas"].map(|name| Element::Field(name.into()))
}

fn replicas() -> FieldSet {
    FieldSet::of_fields(&["spec.replicas"])
}

/// Copies the workload's managers that own its replicas into the Scale.
pub(super) fn to_scale(target: &Target<'_>, parent: &Obj, scale: &mut Obj) {
    let mut shown = Managers::default();
    let known = versions(target);
    for entry in Managers::read(parent).unwrap_or_default().entries {
        if known.contains(&entry.who.api_version.as_str()) && entry.set().has(&path()) {
            let who = Identity { api_version: Str::const_new(SCALE), ..entry.who };
            shown.entries.push(Entry::new(who, entry.time, replicas()));
        }
    }
    shown.write(scale);
}

/// Copies the managers of the written Scale into the workload, which still has its former managers. As upstream, an Update of the workload and an
/// Update of its Scale are different entries even for one manager, and the entry from the Scale loses its time. Apply entries of one manager are the
/// same whatever their version.
pub(super) fn to_parent(target: &Target<'_>, scale: &Obj, parent: &mut Obj) {
    let given = Managers::read(scale).unwrap_or_default().entries;
    let (known, own) = (versions(target), target.resource().group_version());
    let applier = |who: &Identity| who.applied.then(|| (who.manager.clone(), who.subresource.clone()));
    let appliers: HashSet<(Str, Str)> = given.iter().filter_map(|entry| applier(&entry.who)).collect();
    let (mut kept, mut stayed) = (Managers::default(), HashSet::new());
    for mut entry in Managers::read(parent).unwrap_or_default().entries {
        if !known.contains(&entry.who.api_version.as_str()) {
            continue;
        }
        if entry.set().has(&path()) {
            match applier(&entry.who).filter(|who| appliers.contains(who)) {
                Some(who) => drop(stayed.insert(who)),
                None => {
                    let rest = entry.set().difference(&replicas());
                    entry.put(rest);
                }
            }
        }
        if !entry.set().is_empty() {
            kept.entries.push(entry);
        }
    }
    for entry in given.into_iter().filter(|entry| entry.set().has(&path())) {
        if applier(&entry.who).is_some_and(|who| stayed.contains(&who)) {
            continue;
        }
        let who = Identity { api_version: own.as_str().into(), ..entry.who };
        kept.entries.push(Entry::new(who, None, replicas()));
    }
    kept.write(parent);
}

#[cfg(test)]
mod tests {
    use oarlock_schema::resource;

    use super::*;

    fn deployment(entries: &str) -> Obj {
        let json = format!(r#"{{"metadata":{{"name":"d","namespace":"n","managedFields":{entries}}}}}"#);
        let ty = resource("apps", "v1", "deployments").unwrap().ty;
        oarlock_codec::json::decode(json.as_bytes(), ty, oarlock_codec::Mode::Strict).unwrap().value
    }

    fn entry(manager: &str, operation: &str, version: &str, subresource: &str, fields: &str) -> String {
        format!(
            r#"{{"manager":"{manager}","operation":"{operation}","apiVersion":"{version}","fieldsType":"FieldsV1","subresource":"{subresource}","time":"2026-01-01T00:00:00Z","fieldsV1":{fields}}}"#
        )
    }

    fn shown(obj: &Obj) -> Vec<String> {
        let one = |e: Entry| {
            let operation = if e.who.applied { "Apply" } else { "Update" };
            let time = if e.time.is_some() { "timed" } else { "" };
            format!("{} {operation} {} {} {time} {}", e.who.manager, e.who.api_version, e.who.subresource, e.set())
        };
        Managers::read(obj).unwrap().entries.into_iter().map(one).collect()
    }

    const BOTH: &str = r#"{"f:spec":{"f:paused":{},"f:replicas":{}}}"#;
    const OTHER: &str = r#"{"f:spec":{"f:paused":{}}}"#;

    fn target() -> Target<'static> {
        Target::new(resource("apps", "v1", "deployments").unwrap(), "scale", "n", "d")
    }

    fn scale_with(entries: &str) -> Obj {
        let mut scale = Obj::new(oarlock_schema::type_named("autoscaling/v1.Scale").unwrap());
        let from = deployment(entries);
        scale.set_at(&["metadata", "managedFields"], from.at(&["metadata", "managedFields"]).unwrap().clone());
        scale
    }

    #[test]
    fn only_owners_of_replicas_show_in_a_scale() {
        let parent = deployment(&format!(
            "[{},{},{}]",
            entry("a", "Apply", "apps/v1", "", BOTH),
            entry("b", "Update", "apps/v1", "", OTHER),
            entry("c", "Update", "other/v1", "", BOTH)
        ));
        let mut scale = Obj::new(oarlock_schema::type_named("autoscaling/v1.Scale").unwrap());
        to_scale(&target(), &parent, &mut scale);
        assert_eq!(shown(&scale), ["a Apply autoscaling/v1  timed .spec.replicas"]);
    }

    #[test]
    fn who_takes_replicas_through_scale_takes_them_from_the_workloads_owner() {
        let mut parent = deployment(&format!("[{}]", entry("a", "Update", "apps/v1", "", BOTH)));
        let scale = scale_with(&format!(
            "[{}]",
            entry("b", "Update", "autoscaling/v1", "scale", r#"{"f:spec":{"f:replicas":{}}}"#)
        ));
        to_parent(&target(), &scale, &mut parent);
        assert_eq!(shown(&parent), ["b Update apps/v1 scale  .spec.replicas", "a Update apps/v1  timed .spec.paused"]);
    }

    #[test]
    fn an_applier_that_keeps_replicas_keeps_its_entry() {
        let mut parent = deployment(&format!("[{}]", entry("a", "Apply", "apps/v1", "", BOTH)));
        let scale =
            scale_with(&format!("[{}]", entry("a", "Apply", "autoscaling/v1", "", r#"{"f:spec":{"f:replicas":{}}}"#)));
        to_parent(&target(), &scale, &mut parent);
        assert_eq!(shown(&parent), ["a Apply apps/v1  timed .spec.paused\n.spec.replicas"]);
    }
}
