//! Server-side apply: merges the configuration, removes fields that the manager no longer states, and updates the owners.

use oarlock_codec::{Mode, json, yaml};
use oarlock_meta::Status;
use oarlock_schema::{Obj, TypeRef, Value};

use super::atom::{Atom, same};
use super::check::problems;
use super::compare::compare;
use super::conflict::{self, Conflict};
use super::managers::{Entry, Managers, clear};
use super::merge::merge;
use super::own::{field_set, with_named_fields};
use super::remove::remove;
use super::set::FieldSet;
use super::track::{Writer, adopt, subtract, unowned_fields};
use crate::document::Validation;
use crate::unstructured;

/// The annotation in which client-side apply keeps its last configuration.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The manager of all fields that existed before the first apply to an object without managers.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The prefix of upstream's errors about configurations, which upstream first converts from YAML to JSON.
const NOT_JSON: &str = "error converting YAML to JSON: ";

/// The result of an apply, before defaulting.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The merged object with its new owners.
    pub obj: Obj,
    /// The warnings for the client: duplicate keys in the text.
    pub warnings: Vec<String>,
}

/// Applies a configuration in YAML or JSON. `live` is `None` when the object does not exist yet; the manager of `writer` is the request's `fieldManager`.
/// With `force`, fields of other managers change owner instead of causing a conflict.
///
/// The caller must check the query options, the name and namespace, and a stated resourceVersion or uid.
///
/// # Errors
/// 400 for a body that is no configuration of this kind, 409 with one cause per field and manager for conflicts, and 500 for a
/// configuration that the schema does not know, all with upstream's texts.
pub fn apply(
    live: Option<&Obj>,
    ty: TypeRef,
    config: &[u8],
    writer: &Writer<'_>,
    force: bool,
    validation: Validation,
) -> Result<Applied, Status> {
    let mode = if validation == Validation::Ignore { Mode::Lenient } else { Mode::Strict };
    let decoded = yaml::decode_value(config, mode)
        .map_err(|error| Status::bad_request(format!("error decoding YAML: {NOT_JSON}{error}")))?;
    let config = match decoded.value {
        map @ Value::Map(_) => map,
        Value::Null => Value::Map(oarlock_schema::Map::default()),
        other => {
            let kind = crate::errors::json_kind(&other);
            return Err(Status::bad_request(format!(
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
            )));
        }
    };
    check_kind(&config, ty)?;

    let mut base = live.map_or_else(|| Obj::new(ty), Clone::clone);
    let mut managers = Managers::read(&base)
        .ok_or_else(|| Status::custom(500, "", "failed to decode managed fields: malformed entry"))?;
    clear(&mut base);
    if managers.entries.is_empty() && live.is_some() {
        adopt(&base, &mut managers, BEFORE_FIRST_APPLY, writer);
    }
    check_schema(&config, ty)?;
    let base_value = Value::Struct(base.clone().into_root());
    let run = Run { live: &base_value, config: &config, atom: Atom::Struct(ty), writer };
    let (merged, mut managers) = match run.attempt(&managers, force) {
        Ok(done) => done,
        // kubectl's own manager takes over the fields that client-side apply owned.
        Err(conflicts) if writer.manager == "kubectl" => match run.inherited(&base, ty) {
            None => return Err(conflict::status(conflicts)),
            Some(inherited) => {
                let open = left_after(conflicts, &inherited);
                if !open.is_empty() {
                    return Err(conflict::status(open));
                }
                run.attempt(&managers, true).map_err(conflict::status)?
            }
        },
        Err(conflicts) => return Err(conflict::status(conflicts)),
    };

    let unchanged = live.is_some() && same(&base_value, &merged);
    let mut obj = if unchanged {
        base
    } else {
        let typed = unstructured::typed(&merged, ty, Mode::Lenient);
        typed
            .map_err(|error| {
                let (what, kind) = (described(&config), kind_of(&config));
                let refusal = unstructured::refusal(&merged, ty, &error);
                let text = format!(
                    "failed to convert new object ({what}) to proper version: unable to convert unstructured object to {kind}: {refusal}"
                );
                Status::custom(500, "", text)
            })?
            .value
    };
    if !unchanged {
        let who = writer.identity(writer.manager, true);
        if let Some(entry) = managers.entries.iter_mut().find(|entry| {
            entry.who.applied && entry.who.manager == who.manager && entry.who.subresource == who.subresource
        }) {
            entry.time = Some(writer.now);
        }
    }
    if writer.manager == "kubectl" {
        sync_last_applied(&mut obj, &config);
    }
    managers.write(&mut obj);

    let warnings = match validation {
        _ if decoded.findings.is_empty() => Vec::new(),
        Validation::Ignore => Vec::new(),
        Validation::Strict => {
            let texts: Vec<String> = decoded.findings.iter().map(ToString::to_string).collect();
            let text = texts.join(", ");
            return Err(Status::bad_request(format!("error strict decoding YAML: {NOT_JSON}{text}")));
        }
        Validation::Warn => decoded.findings.iter().flat_map(|finding| lines(&finding.to_string())).collect(),
    };
    Ok(Applied { obj, warnings })
}

