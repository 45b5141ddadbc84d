//! Generates correct histories: overlapping clients over one store that does each operation at one moment between its beginning and its end.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use oarlock_check::history::{
    Asked, Call, End, Event, EventType, Floor, Labels, Line, Op, Open, Outcome, Page, Reason, Record, Truth,
};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::build::{body, labels_of, tag};

/// The size and the operations of a generated history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub clients: u64,
    pub keys: u64,
    /// Calls of each client.
    pub calls: u64,
    pub watches: u64,
    /// Whether objects are deleted, too.
    pub deletes: bool,
}

pub(crate) const WIDE: Shape = Shape { clients: 5, keys: 6, calls: 40, watches: 4, deletes: true };
/// A history that the general checker can judge and that has one order only: each write names its predecessor.
pub(crate) const NARROW: Shape = Shape { clients: 4, keys: 1, calls: 6, watches: 0, deletes: false };

/// Objects per page of a list.
const LIMIT: usize = 2;

#[derive(Clone, Debug)]
struct Version {
    revision: u64,
    labels: Labels,
}

type State = BTreeMap<String, Version>;
/// Key, revision and hash of each object of a page.
type Items = Vec<(String, u64, String)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Begin,
    Happen,
    End,
}

#[derive(Default)]
struct Client {
    call: Call,
    /// The last revision of each key that the client knows.
    seen: BTreeMap<String, u64>,
    /// The rest of a list in pages: its revision and what is left.
    pages: Option<(Call, Items)>,
    left: u64,
}

struct World {
    rng: StdRng,
    shape: Shape,
    now: u64,
    agenda: BinaryHeap<Reverse<(u64, u64, Phase)>>,
    clients: Vec<Client>,
    state: State,
    revision: u64,
    /// The records with their times.
    log: Vec<(u64, Record)>,
    calls: Vec<Call>,
    tags: u64,
}

/// Generates a correct history, determined by the seed.
pub(crate) fn history(shape: Shape, seed: u64) -> Vec<Line> {
    let mut world = World {
        rng: StdRng::seed_from_u64(seed),
        shape,
        now: 0,
        agenda: BinaryHeap::new(),
        clients: (0..shape.clients).map(|_| Client { left: shape.calls, ..Client::default() }).collect(),
        state: State::new(),
        revision: 0,
        log: Vec::new(),
        calls: Vec::new(),
        tags: 0,
    };
    for client in 0..shape.clients {
        world.later(client, Phase::Begin);
    }
    while let Some(Reverse((now, client, phase))) = world.agenda.pop() {
        world.now = now;
        match phase {
            Phase::Begin => world.begin(client),
            Phase::Happen => world.happen(client),
            Phase::End => world.end(client),
        }
    }
    world.told()
}

fn key(number: u64) -> String {
    format!("m/{number}")
}

impl World {
    fn later(&mut self, client: u64, phase: Phase) {
        let at = self.now + self.rng.random_range(0..20);
        self.agenda.push(Reverse((at, client, phase)));
    }

    fn begin(&mut self, client: u64) {
        let key = key(self.rng.random_range(0..self.shape.keys));
        let own = self.client(client);
        if own.left == 0 {
            return;
        }
        own.left -= 1;
        let (seen, paging) = (own.seen.get(&key).copied(), own.pages.is_some());
        let base = Call {
            client: client.to_string(),
            replica: if self.rng.random_bool(0.5) { "a" } else { "b" }.to_owned(),
            key,
            invoke: self.now,
            outcome: Outcome::Ok,
            ..Call::default()
        };
        self.tags += 1;
        let tag = Some(format!("tag-{}", self.tags));
        let many = self.shape.keys > 1;
        self.client(client).call = match (self.rng.random_range(0..10), seen) {
            _ if paging => self.next_page(client, base),
            (0..3, None) => Call { op: Op::Create, tag, ..base },
            (0..3, expect) => Call { op: Op::Update, expect, tag, ..base },
            (3, expect) if self.shape.deletes && expect.is_some() => Call { op: Op::Delete, expect, ..base },
            (4..6, _) if many => self.list(client, base),
            (6, _) if many => Call { asked: self.asked(), ..base },
            _ => base,
        };
        self.later(client, Phase::Happen);
    }

    fn client(&mut self, client: u64) -> &mut Client {
        &mut self.clients[usize::try_from(client).unwrap()]
    }

    fn asked(&mut self) -> Asked {
        Asked::AtLeast(if self.rng.random_bool(0.5) { 0 } else { self.rng.random_range(0..=self.revision) })
    }

