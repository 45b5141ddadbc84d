//! One watch of a workload, resumed after ends and breaks at other servers, which records every event.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::client::Client;
use super::{Collection, Counts, Shared};
use crate::history::{body, key, revision};
use crate::http::Stream;
use crate::wait::{Progress, pause};

/// One watch of a workload.
pub(super) struct Watcher {
    shared: Arc<Shared>,
    lister: Client,
    collection: Collection,
    index: usize,
    selector: Value,
    name: String,
    /// How often the watch started anew.
    generation: u64,
    /// Index of the next server.
    turn: usize,
}

/// How a stream of events ended.
enum Ended {
    /// The stream ended, cleanly or not, and can be resumed.
    Resume,
    /// The revision to resume from was compacted (410).
    Gone,
    /// All events were received.
    Done,
}

impl Watcher {
    pub(super) fn new(shared: Arc<Shared>, index: usize, number: usize) -> Self {
        let collection = shared.options.collections[index].clone();
        let name = format!("w{index}-{number}");
        let lister = Client::new(Arc::clone(&shared), name.clone(), (1 << 32) + (index * 1000 + number) as u64);
        let selector = if number % 2 == 1 { json!({"tier": "gold"}) } else { json!({}) };
        Self { shared, lister, collection, index, selector, name, generation: 0, turn: number }
    }

    /// Lists, watches and resumes; starts anew after a 410. Ends when the last write was received or progress stops.
    pub(super) fn run(mut self) {
        let (mut progress, mut furthest) = (Progress::default(), None);
        let mut position = None;
        loop {
            let last = self.last();
            if last > 0 && position.is_some_and(|position| position >= last) {
                return self.end(last);
            }
            furthest = furthest.max(position);
            if last > 0 && progress.stalled(furthest) {
                return self.end(last);
            }
            let from = match position {
                Some(from) => from,
                None => match self.lister.start_of_watch(&self.collection) {
                    Some(from) => {
                        self.generation += 1;
                        from
                    }
                    None => continue,
                },
            };
            let (told, ended) = self.watch(from);
            position = Some(told);
            match ended {
                Ended::Resume => {}
                Ended::Gone => {
                    Counts::count(&self.shared.counts.gone);
                    position = None;
                }
                Ended::Done => return self.end(self.last()),
            }
        }
    }

    /// Returns the last revision that the watch must receive; 0 while unknown.
    fn last(&self) -> u64 {
        self.shared.last[self.index].load(Ordering::Acquire)
    }

    fn id(&self) -> String {
        format!("{}-{}", self.name, self.generation)
    }

    fn end(&self, through: u64) {
        let at = self.shared.recorder.now();
        self.shared.recorder.write(&json!({"line": "end", "watch": self.id(), "at": at, "through": through}));
    }

    /// Reads one stream; returns the last revision received and how the stream ended.
    fn watch(&mut self, from: u64) -> (u64, Ended) {
        let replica = self.shared.replicas[self.turn % self.shared.replicas.len()].clone();
        self.turn += 1;
        let recorder = Arc::clone(&self.shared.recorder);
        recorder.write(&json!({"line": "watch", "watch": self.id(), "client": self.name, "replica": replica.name,
            "key": self.collection.prefix(), "selector": self.selector, "from": from, "at": recorder.now()}));
        let selector = if self.selector["tier"].is_string() { "&labelSelector=tier%3Dgold" } else { "" };
        // The server ends the watch before the client's limit for silence.
        let seconds = self.shared.options.patience.as_secs() / 2;
        let path = format!(
            "{}?watch=1&resourceVersion={from}&allowWatchBookmarks=true&timeoutSeconds={seconds}{selector}",
            self.collection.path()
        );
        match replica.http.open("GET", &path, &[], b"") {
            Ok(stream) if stream.code == 200 => self.follow(from, stream),
            Ok(stream) if stream.code == 410 => self.gone(from),
            Ok(stream) if stream.code < 500 && stream.code != 429 => panic!("{path}: {:?}", stream.finish()),
            Ok(stream) => self.broke(from, &format!("{path}: {:?}", stream.finish())),
            Err(error) => self.broke(from, &format!("{path}: {error}")),
        }
    }

    fn broke(&self, position: u64, why: &str) -> (u64, Ended) {
        let counts = &self.shared.counts;
        counts.mark(&counts.broken, format!("{} after {position}: {why}", self.id()));
        pause();
        (position, Ended::Resume)
    }

    fn gone(&self, position: u64) -> (u64, Ended) {
        let at = self.shared.recorder.now();
        self.shared.recorder.write(&json!({"line": "event", "watch": self.id(), "at": at, "told": "gone"}));
        (position, Ended::Gone)
    }

    fn follow(&self, mut position: u64, mut stream: Stream) -> (u64, Ended) {
        loop {
            let event = match stream.try_event() {
                Ok(Some(event)) => event,
                Ok(None) => {
                    Counts::count(&self.shared.counts.resumed);
                    return (position, Ended::Resume);
                }
                Err(error) => return self.broke(position, &error.to_string()),
            };
            let at = self.shared.recorder.now();
            let object = &event["object"];
            let told = match event["type"].as_str() {
                Some("ADDED") => "added",
                Some("MODIFIED") => "modified",
                Some("DELETED") => "deleted",
                Some("BOOKMARK") => "bookmark",
                Some("ERROR") if object["code"] == 410 => return self.gone(position),
                Some("ERROR") => return self.broke(position, &event.to_string()),
                _ => panic!("no event: {event}"),
            };
            position = revision(object);
            let mut line = json!({"line": "event", "watch": self.id(), "at": at, "told": told, "revision": position});
            if told != "bookmark" {
                line["key"] = json!(key(self.collection.plural(), object));
                line["body"] = json!(body(object));
            }
            self.shared.recorder.write(&line);
            Counts::count(&self.shared.counts.events);
            let last = self.last();
            if last > 0 && position >= last {
                return (position, Ended::Done);
            }
        }
    }
}