/// Splits the text of the YAML reader, which lists the findings under a heading, into the findings.
fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::trim).filter(|line| *line != "yaml: unmarshal errors:").map(str::to_owned).collect()
}

fn check_kind(config: &Value, ty: TypeRef) -> Result<(), Status> {
    let text = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let given = oarlock_meta::GroupVersionKind::parse(version, kind).unwrap_or_default();
    let wanted =
        ty.gvk.is_some_and(|gvk| (gvk.group, gvk.version, gvk.kind) == (&given.group, &given.version, &given.kind));
    if !wanted {
        return Err(Status::bad_request(format!("invalid object type: {given}")));
    }
    if config.at(&["metadata", "managedFields"]).is_some_and(|fields| !fields.is_null()) {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    Ok(())
}

/// Returns `namespace/name; group/version, Kind=X`, as upstream names objects in errors.
fn described(config: &Value) -> String {
    let text = |path: &[&str]| config.at(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    format!("{}/{}; {}", text(&["metadata", "namespace"]), text(&["metadata", "name"]), kind_of(config))
}

fn kind_of(config: &Value) -> oarlock_meta::GroupVersionKind {
    let text = |name| config.at(&[name]).and_then(Value::as_str).unwrap_or_default();
    oarlock_meta::GroupVersionKind::parse(text("apiVersion"), text("kind")).unwrap_or_default()
}

fn check_schema(config: &Value, ty: TypeRef) -> Result<(), Status> {
    let found = problems(config, Atom::Struct(ty));
    let text = match found.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    };
    let what = described(config);
    Err(Status::custom(500, "", format!("failed to create typed patch object ({what}): {text}")))
}

struct Run<'a> {
    live: &'a Value,
    config: &'a Value,
    atom: Atom,
    writer: &'a Writer<'a>,
}