    fn list(&mut self, client: u64, base: Call) -> Call {
        let selector = if self.rng.random_bool(0.3) { labels_of(&[("tier", "gold")]) } else { Labels::new() };
        let id = format!("{client}-{}", self.tags);
        Call { op: Op::List, key: "m/".to_owned(), list: Some(Page { id, selector, ..Page::default() }), ..base }
    }

    fn next_page(&mut self, client: u64, base: Call) -> Call {
        let (first, _) = self.client(client).pages.as_ref().unwrap();
        let list = first.list.as_ref().map(|page| Page { page: page.page + 1, items: Vec::new(), ..page.clone() });
        Call { op: Op::List, key: "m/".to_owned(), list, ..base }
    }

    /// Applies a client's call at its one moment.
    fn happen(&mut self, client: u64) {
        let mut call = std::mem::take(&mut self.client(client).call);
        let lost = self.rng.random_bool(0.1);
        if !lost || self.rng.random_bool(0.5) {
            match call.op {
                Op::Create | Op::Update | Op::Delete => self.write(&mut call),
                Op::Get => self.get(&mut call),
                Op::List => self.page(client, &mut call),
            }
        }
        if lost && call.outcome == Outcome::Ok {
            let (op, key) = (call.op, call.key.clone());
            if op == Op::List {
                self.client(client).pages = None;
            } else if op != Op::Get {
                self.client(client).seen.remove(&key);
            }
            call = Call { outcome: Outcome::Unknown, revision: None, body: None, list: emptied(call.list), ..call };
        }
        self.client(client).call = call;
        self.later(client, Phase::End);
    }

    fn write(&mut self, call: &mut Call) {
        let there = self.state.get(&call.key).map(|version| version.revision);
        let reason = match (call.op, there) {
            (Op::Create, Some(_)) => Some(Reason::Exists),
            (Op::Update | Op::Delete, None) => Some(Reason::Absent),
            (Op::Update | Op::Delete, there) if there != call.expect => Some(Reason::Conflict),
            _ => None,
        };
        if let Some(reason) = reason {
            (call.outcome, call.reason) = (Outcome::Rejected, Some(reason));
            return;
        }
        // Other clients write other keys, so the revisions have gaps.
        self.revision += self.rng.random_range(1..3);
        let revision = self.revision;
        let gold = self.rng.random_bool(0.5);
        let mut record = Record { revision, key: call.key.clone(), prev: there, ..Record::default() };
        if call.op == Op::Delete {
            self.state.remove(&call.key);
        } else {
            record.labels = if gold { labels_of(&[("tier", "gold")]) } else { Labels::new() };
            (record.body, record.tag) = (body(revision), call.tag.clone());
            (call.revision, call.body) = (Some(revision), body(revision));
            self.state.insert(call.key.clone(), Version { revision, labels: record.labels.clone() });
        }
        self.log.push((self.now, record));
    }

    fn get(&mut self, call: &mut Call) {
        let now = self.state.get(&call.key).map(|version| version.revision);
        // A read that accepts any state gets the state at some earlier moment.
        let there = match call.asked {
            Asked::Recent | Asked::Exactly(_) => now,
            Asked::AtLeast(least) => {
                let moment = self.rng.random_range(least..=self.revision);
                let own = self.log.iter().rev().find(|(_, record)| record.key == call.key && record.revision <= moment);
                own.and_then(|(_, record)| record.body.as_ref().map(|_| record.revision))
            }
        };
        match there {
            Some(revision) => (call.revision, call.body) = (Some(revision), body(revision)),
            None => (call.outcome, call.reason) = (Outcome::Rejected, Some(Reason::Absent)),
        }
    }

    fn page(&mut self, client: u64, call: &mut Call) {
        let Some(page) = &mut call.list else { return };
        let (revision, mut rest) = match self.client(client).pages.take() {
            Some((first, rest)) => (first.revision.unwrap(), rest),
            None => {
                let selected = |version: &Version| page.selector.iter().all(|(n, v)| version.labels.get(n) == Some(v));
                let found = self.state.iter().filter(|(_, version)| selected(version));
                let items =
                    found.map(|(key, version)| (key.clone(), version.revision, body(version.revision).unwrap()));
                (self.revision, items.collect::<Items>())
            }
        };
        let paged = page.page > 0 || self.rng.random_bool(0.7);
        let rest_of = rest.split_off(if paged { LIMIT.min(rest.len()) } else { rest.len() });
        (page.items, page.more, call.revision) = (rest, !rest_of.is_empty(), Some(revision));
        if page.more {
            self.client(client).pages = Some((call.clone(), rest_of));
        }
    }

