//! One client: one call at a time, each recorded with its outcome. Writes are never repeated; reads are repeated at another server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use oarlock_check::history::{Asked, Call as Seen, Labels, Line, Op, Outcome, Page, Reason};
use oarlock_client::{
    Call, DeleteOptions, GetOptions, List, ListOptions, Object, PatchType, Reply, Request, VersionMatch, WriteOptions,
};
use oarlock_meta::{Revision, Status};
use oarlock_runtime::{Rng, clock};
use serde_json::json;

use super::objects::{NAMESPACE, PLURALS, gold, metadata, object, prefix, read, row, selector};
use super::replica::Answer;
use super::world::World;

/// Time that a server may spend on a call.
const BUDGET: Duration = Duration::from_secs(2);
/// Objects per page of a list.
const LIMIT: u64 = 3;
/// Names per resource: few, so that clients use the same objects.
const NAMES: u64 = 5;

/// A client that makes one call at a time and records each outcome.
pub(super) struct Client {
    world: Arc<World>,
    name: String,
    rng: Rng,
    /// Revisions of objects, by key.
    seen: BTreeMap<String, u64>,
    /// The revision of the last list, by plural.
    listed: BTreeMap<&'static str, u64>,
    tags: u64,
    lists: u64,
}

impl Client {
    pub(super) fn new(world: Arc<World>, name: String, rng: Rng) -> Self {
        Self { world, name, rng, seen: BTreeMap::new(), listed: BTreeMap::new(), tags: 0, lists: 0 }
    }

    /// Makes this many calls; a call may be a whole list in pages.
    pub(super) async fn run(mut self, calls: u64) {
        for _ in 0..calls {
            let plural = PLURALS[self.rng.below(PLURALS.len() as u64) as usize];
            let name = format!("n{}", self.rng.below(NAMES));
            match self.rng.below(20) {
                0..9 => self.write(plural, &name).await,
                9..11 => self.delete(plural, &name).await,
                11..15 => self.get(plural, &name).await,
                15..17 => self.touch(plural, &name).await,
                _ => {
                    self.list(plural).await;
                }
            }
            clock::sleep(Duration::from_millis(self.rng.below(120))).await;
        }
    }

    /// Writes the last object of a resource, which every selector matches; returns its revision.
    pub(super) async fn final_write(&mut self, plural: &'static str) -> u64 {
        loop {
            // Each attempt is a separate write under a separate name.
            let name = format!("last-{}", self.tags);
            if let (Outcome::Ok, Some(revision)) = self.create(plural, &name, "gold").await {
                return revision;
            }
        }
    }

    fn tag(&mut self) -> String {
        self.tags += 1;
        format!("{}-{}", self.name, self.tags)
    }

    async fn create(&mut self, plural: &'static str, name: &str, tier: &str) -> (Outcome, Option<u64>) {
        let tag = self.tag();
        let call = Call::Create(object(plural, name, &tag, tier, None), WriteOptions::default());
        let line = Seen { op: Op::Create, key: prefix(plural) + name, tag: Some(tag), ..Seen::default() };
        let (line, _) = self.call(plural, "", call, line).await;
        (line.outcome, line.revision)
    }

    /// Creates the object if the client does not know its revision, otherwise updates the object.
    async fn write(&mut self, plural: &'static str, name: &str) {
        let tier = if self.rng.chance(1, 2) { "gold" } else { "tin" };
        let key = prefix(plural) + name;
        let Some(seen) = self.seen.get(&key).copied() else {
            self.create(plural, name, tier).await;
            return;
        };
        let tag = self.tag();
        // An update may leave out the revision that it replaces.
        let expect = self.rng.chance(4, 5).then_some(seen);
        let call = if self.rng.chance(1, 2) {
            Call::Update(object(plural, name, &tag, tier, expect), WriteOptions::default())
        } else {
            let patch = json!({"metadata": metadata(&tag, tier, expect)}).to_string();
            Call::Patch(PatchType::Merge, patch.into(), WriteOptions::default())
        };
        let line = Seen { op: Op::Update, key, tag: Some(tag), expect, ..Seen::default() };
        self.call(plural, name, call, line).await;
    }

    async fn delete(&mut self, plural: &'static str, name: &str) {
        let key = prefix(plural) + name;
        // Without a precondition the history could not show which object was deleted.
        let Some(expect) = self.seen.get(&key).copied() else { return self.get(plural, name).await };
        let options = DeleteOptions { resource_version: Some(Revision(expect)), ..DeleteOptions::default() };
        let line = Seen { op: Op::Delete, key, expect: Some(expect), ..Seen::default() };
        self.call(plural, name, Call::Delete(options), line).await;
    }

    async fn get(&mut self, plural: &'static str, name: &str) {
        let key = prefix(plural) + name;
        let least = self.seen.get(&key).copied().unwrap_or(0);
        let (asked, resource_version) = match self.rng.below(10) {
            0 => (Asked::AtLeast(0), Some(Revision::ZERO)),
            1 => (Asked::AtLeast(least), Some(Revision(least))),
            _ => (Asked::Recent, None),
        };
        let line = Seen { op: Op::Get, key, asked, ..Seen::default() };
        self.call(plural, name, Call::Get(GetOptions { resource_version }), line).await;
    }

    /// Makes a write that changes nothing. The answer holds the current object, so the checker judges the call as a read of the most recent state.
    async fn touch(&mut self, plural: &'static str, name: &str) {
        let call = Call::Patch(PatchType::Merge, "{}".into(), WriteOptions::default());
        let line = Seen { op: Op::Get, key: prefix(plural) + name, ..Seen::default() };
        self.call(plural, name, call, line).await;
    }

