//! CertificateSigningRequests: the server records the requesting user; the request is immutable; approvers decide through `approval`, signers answer
//! through `status`.

use std::collections::HashMap;

use base64::Engine as _;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::{Map, Obj, Struct, Value};

use crate::fields;
use crate::kind::{Request, Strategy};

/// Conditions that only the `approval` endpoint may change.
const APPROVAL_CONDITIONS: [&str; 2] = ["Approved", "Denied"];
/// Conditions that can never be removed.
const PERMANENT: [&str; 3] = ["Approved", "Denied", "Failed"];
const CONDITIONS: [&str; 2] = ["status", "conditions"];
const CERTIFICATE: [&str; 2] = ["status", "certificate"];

/// Strategy of signing requests.
#[derive(Debug)]
pub struct CertificateSigningRequestStrategy;

impl Strategy for CertificateSigningRequestStrategy {
    fn prepare_create(&self, request: &Request<'_>, obj: &mut Obj) {
        let user = request.user;
        let list = |items: &[String]| items.iter().map(String::as_str).collect::<Value>();
        let extra: Map = user.extra.iter().map(|(key, values)| (key.as_str(), list(values))).collect();
        obj.set_at(&["spec", "username"], user.name);
        obj.set_at(&["spec", "uid"], user.uid);
        obj.set_at(&["spec", "groups"], list(user.groups));
        obj.set_at(&["spec", "extra"], extra);
        fields::remove_at(obj, &["status"]);
    }

    fn prepare_update(&self, request: &Request<'_>, new: &mut Obj, old: &Obj) {
        match request.endpoint {
            "approval" => {
                stamp(new, old, request.now);
                let conditions = new.at(&CONDITIONS).cloned();
                fields::restore(new, old, &["spec", "status"]);
                match conditions {
                    Some(conditions) => drop(new.set_at(&CONDITIONS, conditions)),
                    None => fields::remove_at(new, &CONDITIONS),
                }
            }
            "status" => {
                fields::restore(new, old, &["spec"]);
                APPROVAL_CONDITIONS.iter().for_each(|decision| keep(new, old, decision));
                stamp(new, old, request.now);
            }
            _ => fields::restore(new, old, &["spec", "status"]),
        }
    }

    fn validate(&self, request: &Request<'_>, new: &Obj, old: Option<&Obj>, errors: &mut ErrorList) {
        let Some(old) = old else { return signature(new, errors) };
        decided(request, new, old, errors);
        let given = |value: &&Value| value.as_str().is_some_and(|text| !text.is_empty());
        let (now, before) = (new.at(&CERTIFICATE).filter(given), old.at(&CERTIFICATE).filter(given));
        let at = Path::new("status");
        if now != before && request.endpoint != "status" {
            errors.push(FieldError::forbidden(&at.child("certificate"), "updates may not set certificate content"));
        } else if now != before && before.is_some() {
            let text = "updates may not modify existing certificate content";
            errors.push(FieldError::forbidden(&at.child("certificate"), text));
        }
        // A new certificate is not checked if the stored one fails the check, too.
        let judged = now != before && before.is_none_or(|stored| certificate(stored).is_ok());
        if let Some(Err(why)) = now.filter(|_| judged).map(certificate) {
            errors.push(FieldError::invalid(&at.child("certificate"), "<certificate data>", why));
        }
    }
}

/// Checks that `status.certificate` holds PEM certificates.
fn certificate(value: &Value) -> Result<(), String> {
    let encoded = value.as_str().unwrap_or("");
    let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap_or_default();
    oarlock_pki::certificates_only(&String::from_utf8_lossy(&bytes))
}

/// Checks that the request is well-formed and signed with the requester's key (upstream `validateCSR`).
fn signature(obj: &Obj, errors: &mut ErrorList) {
    let encoded = obj.at(&["spec", "request"]).and_then(Value::as_str).unwrap_or("");
    let text =
        base64::engine::general_purpose::STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    if let Err(error) = oarlock_pki::parse_csr(text.as_deref().unwrap_or("")) {
        errors.push(FieldError::invalid(&Path::new("spec").child("request"), encoded, error.to_string()));
    }
}

/// Adds errors for changes of conditions that an update may not make.
fn decided(request: &Request<'_>, new: &Obj, old: &Obj, errors: &mut ErrorList) {
    let at = Path::new("status");
    let at = at.child("conditions");
    for kind in PERMANENT {
        if of_type(new, kind).len() < of_type(old, kind).len() {
            errors.push(FieldError::forbidden(&at, format!("updates may not remove a condition of type {kind:?}")));
        }
    }
    if request.endpoint == "approval" {
        return;
    }
    for kind in APPROVAL_CONDITIONS {
        let (now, before) = (of_type(new, kind), of_type(old, kind));
        if now.len() > before.len() {
            errors.push(FieldError::forbidden(&at, format!("updates may not add a condition of type {kind:?}")));
        } else if now.len() == before.len() && now != before {
            errors.push(FieldError::forbidden(&at, format!("updates may not modify a condition of type {kind:?}")));
        }
    }
}

fn conditions(obj: &Obj) -> &[Value] {
    obj.at(&CONDITIONS).map_or(&[], Value::items)
}

fn text<'a>(condition: &'a Value, field: &str) -> &'a str {
    condition.get(field).and_then(Value::as_str).unwrap_or("")
}

fn of_type<'a>(obj: &'a Obj, kind: &str) -> Vec<&'a Value> {
    conditions(obj).iter().filter(|c| text(c, "type") == kind).collect()
}

fn each_condition(obj: &mut Obj) -> impl Iterator<Item = &mut Struct> {
    let list = obj.get_mut("status").and_then(Value::as_struct_mut).and_then(|status| status.get_mut("conditions"));
    let items = match list {
        Some(Value::List(items)) => Some(items.iter_mut()),
        _ => None,
    };
    items.into_iter().flatten().filter_map(Value::as_struct_mut)
}

/// Restores the conditions of a type, provided their number is unchanged; otherwise validation reports the error.
fn keep(new: &mut Obj, old: &Obj, kind: &str) {
    let stored = of_type(old, kind);
    if of_type(new, kind).len() != stored.len() {
        return;
    }
    let same = |c: &&mut Struct| c.get("type").and_then(Value::as_str) == Some(kind);
    for (condition, was) in each_condition(new).filter(same).zip(stored) {
        if let Value::Struct(was) = was {
            *condition = was.clone();
        }
    }
}

/// Fills in missing times of conditions: the last update and the last transition.
fn stamp(new: &mut Obj, old: &Obj, now: &str) {
    let missing = |c: &Struct, field: &str| c.get(field).is_none_or(|v| v.is_null() || v.as_str() == Some(""));
    let mut known: HashMap<[&str; 2], &str> = HashMap::new();
    for was in conditions(old) {
        let since = text(was, "lastTransitionTime");
        if !since.is_empty() {
            known.entry([text(was, "type"), text(was, "status")]).or_insert(since);
        }
    }
    for condition in each_condition(new) {
        if missing(condition, "lastUpdateTime") {
            condition.set_name("lastUpdateTime", now);
        }
        if missing(condition, "lastTransitionTime") {
            let of = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
            let since = known.get(&[of("type"), of("status")]).copied().unwrap_or(now).to_owned();
            condition.set_name("lastTransitionTime", since);
        }
    }
}