impl Run<'_> {
    /// Merges once. Returns the new object and its managers, or the conflicting managers.
    fn attempt(&self, managers: &Managers, force: bool) -> Result<(Value, Managers), Vec<Conflict>> {
        let unowned = unowned_fields(self.writer.reset);
        let mut managers = managers.clone();
        let who = self.writer.identity(self.writer.manager, true);
        let last = managers.get(&who).map(|entry| (entry.set().into_owned(), entry.time));
        let stated = field_set(self.config, self.atom).without(&FieldSet::of_fields(self.writer.reset));
        let time = last.as_ref().and_then(|(_, time)| *time);
        managers.put(Entry::new(who.clone(), time, stated));

        let merged = merge(Some(self.live), Some(self.config), self.atom).unwrap_or_default();
        let merged = match &last {
            Some((last, _)) if !last.is_empty() => self.prune(merged, last, &managers),
            _ => merged,
        };
        let changes = compare(self.live, &merged, self.atom).without(&unowned);
        let touched = changes.modified.union(&changes.added);
        let other =
            |one: &super::Identity| !(one.applied && one.manager == who.manager && one.subresource == who.subresource);
        if !force {
            let conflicts: Vec<Conflict> = managers
                .entries
                .iter()
                .filter(|entry| other(&entry.who))
                .map(|entry| Conflict { who: entry.who.clone(), fields: entry.set().intersection(&touched) })
                .filter(|conflict| !conflict.fields.is_empty())
                .collect();
            if !conflicts.is_empty() {
                return Err(conflicts);
            }
        }
        subtract(&mut managers, &touched.union(&changes.removed), other);
        if let Some(entry) = managers.entries.iter_mut().find(|entry| !other(&entry.who)) {
            let own = entry.set().difference(&unowned);
            entry.put(own);
        }
        managers.drop_empty();
        Ok((merged, managers))
    }

    /// Removes fields that the manager stated in its last apply and states no longer, unless another manager owns them.
    fn prune(&self, merged: Value, last: &FieldSet, managers: &Managers) -> Value {
        let named = |set: &FieldSet| with_named_fields(set, self.atom);
        let last = named(last);
        let pruned = remove(&merged, &last, self.atom);
        let all = named(&field_set(&merged, self.atom));
        // Restore fields that another manager owns.
        let owned = FieldSet::union_of(managers.entries.iter().map(|entry| entry.set().into_owned()).collect());
        let kept = named(&field_set(&pruned, self.atom)).union(&named(&owned));
        let pruned = remove(&merged, &all.difference(&kept), self.atom);
        // Restore fields that the manager never owned.
        let left = named(&field_set(&pruned, self.atom));
        remove(&merged, &all.difference(&left).intersection(&last), self.atom)
    }

    /// Returns the fields that client-side apply's annotation states and whose values are unchanged.
    fn inherited(&self, live: &Obj, ty: TypeRef) -> Option<FieldSet> {
        let text = live.at(&["metadata", "annotations", LAST_APPLIED])?.as_str()?;
        let last = json::decode_value(text.as_bytes(), Mode::Lenient).ok()?.value;
        let version = last.get("apiVersion").and_then(Value::as_str)?;
        if version != self.writer.api_version || !problems(&last, Atom::Struct(ty)).is_empty() {
            return None;
        }
        let changes = compare(&last, self.live, self.atom);
        let stated = field_set(&last, self.atom);
        Some(stated.difference(&changes.modified).difference(&changes.added).difference(&changes.removed))
    }
}

fn left_after(conflicts: Vec<Conflict>, allowed: &FieldSet) -> Vec<Conflict> {
    let left = |conflict: Conflict| Conflict { fields: conflict.fields.difference(allowed), ..conflict };
    conflicts.into_iter().map(left).filter(|conflict| !conflict.fields.is_empty()).collect()
}

/// Updates client-side apply's annotation, if present, so that both kinds of apply can be mixed.
fn sync_last_applied(obj: &mut Obj, config: &Value) {
    let path = ["metadata", "annotations", LAST_APPLIED];
    if obj.at(&path).and_then(Value::as_str).is_none_or(str::is_empty) {
        return;
    }
    let mut stated = config.clone();
    if let Value::Map(root) = &mut stated
        && let Some(Value::Map(meta)) = root.get_mut("metadata")
        && let Some(Value::Map(annotations)) = meta.get_mut("annotations")
    {
        annotations.remove(LAST_APPLIED);
        if annotations.is_empty() {
            meta.remove("annotations");
        }
    }
    let mut out = Vec::new();
    json::encode_value(&stated, &mut out);
    out.push(b'\n');
    obj.set_at(&path, String::from_utf8(out).unwrap_or_default());
}