    /// Reads a whole list, in pages or at once, of the present or of an earlier revision; returns the list's revision.
    async fn list(&mut self, plural: &'static str) -> Option<u64> {
        let labels = if self.rng.chance(3, 10) { gold() } else { Labels::new() };
        let mut options = ListOptions::labels(selector(&labels));
        let mut asked = Asked::Recent;
        match self.rng.below(10) {
            0 => (asked, options.resource_version) = (Asked::AtLeast(0), Some(Revision::ZERO)),
            1 | 2 => {
                if let Some(past) = self.listed.get(plural).copied() {
                    (asked, options.resource_version) = (Asked::Exactly(past), Some(Revision(past)));
                    options.version_match = Some(VersionMatch::Exact);
                }
            }
            _ => {}
        }
        if options.resource_version.is_none() && self.rng.chance(1, 2) {
            options.limit = LIMIT;
        }
        self.pages(plural, labels, options, asked).await
    }

    /// Returns the revision of a full list, from which a watch can start; `None` without an answer.
    pub(super) async fn start_of_watch(&mut self, plural: &'static str) -> Option<u64> {
        self.pages(plural, Labels::new(), ListOptions::default(), Asked::Recent).await
    }

    async fn pages(
        &mut self,
        plural: &'static str,
        labels: Labels,
        mut options: ListOptions,
        asked: Asked,
    ) -> Option<u64> {
        self.lists += 1;
        let id = format!("{}-l{}", self.name, self.lists);
        for page in 0.. {
            let list = Page { id: id.clone(), page, selector: labels.clone(), ..Page::default() };
            let line = Seen { op: Op::List, key: prefix(plural), asked, list: Some(list), ..Seen::default() };
            let (line, token) = self.call(plural, "", Call::List(options.clone()), line).await;
            if line.outcome != Outcome::Ok {
                return None;
            }
            let revision = line.revision?;
            self.listed.insert(plural, revision);
            match token {
                Some(token) => options.continue_token = token.as_str().into(),
                None => return Some(revision),
            }
        }
        None
    }

    /// Calls a randomly chosen server and records the call; returns the record, and the continue token of a list.
    async fn call(&mut self, plural: &'static str, name: &str, call: Call, mut line: Seen) -> (Seen, Option<String>) {
        line.client.clone_from(&self.name);
        let request = Request {
            resource: row(plural),
            subresource: "",
            namespace: NAMESPACE.into(),
            name: name.into(),
            call,
            fence: None,
            timeout: BUDGET,
        };
        let (replica, answer) = loop {
            let replica = Arc::clone(self.rng.pick(&self.world.replicas).unwrap());
            line.invoke = self.world.recorder.now();
            match replica.call(request.clone()).await {
                // A refused call is repeated at another server.
                Answer::Refused => clock::sleep(Duration::from_millis(20)).await,
                answer => break (replica, answer),
            }
        };
        line.replica.clone_from(&replica.name);
        line.returned = Some(self.world.recorder.now());
        let token = self.judge(plural, &mut line, answer);
        match (line.outcome, line.op) {
            (_, Op::List) => {}
            (Outcome::Ok, Op::Create | Op::Update | Op::Get) => {
                self.seen.insert(line.key.clone(), line.revision.unwrap());
            }
            _ => {
                self.seen.remove(&line.key);
            }
        }
        self.world.recorder.write(Line::Call(line.clone()));
        (line, token)
    }

    /// Adds the meaning of an answer to the record; returns the continue token of a list.
    fn judge(&self, plural: &str, line: &mut Seen, answer: Answer) -> Option<String> {
        line.outcome = Outcome::Unknown;
        let reply = match answer {
            Answer::Replied(Ok(reply)) => reply,
            Answer::Replied(Err(status)) => {
                if status.code < 500 {
                    (line.outcome, line.reason) = (Outcome::Rejected, Some(reason(&status)));
                    if line.reason == Some(Reason::Other) {
                        self.world.others.fetch_add(1, Ordering::Relaxed);
                        tracing::warn!(%status, ?line, "refused for another reason");
                    }
                }
                return None;
            }
            Answer::Refused | Answer::Lost => return None,
        };
        line.outcome = Outcome::Ok;
        match (reply, line.op) {
            (_, Op::Delete) => None,
            (Reply::Object { object, .. }, _) => {
                (line.revision, line.body) = (Some(object.revision.get()), Some(read(&object).1));
                None
            }
            (Reply::List(List { revision, items, continue_token, .. }), _) => {
                line.revision = Some(revision.get());
                let page = line.list.as_mut().unwrap();
                let item = |object: &Object| {
                    let (value, hash) = read(object);
                    let name = value["metadata"]["name"].as_str().unwrap();
                    (prefix(plural) + name, object.revision.get(), hash)
                };
                page.items = items.iter().map(item).collect();
                page.more = !continue_token.is_empty();
                page.more.then(|| continue_token.to_string())
            }
            (Reply::Status(status), op) => panic!("{op:?} was answered with {status}"),
        }
    }
}

fn reason(status: &Status) -> Reason {
    match &status.reason {
        oarlock_meta::Reason::AlreadyExists => Reason::Exists,
        oarlock_meta::Reason::NotFound => Reason::Absent,
        oarlock_meta::Reason::Conflict => Reason::Conflict,
        oarlock_meta::Reason::Expired | oarlock_meta::Reason::Gone => Reason::Expired,
        _ => Reason::Other,
    }
}
