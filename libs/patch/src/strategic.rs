//! Strategic merge patch: a merge patch that merges lists by the schema's rules, with directives in the patch.
//!
//! Directives: `$patch: replace | delete | merge` in objects and list items, `$retainKeys`, `$deleteFromPrimitiveList/x`
//! and `$setElementOrder/x` beside the list `x`. Upstream visits the members of a patch in random order; here it is the
//! order of their names, so directives come first.

use std::collections::HashSet;

use oarlock_codec::{Mode, json};
use oarlock_meta::{GroupResource, Status};
use oarlock_schema::{FieldDef, Map, Shape, TypeRef, Value};

use crate::errors::{json_kind, problems};
use crate::go_fmt;

mod lists;
mod positions;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// The error of a strategic patch that does not apply.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Error {
    /// 400 with one of upstream's fixed texts.
    Format(&'static str),
    /// 422; the text is not shown to the client.
    ListOfLists,
    /// An error without a code in upstream: 500 with the text unchanged.
    Plain(String),
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        match error {
            Error::Format(text) => Self::bad_request(text),
            Error::ListOfLists => Self::generic_server_response(422, "", &GroupResource::default(), "", "", 0, false),
            Error::Plain(text) => Self::custom(500, "", text),
        }
    }
}

/// Applies `patch` to `doc`, an object of type `ty`; also returns the findings of strict decoding of the patch.
pub(crate) fn patch(doc: Value, patch: &[u8], ty: TypeRef, mode: Mode) -> Result<(Value, Vec<String>), Status> {
    let decoded = json::decode_value(patch, mode).map_err(|error| Status::bad_request(error.to_string()))?;
    let patch = match decoded.value {
        Value::Map(map) => map,
        Value::Null => Map::default(),
        other => {
            let kind = json_kind(&other);
            return Err(Status::bad_request(format!(
                "json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
            )));
        }
    };
    let doc = match doc {
        Value::Map(map) => map,
        _ => Map::default(),
    };
    let merged = merge_map(doc, patch, Scope::Struct(ty))?;
    Ok((Value::Map(merged), problems(&decoded.findings, "")))
}

/// The schema of an object's members.
#[derive(Clone, Copy)]
enum Scope {
    /// The fields of a struct.
    Struct(TypeRef),
    /// Entries of a map, all of one shape.
    Entries(&'static Shape),
    /// A Go struct with an encoding of its own (`RawExtension`), whose content upstream cannot patch by field.
    Opaque(&'static str),
    /// No schema.
    Unknown,
}

/// The merge rule of a member.
struct Rule {
    scope: Scope,
    merge: bool,
    replace: bool,
    key: Option<&'static str>,
}

impl Scope {
    fn of(shape: &Shape) -> Self {
        match shape {
            Shape::Struct(ty) => Self::Struct(ty),
            Shape::Map(inner) => Self::Entries(inner),
            Shape::List(inner) => Self::of(inner),
            Shape::RawExtension => Self::Opaque("RawExtension"),
            Shape::Json => Self::Opaque("JSON"),
            _ => Self::Unknown,
        }
    }

    fn rule(self, member: &str) -> Result<Rule, Error> {
        let absent = |name: &str| {
            Error::Plain(format!("unable to find api field in struct {name} for the json field \"{member}\""))
        };
        let plain = |scope| Rule { scope, merge: false, replace: false, key: None };
        match self {
            Self::Struct(ty) => {
                let (_, def) = ty.field(member).ok_or_else(|| absent(ty.short_name()))?;
                Ok(Rule::of(def))
            }
            Self::Entries(inner) => Ok(plain(Self::of(inner))),
            Self::Opaque(name) => Err(absent(name)),
            Self::Unknown => Ok(plain(Self::Unknown)),
        }
    }
}

impl Rule {
    fn of(def: &'static FieldDef) -> Self {
        Self { scope: Scope::of(&def.shape), merge: def.patch.merge, replace: def.patch.replace, key: def.merge_key }
    }
}

fn merge_map(mut original: Map, mut patch: Map, scope: Scope) -> Result<Map, Error> {
    if let Some(directive) = patch.remove(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Map::default()),
            _ => {
                let shown = go_fmt::plain(&directive);
                patch.insert(DIRECTIVE, directive);
                Err(unknown_directive(&shown, patch))
            }
        };
    }
    retain_keys(&mut original, &mut patch)?;
    lists::set_order(&mut original, &mut patch, scope)?;
    for (name, value) in patch.entries().iter().filter(|(name, _)| name.starts_with(DELETE_FROM_LIST)) {
        let name = suffix(name, DELETE_FROM_LIST, "invalid patch format of primitive list")?;
        if let Some(merged) = merge_member(original.remove(name), name, value, true, scope)? {
            original.insert(name, merged);
        }
    }
    let plain = patch.entries().iter().filter(|(name, _)| !name.starts_with(DELETE_FROM_LIST));
    original.merge_sorted(plain.map(|(name, value)| (name.as_str(), value)), |name, old, value| {
        merge_member(old, name, value, false, scope)
    })?;
    Ok(original)
}

