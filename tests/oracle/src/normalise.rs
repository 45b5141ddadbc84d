//! Replaces values that a server chooses by stable names: uids, revisions, times, addresses, tokens, random suffixes.
//!
//! A uid or revision is named by the step in whose answer it first appeared, so answers still tell whether a write changed the revision
//! and whether a Status means the object it should. Times in the scripts lie before 2025; everything later is the servers' own.

mod texts;

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::recorded::Answer;
use texts::{
    is_access_volume, is_credential, is_generated, is_node_port, is_revision_of, is_service_address, is_time, is_uid,
    numbers, replace,
};

/// Keys whose values describe the build.
const BUILD: &[&str] = &["gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"];
/// Lists whose order depends on a map's iteration or on the second of each write.
const UNORDERED: &[&str] = &["managedFields", "nonResourceRules", "resourceRules"];
/// Numbers that the server allocates.
const PORTS: &[&str] = &["nodePort", "healthCheckNodePort"];

/// The names of one scenario.
#[derive(Debug)]
pub struct Normaliser {
    authority: String,
    unsettled: bool,
    step: String,
    revisions: HashMap<String, String>,
    uids: HashMap<String, String>,
}

impl Normaliser {
    /// Makes a normaliser for the answers of the server at `authority` (`host:port`); `unsettled` for objects that upstream itself writes to.
    #[must_use]
    pub fn new(authority: &str, unsettled: bool) -> Self {
        Self {
            authority: authority.to_owned(),
            unsettled,
            step: String::new(),
            revisions: HashMap::new(),
            uids: HashMap::new(),
        }
    }

    /// Normalises the answer to `step`. Steps come in the order in which they were played.
    pub fn answer(&mut self, step: &str, answer: &mut Answer) {
        step.clone_into(&mut self.step);
        for (_, value) in &mut answer.headers {
            *value = self.text("", value);
        }
        if let Value::Object(body) = &mut answer.body
            && body.contains_key("items")
        {
            // The revision of a list is the store's, which other writers raise.
            hide(body, "resourceVersion");
        }
        table(&mut answer.body);
        for event in answer.body.as_array_mut().into_iter().flatten() {
            let bookmark = event.get("type") == Some(&Value::from("BOOKMARK"));
            let Some(object) = event.get_mut("object") else { continue };
            table(object);
            if bookmark && let Value::Object(object) = object {
                // The revision is hidden, as in lists.
                hide(object, "resourceVersion");
            }
        }
        if self.unsettled {
            settle(&mut answer.body);
        }
        self.value("", &mut answer.body);
    }

    fn value(&mut self, key: &str, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(key, text),
            Value::Number(number) if PORTS.contains(&key) && number.as_u64() != Some(0) => {
                *value = Value::from("<port>");
            }
            Value::Number(number) if self.authority.ends_with(&format!(":{number}")) => {
                *value = Value::from("<server port>");
            }
            Value::Array(items) => {
                items.retain(|item| !is_ours(item));
                items.iter_mut().for_each(|item| self.value(key, item));
                if UNORDERED.contains(&key) {
                    items.sort_by_cached_key(order);
                }
            }
            Value::Object(map) => self.object(map),
            _ => {}
        }
    }

    fn object(&mut self, map: &mut Map<String, Value>) {
        let whole = std::mem::take(map);
        for (key, mut value) in whole.into_iter().filter(|(key, _)| !key.starts_with("apis/oarlock.dev")) {
            self.value(&key, &mut value);
            let key = if key.contains("k:{\"uid") { self.text("", &key) } else { key };
            map.insert(key, value);
        }
    }

    fn text(&mut self, key: &str, text: &str) -> String {
        match key {
            "resourceVersion" => return self.revision(text),
            "continue" if !text.is_empty() => return "<continue>".to_owned(),
            "token" if text.starts_with("eyJ") => return "<token>".to_owned(),
            key if BUILD.contains(&key) => return "<build>".to_owned(),
            _ => {}
        }
        let text = text.replace(&self.authority, "<server>");
        let text = replace(&text, 36, is_uid, |uid| self.uid(uid));
        let text = replace(&text, 27, |t| is_time(t, true), |_| "<micro-time>".to_owned());
        let text = replace(&text, 20, |t| is_time(t, false), |_| "<time>".to_owned());
        let text = replace(&text, 21, is_access_volume, |_| "kube-api-access-<random>".to_owned());
        let text = replace(&text, 10, is_generated, |_| "some-<random>".to_owned());
        let text = replace(&text, 75, is_credential, |_| "<credential>".to_owned());
        let prose = matches!(key, "message" | "cells");
        let text = if prose { texts::without_managed_fields(&text) } else { text };
        numbers(&text, |before, number| match number {
            _ if prose && is_revision_of(before) => Some("<revision>".to_owned()),
            _ if is_service_address(number) => Some("<service ip>".to_owned()),
            _ if prose && is_node_port(number) => Some("<port>".to_owned()),
            _ => None,
        })
    }

    fn uid(&mut self, uid: &str) -> String {
        self.uids.entry(uid.to_owned()).or_insert_with(|| format!("<uid of {}>", self.step)).clone()
    }

    fn revision(&mut self, text: &str) -> String {
        if text.is_empty() || text == "0" || !text.bytes().all(|b| b.is_ascii_digit()) {
            return text.to_owned();
        }
        self.revisions.entry(text.to_owned()).or_insert_with(|| format!("<revision of {}>", self.step)).clone()
    }
}