    fn end(&mut self, client: u64) {
        let now = self.now;
        let own = &mut self.client(client);
        let mut call = std::mem::take(&mut own.call);
        if call.outcome != Outcome::Unknown {
            call.returned = Some(now);
        }
        match (call.op, call.outcome, call.revision) {
            (Op::Create | Op::Update | Op::Get, Outcome::Ok, Some(revision)) => {
                own.seen.insert(call.key.clone(), revision);
            }
            (Op::Delete, Outcome::Ok, _) | (Op::Get | Op::Update | Op::Delete, Outcome::Rejected, _) => {
                own.seen.remove(&call.key);
            }
            _ => {}
        }
        self.calls.push(call);
        self.later(client, Phase::Begin);
    }

    /// Returns all lines: the truth, the calls, the watches.
    fn told(mut self) -> Vec<Line> {
        let own = vec!["m/".to_owned()];
        let mut lines = vec![Line::Truth(Truth { after: 0, through: self.revision, own })];
        lines.extend(self.log.iter().map(|(_, record)| Line::Record(record.clone())));
        lines.extend(std::mem::take(&mut self.calls).into_iter().map(Line::Call));
        for number in 0..self.shape.watches {
            self.watch(number, &mut lines);
        }
        lines
    }

    fn watch(&mut self, number: u64, lines: &mut Vec<Line>) {
        let selector = if number % 2 == 1 { labels_of(&[("tier", "gold")]) } else { Labels::new() };
        let selects = |record: &Record| {
            record.body.is_some() && selector.iter().all(|(name, value)| record.labels.get(name) == Some(value))
        };
        let (watch, client) = (format!("w{number}"), format!("w{number}"));
        let start = self.rng.random_range(0..=self.log.len());
        let (mut at, mut position) = match start.checked_sub(1).map(|last| &self.log[last]) {
            Some((at, record)) => (*at, record.revision),
            None => (0, 0),
        };
        let open = |from, at, replica: &str| {
            let (watch, client, replica, key) = (watch.clone(), client.clone(), replica.to_owned(), "m/".to_owned());
            Line::Watch(Open { watch, client, replica, key, selector: selector.clone(), from, at })
        };
        lines.push(open(position, at, "a"));
        for index in start..self.log.len() {
            let (happened, record) = &self.log[index];
            at = at.max(*happened) + self.rng.random_range(0..5);
            let mut last =
                self.log[..index].iter().rev().map(|(_, other)| other).filter(|other| other.key == record.key);
            let was = last.next().filter(|last| selects(last));
            let (told, shown) = match (was, Some(record).filter(|record| selects(record))) {
                (None, None) => continue,
                (None, Some(now)) => (EventType::Added, now),
                (Some(_), Some(now)) => (EventType::Modified, now),
                (Some(last), None) => (EventType::Deleted, last),
            };
            let (revision, body) = (record.revision, shown.body.clone());
            let (name, key) = (watch.clone(), record.key.clone());
            lines.push(Line::Event(Event { watch: name.clone(), at, told, key, revision: Some(revision), body }));
            position = revision;
            match self.rng.random_range(0..12) {
                0 => lines.push(open(position, at, "b")),
                1 => {
                    let told = EventType::Bookmark;
                    let revision = Some(position);
                    lines.push(Line::Event(Event { watch: name, at, told, revision, ..Event::default() }));
                }
                2 if number == 0 && self.log.len() - index > 3 => {
                    // The log was compacted beyond the watch's position.
                    lines.push(Line::Floor(Floor { revision: position + 1, at }));
                    lines.push(Line::Event(Event { watch: name, at, told: EventType::Gone, ..Event::default() }));
                    return;
                }
                _ => {}
            }
        }
        lines.push(Line::End(End { watch, at: at + 1, through: Some(self.revision) }));
    }
}

fn emptied(list: Option<Page>) -> Option<Page> {
    list.map(|page| Page { items: Vec::new(), more: false, ..page })
}

#[test]
fn the_same_seed_draws_the_same_history() {
    assert_eq!(history(WIDE, 7), history(WIDE, 7));
    assert_ne!(history(WIDE, 7), history(WIDE, 8));
    assert_eq!(tag(1), Some("t1".to_owned()));
}