fn unknown_directive(directive: &str, map: Map) -> Error {
    Error::Plain(format!("unknown patch type: {directive} in map: {}", go_fmt::plain(&Value::Map(map))))
}

/// Returns the name of the list that a directive concerns.
fn suffix<'a>(name: &'a str, prefix: &str, wrong: &'static str) -> Result<&'a str, Error> {
    name.split_once('/').filter(|(head, _)| *head == prefix).map(|(_, tail)| tail).ok_or(Error::Format(wrong))
}

/// Returns the new value of a member. `old` is the present value and `value` that of the patch; `deletion` says which items of a list are to be removed.
fn merge_member(
    old: Option<Value>,
    name: &str,
    value: &Value,
    deletion: bool,
    scope: Scope,
) -> Result<Option<Value>, Error> {
    if value.is_null() {
        return Ok(None);
    }
    match (old, value) {
        (Some(Value::Map(old)), Value::Map(patch)) => {
            let rule = scope.rule(name)?;
            let merged = if rule.replace { patch.clone() } else { merge_map(old, patch.clone(), rule.scope)? };
            Ok(Some(Value::Map(merged)))
        }
        (Some(Value::List(old)), Value::List(patch)) => {
            let rule = scope.rule(name)?;
            let merged = if rule.merge || deletion {
                lists::merge(old.into_iter().collect(), patch.to_vec(), &rule, deletion)?
            } else {
                patch.to_vec()
            };
            Ok(Some(merged.into_iter().collect()))
        }
        (old, value) => {
            let same_kind = old.as_ref().is_some_and(|old| json_kind(old) == json_kind(value));
            Ok(if deletion && !same_kind { old } else { new_member(value.clone()) })
        }
    }
}

/// Returns a patch member without a counterpart in the object, without its nulls and its parts with directives.
fn new_member(mut value: Value) -> Option<Value> {
    drop_nulls(&mut value);
    without_directives(&mut value).then_some(value)
}

/// Removes null members at any depth; items of lists stay.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Map(map) => map.retain(|_, value| {
            drop_nulls(value);
            !value.is_null()
        }),
        Value::List(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Removes the parts with a `$patch` directive; returns false when the value itself has one.
fn without_directives(value: &mut Value) -> bool {
    match value {
        Value::Map(map) => {
            if map.get(DIRECTIVE).is_some() {
                return false;
            }
            map.retain(|_, value| without_directives(value));
        }
        Value::List(items) => items.retain_mut(without_directives),
        _ => {}
    }
    true
}

/// Handles `$retainKeys`: removes the members that the directive does not list. The patch may not set any unlisted member.
fn retain_keys(original: &mut Map, patch: &mut Map) -> Result<(), Error> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let wrong = Error::Format("invalid patch format of retainKeys");
    let Value::List(keys) = keys else { return Err(wrong) };
    let keys: HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let listed = |name: &str| keys.contains(name);
    let stray = patch.iter().any(|(name, value)| {
        !value.is_null() && !name.starts_with(DELETE_FROM_LIST) && !name.starts_with(SET_ORDER) && !listed(name)
    });
    if stray {
        return Err(wrong);
    }
    original.retain(|name, _| listed(name));
    Ok(())
}