/// Items in upstream's lists that are ours: our own API group, and objects with our name.
fn is_ours(item: &Value) -> bool {
    let names = ["/name", "/metadata/name", "/object/metadata/name"];
    let mut names = names.iter().filter_map(|path| item.pointer(path)?.as_str());
    names.any(|name| name.starts_with("oarlock") || name.ends_with(".oarlock.dev"))
}

/// Leaves out what upstream's own loops write to an object, or to those of a list or table.
fn settle(body: &mut Value) {
    for list in ["items", "rows"] {
        body.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().for_each(settle);
    }
    if let Some(object) = body.get_mut("object") {
        settle(object);
    }
    let Value::Object(body) = body else { return };
    if body.contains_key("metadata") && body.get("kind") != Some(&Value::from("Status")) {
        body.remove("status");
    }
    let Some(Value::Object(meta)) = body.get_mut("metadata") else { return };
    if meta.contains_key("resourceVersion") {
        meta.insert("resourceVersion".to_owned(), Value::from("<unsettled>"));
    }
    if let Some(Value::Array(managers)) = meta.get_mut("managedFields") {
        managers.retain(|manager| manager.get("subresource") != Some(&Value::from("status")));
    }
}

/// Managed fields by who wrote them, whatever they own; other items by their text.
fn order(item: &Value) -> String {
    let part = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
    match item.get("manager") {
        Some(_) => [part("manager"), part("operation"), part("apiVersion"), part("subresource")].join(" "),
        None => item.to_string(),
    }
}

fn hide(list: &mut Map<String, Value>, field: &str) {
    if let Some(Value::Object(meta)) = list.get_mut("metadata")
        && let Some(value) = meta.get_mut(field)
    {
        *value = Value::from("<now>");
    }
}

/// Descriptions of columns are prose; ages are the clock's.
fn table(table: &mut Value) {
    if table.get("kind") != Some(&Value::from("Table")) {
        return;
    }
    if let Value::Object(table) = table {
        hide(table, "resourceVersion");
    }
    let columns = table.pointer_mut("/columnDefinitions").and_then(Value::as_array_mut);
    for column in columns.into_iter().flatten().filter_map(Value::as_object_mut) {
        column.remove("description");
    }
    let rows = table.pointer_mut("/rows").and_then(Value::as_array_mut);
    let cells = rows.into_iter().flatten().filter_map(|row| row.get_mut("cells")?.as_array_mut()).flatten();
    for cell in cells {
        if cell.as_str().is_some_and(is_age) {
            *cell = Value::from("<age>");
        }
    }
}

/// Seconds since something that a case made, or years since a date that it names; other units may be another thing.
fn is_age(text: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    match (text.strip_suffix('s'), text.split_once('y')) {
        (Some(seconds), _) => !seconds.is_empty() && digits(seconds),
        (None, Some((years, days))) => !years.is_empty() && digits(years) && digits(days.trim_end_matches('d')),
        (None, None) => false,
    }
}
