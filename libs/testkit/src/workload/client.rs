//! One client of a workload: makes one call at a time and records each with its outcome.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Map, Value, json};

use super::{Collection, Counts, Replica, Shared};
use crate::history::{body, key, revision};
use crate::http::Answer;
use crate::wait::{eventually, pause};

/// Objects per page of a list.
const PAGE_LIMIT: u64 = 4;
const TIERS: [&str; 2] = ["gold", "tin"];

/// One client of a workload.
#[derive(Debug)]
pub(super) struct Client {
    shared: Arc<Shared>,
    name: String,
    rng: StdRng,
    /// Revisions of the objects that the client knows, by key.
    seen: BTreeMap<String, u64>,
    tags: u64,
    lists: u64,
    /// Server that did not answer the last call; the next call goes to another server, if there is one.
    left: Option<usize>,
}

/// Outcome of a call.
enum Outcome {
    Ok(Value),
    Rejected,
    Unknown,
}

impl Client {
    pub(super) fn new(shared: Arc<Shared>, name: String, number: u64) -> Self {
        let rng = StdRng::seed_from_u64(shared.options.seed.wrapping_mul(1000).wrapping_add(number));
        Self { shared, name, rng, seen: BTreeMap::new(), tags: 0, lists: 0, left: None }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Makes calls until the workload ends.
    pub(super) fn run(mut self) {
        while !self.shared.enough.load(Ordering::Acquire) {
            let collection = self.rng.random_range(0..self.shared.options.collections.len());
            let collection = self.shared.options.collections[collection].clone();
            let name = format!("n{}", self.rng.random_range(0..self.shared.options.names));
            match self.rng.random_range(0..20) {
                0..10 => self.write(&collection, &name),
                10..12 => self.delete(&collection, &name),
                12..17 => self.get(&collection, &name),
                _ => self.list(&collection),
            }
        }
    }

    /// Writes the last object of a collection, which every selector matches; returns its revision.
    pub(super) fn final_write(&mut self, collection: usize) -> u64 {
        let collection = self.shared.options.collections[collection].clone();
        eventually("the last write", || {
            // Each attempt is a separate write under a separate name.
            let name = format!("last-{}", self.tags);
            match self.create(&collection, &name, "gold") {
                Outcome::Ok(object) => Ok(revision(&object)),
                Outcome::Rejected | Outcome::Unknown => Err("it was not done"),
            }
        })
    }

    fn tag(&mut self) -> String {
        self.tags += 1;
        format!("{}-{}", self.name, self.tags)
    }

    /// Creates an unknown object, or updates a known one.
    fn write(&mut self, collection: &Collection, name: &str) {
        let tier = TIERS[self.rng.random_range(0..TIERS.len())];
        let key = collection.prefix() + name;
        let Some(seen) = self.seen.get(&key).copied() else {
            self.create(collection, name, tier);
            return;
        };
        let tag = self.tag();
        // A patch and a PUT may leave out the revision that they replace.
        let expect = self.rng.random_bool(0.8).then_some(seen);
        let path = format!("{}/{name}", collection.path());
        let facts = json!({"op": "update", "key": key, "expect": expect, "tag": tag});
        if collection.replaceable() && self.rng.random_bool(0.5) {
            let object = collection.object(name, &tag, tier, expect);
            self.call("PUT", &path, "application/json", Some(&object), facts);
        } else {
            let patch = Collection::patch(&tag, tier, expect);
            self.call("PATCH", &path, "application/merge-patch+json", Some(&patch), facts);
        }
    }

    fn create(&mut self, collection: &Collection, name: &str, tier: &str) -> Outcome {
        let tag = self.tag();
        let facts = json!({"op": "create", "key": collection.prefix() + name, "tag": tag});
        let object = collection.object(name, &tag, tier, None);
        self.call("POST", &collection.path(), "application/json", Some(&object), facts)
    }

    fn delete(&mut self, collection: &Collection, name: &str) {
        let key = collection.prefix() + name;
        // Without a precondition the history could not show which object was deleted.
        let Some(expect) = self.seen.get(&key).copied() else { return self.get(collection, name) };
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0,
            "preconditions": {"resourceVersion": expect.to_string()}});
        let facts = json!({"op": "delete", "key": key, "expect": expect});
        self.call("DELETE", &format!("{}/{name}", collection.path()), "application/json", Some(&options), facts);
    }

    fn get(&mut self, collection: &Collection, name: &str) {
        let (mut path, key) = (format!("{}/{name}", collection.path()), collection.prefix() + name);
        let mut facts = json!({"op": "get", "key": key});
        if self.rng.random_bool(0.2) {
            let least = if self.rng.random_bool(0.5) { 0 } else { self.seen.get(&key).copied().unwrap_or(0) };
            path += &format!("?resourceVersion={least}");
            facts["asked"] = json!({"at_least": least});
        }
        self.call("GET", &path, "application/json", None, facts);
    }

    /// Reads a whole list, in pages or at once.
    fn list(&mut self, collection: &Collection) {
        self.lists += 1;
        let id = format!("{}-l{}", self.name, self.lists);
        let mut query = Vec::new();
        let mut selector = json!({});
        if self.rng.random_bool(0.3) {
            selector = json!({"tier": "gold"});
            query.push("labelSelector=tier%3Dgold".to_owned());
        }
        let paged = self.rng.random_bool(0.6);
        if paged {
            query.push(format!("limit={PAGE_LIMIT}"));
        }
        let mut token = String::new();
        for page in 0_u64.. {
            let mut facts = json!({"op": "list", "key": collection.prefix(),
                "list": {"id": id, "page": page, "selector": selector}});
            let mut query = query.clone();
            if page > 0 {
                query.push(format!("continue={token}"));
            } else if !paged && self.rng.random_bool(0.2) {
                query.push("resourceVersion=0".to_owned());
                facts["asked"] = json!({"at_least": 0});
            }
            let path = format!("{}?{}", collection.path(), query.join("&"));
            match self.call("GET", &path, "application/json", None, facts) {
                Outcome::Ok(list) => match list["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
                    Some(next) => token = next.to_owned(),
                    None => return,
                },
                Outcome::Rejected | Outcome::Unknown => return,
            }
        }
    }

    /// Returns the revision of a full list, from which a watch can start; `None` without an answer.
    pub(super) fn start_of_watch(&mut self, collection: &Collection) -> Option<u64> {
        self.lists += 1;
        let id = format!("{}-l{}", self.name, self.lists);
        let facts = json!({"op": "list", "key": collection.prefix(), "list": {"id": id, "page": 0}});
        match self.call("GET", &collection.path(), "application/json", None, facts) {
            Outcome::Ok(list) => Some(revision(&list)),
            Outcome::Rejected | Outcome::Unknown => None,
        }
    }

    /// Calls a server and records the call.
    fn call(&mut self, method: &str, path: &str, media: &str, object: Option<&Value>, facts: Value) -> Outcome {
        let servers = self.shared.replicas.len();
        let mut server = self.rng.random_range(0..servers);
        if self.left == Some(server) {
            server = (server + 1) % servers;
        }
        let Replica { name, http } = self.shared.replicas[server].clone();
        let body = object.map(Value::to_string).unwrap_or_default();
        let headers = [("Content-Type", media)];
        let headers: &[(&str, &str)] = if object.is_some() { &headers } else { &[] };
        let recorder = Arc::clone(&self.shared.recorder);
        let invoke = recorder.now();
        let answer = http.try_send(method, path, headers, body.as_bytes());
        let returned = recorder.now();
        let Value::Object(mut line) = facts else { panic!("facts are fields") };
        line.retain(|_, value| !value.is_null());
        let (outcome, more) = self.judge(&line, answer);
        self.left = matches!(outcome, Outcome::Unknown).then_some(server);
        let key = line["key"].as_str().unwrap_or_default().to_owned();
        match (&outcome, line["op"].as_str()) {
            (Outcome::Ok(_), Some("list")) => {}
            (Outcome::Ok(object), Some("create" | "update" | "get")) => {
                self.seen.insert(key.clone(), revision(object));
            }
            _ => {
                self.seen.remove(&key);
            }
        }
        let frame = json!({"line": "call", "client": self.name, "replica": name, "invoke": invoke, "return": returned});
        line.extend(fields(frame));
        if let Some(Value::Object(page)) = line.get_mut("list") {
            page.extend(list_of(&key, &outcome));
        }
        line.extend(fields(more));
        recorder.write(&line);
        if matches!(outcome, Outcome::Unknown) {
            // The server may be down; the next attempt follows after a pause.
            pause();
        }
        outcome
    }

    /// Classifies an answer; returns the outcome and its record in the history.
    fn judge(&self, line: &Map<String, Value>, answer: io::Result<Answer>) -> (Outcome, Value) {
        let counts = &self.shared.counts;
        let answer = match answer {
            Ok(answer) if answer.code < 500 => answer,
            other => {
                let why = other.map_or_else(|error| error.to_string(), |answer| answer.to_string());
                counts.mark(&counts.unknown, format!("{line:?}: {why}"));
                return (Outcome::Unknown, json!({"outcome": "unknown"}));
            }
        };
        let text = answer.to_string();
        let object = answer.json();
        if answer.code < 300 {
            Counts::count(&counts.ok);
            let more = match line["op"].as_str() {
                Some("delete") => json!({"outcome": "ok"}),
                Some("list") => json!({"outcome": "ok", "revision": revision(&object)}),
                _ => json!({"outcome": "ok", "revision": revision(&object), "body": body(&object)}),
            };
            return (Outcome::Ok(object), more);
        }
        let reason = match object["reason"].as_str() {
            Some("AlreadyExists") => "exists",
            Some("NotFound") => "absent",
            Some("Conflict") => "conflict",
            Some("Expired" | "Gone") => "expired",
            _ => {
                if Counts::count(&counts.other) == 0 {
                    eprintln!("refused for another reason: {line:?}: {text}");
                }
                "other"
            }
        };
        Counts::count(&counts.rejected);
        (Outcome::Rejected, json!({"outcome": "rejected", "reason": reason}))
    }
}

fn fields(value: Value) -> Map<String, Value> {
    if let Value::Object(fields) = value { fields } else { Map::new() }
}

/// Returns the record of a list's answer.
fn list_of(prefix: &str, outcome: &Outcome) -> Map<String, Value> {
    let Outcome::Ok(list) = outcome else { return Map::new() };
    let plural = prefix.split('/').next().unwrap_or_default();
    let items = list["items"].as_array().map_or(&[][..], Vec::as_slice).iter();
    let items: Vec<Value> = items.map(|item| json!([key(plural, item), revision(item), body(item)])).collect();
    let more = list["metadata"]["continue"].as_str().is_some_and(|token| !token.is_empty());
    fields(json!({"items": items, "more": more}))
}
