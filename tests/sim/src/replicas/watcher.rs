//! One watch through ends, breaks and servers, with each event recorded. Some watchers repeatedly do not read for a long time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use oarlock_check::history::{End, Event as Heard, EventType, Labels, Line, Open};
use oarlock_client::{Event, ListOptions, Object};
use oarlock_meta::Revision;
use oarlock_runtime::{Instant, Rng, clock};

use super::client::Client;
use super::objects::{NAMESPACE, gold, prefix, read, row, selector};
use super::world::World;

/// Longest pause of a watcher that does not read. Longer than a server's window, so history may be compacted meanwhile.
const LONGEST_PAUSE: Duration = Duration::from_secs(9);
/// Number of writes during a pause after which the watcher counts as slow.
const MISSED: u64 = 10;
/// Time to wait for the last event after the last fault.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(60);

/// A client with one watch, which records each event and resumes the watch after ends and breaks.
pub(super) struct Watcher {
    world: Arc<World>,
    lister: Client,
    plural: &'static str,
    index: usize,
    labels: Labels,
    slow: bool,
    name: String,
    rng: Rng,
    /// How often the watch started anew.
    generation: u64,
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
    /// Makes the `number`th watch of the `index`th resource.
    pub(super) fn new(world: Arc<World>, plural: &'static str, index: usize, number: u64, mut rng: Rng) -> Self {
        let name = format!("w{index}-{number}");
        let lister = Client::new(Arc::clone(&world), name.clone(), rng.fork());
        let labels = if number % 2 == 1 { gold() } else { Labels::new() };
        Self { world, lister, plural, index, labels, slow: number >= 2, name, rng, generation: 0 }
    }

    /// Lists, watches and resumes; starts anew after a 410. Ends when the last write was received or its deadline has passed.
    pub(super) async fn run(mut self) {
        let mut position = None;
        let mut patience: Option<Instant> = None;
        loop {
            let last = self.last();
            let late = last > 0 && patience.get_or_insert_with(|| clock::after(CATCH_UP_TIMEOUT)).passed();
            if late || (last > 0 && position.is_some_and(|position| position >= last)) {
                return self.end(last);
            }
            let from = match position {
                Some(from) => from,
                None => match self.lister.start_of_watch(self.plural).await {
                    Some(from) => {
                        self.generation += 1;
                        from
                    }
                    None => continue,
                },
            };
            let (told, ended) = self.watch(from).await;
            position = Some(told).filter(|_| !matches!(ended, Ended::Gone));
            if matches!(ended, Ended::Done) {
                return self.end(self.last());
            }
        }
    }

    /// Returns the last revision that the watch must receive; 0 while unknown.
    fn last(&self) -> u64 {
        self.world.last[self.index].load(Ordering::Relaxed)
    }

    fn id(&self) -> String {
        format!("{}-{}", self.name, self.generation)
    }

    fn end(&self, through: u64) {
        let end = End { watch: self.id(), at: self.world.recorder.now(), through: Some(through) };
        // A watch that never started needs no record of its end.
        if self.generation > 0 {
            self.world.recorder.write(Line::End(end));
        }
    }

    /// Reads one stream; returns the last revision received and how the stream ended.
    async fn watch(&mut self, from: u64) -> (u64, Ended) {
        let replica = Arc::clone(self.rng.pick(&self.world.replicas).unwrap());
        self.world.recorder.write(Line::Watch(Open {
            watch: self.id(),
            client: self.name.clone(),
            replica: replica.name.clone(),
            key: prefix(self.plural),
            selector: self.labels.clone(),
            from,
            at: self.world.recorder.now(),
        }));
        let options = ListOptions {
            resource_version: Some(Revision(from)),
            allow_bookmarks: true,
            timeout: Some(Duration::from_secs(3 + self.rng.below(10))),
            ..ListOptions::labels(selector(&self.labels))
        };
        let Some(mut stream) = replica.watch(row(self.plural), NAMESPACE, options).await else {
            clock::sleep(Duration::from_millis(20)).await;
            return (from, Ended::Resume);
        };
        let mut position = from;
        while let Ok(Some(events)) = stream.next().await {
            for event in events {
                match self.hear(&event) {
                    Some(told) => position = told,
                    None if matches!(&event, Event::Error(status) if status.code == 410) => {
                        return (position, Ended::Gone);
                    }
                    None => return (position, Ended::Resume),
                }
            }
            let last = self.last();
            if last > 0 && position >= last {
                return (position, Ended::Done);
            }
            if last == 0 && self.slow && self.rng.chance(1, 3) {
                clock::sleep(self.rng.jitter(LONGEST_PAUSE, 80)).await;
                let slow = self.world.truth.revision().get() >= position + MISSED;
                self.world.marks.note("slow consumer", u64::from(slow));
            }
        }
        (position, Ended::Resume)
    }

    /// Records an event; returns its revision, `None` for an error.
    fn hear(&self, event: &Event) -> Option<u64> {
        let heard = |told, object: &Object| {
            let (value, hash) = read(object);
            let key = prefix(self.plural) + value["metadata"]["name"].as_str().unwrap();
            Heard { told, key, revision: Some(object.revision.get()), body: Some(hash), ..Heard::default() }
        };
        let heard = match event {
            Event::Added(object) => heard(EventType::Added, object),
            Event::Modified(object) => heard(EventType::Modified, object),
            Event::Deleted(object) => heard(EventType::Deleted, object),
            Event::Bookmark { revision, .. } => {
                Heard { told: EventType::Bookmark, revision: Some(revision.get()), ..Heard::default() }
            }
            Event::Error(status) if status.code == 410 => Heard { told: EventType::Gone, ..Heard::default() },
            Event::Error(_) => return None,
        };
        let revision = heard.revision;
        if heard.told == EventType::Gone {
            self.world.marks.note("watch told 410", 1);
        }
        self.world.recorder.write(Line::Event(Heard { watch: self.id(), at: self.world.recorder.now(), ..heard }));
        revision
    }
}
