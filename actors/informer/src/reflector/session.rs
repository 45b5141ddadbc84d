//! One session of a reflector: gets a complete state if the cache has none, then applies events until the watch ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oarlock_client::{Event, ListOptions, VersionMatch, WatchStream};
use oarlock_meta::{Revision, Status};
use oarlock_runtime::{Instant, LoopCtx, clock, rng};
use oarlock_schema::Str;
use oarlock_seeded_bug::seeded_bug;

use super::{Seen, Source, broken, decode, expired, position, unsupported, watch_time};
use crate::cache::Cache;
use crate::item::Item;
use crate::key::Key;
use crate::project::Project;
use crate::relay::{Delta, Stretch};

/// The number of objects in one page of a list.
const PAGE_ITEMS: u64 = 500;
/// The number of decoded objects after which the task yields to others.
const DECODES_PER_TURN: usize = 128;
/// The longest silence of a list-streaming watch before its closing bookmark. A server that is silent for longer does not support such watches.
const INITIAL_EVENTS_SILENCE: Duration = Duration::from_secs(60);
/// The time by which a watch may exceed its `timeoutSeconds`.
const WATCH_OVERTIME: Duration = Duration::from_secs(30);
/// The longest silence of the relay's publisher; after this the reflector returns to a watch of its own.
const RELAY_SILENCE: Duration = Duration::from_secs(1);
/// About the time that a reflector keeps its own watch after the relay ended: if many stretches are lost, each loss costs a new watch.
const PAUSE_BEFORE_RELAY: Duration = Duration::from_secs(1);

/// Why a session ended.
pub(super) enum End {
    /// The server ended the watch in good order.
    Finished,
    /// The revision is too old: the reflector must start over.
    Expired,
    /// The server does not stream lists.
    Unsupported(Status),
    /// The relay from another process ended.
    RelayEnded,
    /// Another failure.
    Failed(Status),
}

/// The state of a reflector that outlives single sessions.
pub(super) struct Session<T> {
    ctx: LoopCtx,
    source: Arc<Source>,
    cache: Arc<Cache<T>>,
    /// The revision to resume from; `None` to start over.
    pub(super) resume: Option<Revision>,
    pub(super) seen: Seen,
    /// Until then the reflector keeps its own watch and does not use the relay.
    relay_not_before: Instant,
}

type Items<T> = BTreeMap<Key, Arc<Item<T>>>;

impl<T: Project> Session<T> {
    pub(super) fn new(ctx: LoopCtx, source: Arc<Source>, cache: Arc<Cache<T>>) -> Self {
        let resume = position(&cache);
        Self {
            ctx,
            source,
            cache,
            resume,
            seen: Seen { watch_list: true, ..Seen::default() },
            relay_not_before: clock::now(),
        }
    }

    pub(super) fn publish(&mut self, doing: &'static str) {
        self.seen.doing = doing;
        self.seen.items = self.cache.len();
        let progress = self.cache.progress();
        (self.seen.synced, self.seen.revision) = (progress.synced, progress.revision.get());
        self.ctx.publish(&self.seen);
    }

    pub(super) async fn run(&mut self) -> End {
        match self.attempt().await {
            Ok(()) => End::Finished,
            Err(end) => end,
        }
    }

    async fn attempt(&mut self) -> Result<(), End> {
        let (mut stream, ends) = match self.resume {
            Some(revision) if seeded_bug!("watch_resumes_late") => self.open(Revision(revision.get() + 1)).await?,
            Some(revision) => self.open(revision).await?,
            None if self.seen.watch_list => self.stream_state().await?,
            None => {
                let revision = self.list_state().await?;
                self.open(revision).await?
            }
        };
        self.publish("watching");
        let cache = Arc::clone(&self.cache);
        let watching = cache.relay().watching();
        loop {
            let Ok(batch) = clock::timeout_at(ends, stream.next()).await else {
                return Err(End::Failed(broken("the watch outlived its time")));
            };
            let Some(batch) = batch else { return Ok(()) };
            self.seen.failures = 0;
            let before = self.cache.revision();
            self.follow(batch).await?;
            if self.relay_not_before.passed()
                && let Some(series) = cache.relay().join(before, cache.revision())
            {
                drop((watching, stream));
                return Err(self.follow_relay(series).await);
            }
        }
    }

    /// Applies the changes that another process has read, for as long as no stretch is missing.
    async fn follow_relay(&mut self, series: u64) -> End {
        self.publish("told by another process");
        while let Some(at) = self.resume {
            let next = clock::timeout(RELAY_SILENCE, self.cache.relay().next(series, at)).await;
            let Ok(Some(Stretch { to, deltas, .. })) = next else { break };
            self.ctx.heartbeat();
            self.seen.told += deltas.len() as u64;
            // Changes at or before the cache's revision may concern objects that are deleted by now.
            let news = deltas.into_iter().filter(|delta| delta.revision() > at);
            self.cache.apply(news.chain([Delta::Mark(to)]));
            self.resume = position(&self.cache);
            // Many stretches may be waiting; other tasks get a turn between two.
            tokio::task::yield_now().await;
        }
        self.cache.relay().leave();
        self.relay_not_before = clock::after(rng::jitter(PAUSE_BEFORE_RELAY, 50));
        End::RelayEnded
    }

    /// Begins a watch after `revision`.
    async fn open(&mut self, revision: Revision) -> Result<(WatchStream, clock::Instant), End> {
        let options = ListOptions { resource_version: Some(revision), allow_bookmarks: true, ..self.source.options() };
        self.watch(options).await.map_err(End::of)
    }

    async fn watch(&mut self, mut options: ListOptions) -> Result<(WatchStream, clock::Instant), Status> {
        let (client, time) = (&self.source.client, watch_time());
        options.timeout = Some(time);
        self.seen.watches += 1;
        let accepted = client.watch(self.source.resource, &self.source.selection.namespace, options);
        let stream = clock::timeout(client.timeout(), accepted)
            .await
            .unwrap_or_else(|_| Err(broken("the watch was not accepted in time")))?;
        Ok((stream, clock::after(time + WATCH_OVERTIME)))
    }

    /// Takes a complete state from the beginning of a watch, and returns the watch.
    async fn stream_state(&mut self) -> Result<(WatchStream, clock::Instant), End> {
        self.publish("streaming the state");
        let options = ListOptions {
            send_initial_events: Some(true),
            version_match: Some(VersionMatch::NotOlderThan),
            allow_bookmarks: true,
            ..self.source.options()
        };
        let or_list = |status: Status| if unsupported(&status) { End::Unsupported(status) } else { End::of(status) };
        let (mut stream, ends) = self.watch(options).await.map_err(or_list)?;
        let mut items = Items::new();
        loop {
            let Ok(batch) = clock::timeout(INITIAL_EVENTS_SILENCE, stream.next()).await else {
                return Err(End::Unsupported(broken("no closing bookmark came")));
            };
            let Some(batch) = batch else {
                return Err(End::Failed(broken("the watch ended before the closing bookmark")));
            };
            let mut batch = batch.into_iter();
            while let Some(event) = batch.next() {
                match event {
                    Event::Added(object) | Event::Modified(object) => match decode::known(&self.cache, &object) {
                        Ok(item) => drop(items.insert(item.key().clone(), item)),
                        Err(status) => self.unreadable(&status),
                    },
                    Event::Deleted(object) => match decode::key(&object) {
                        Ok(key) => drop(items.remove(&key)),
                        Err(status) => self.unreadable(&status),
                    },
                    Event::Bookmark { initial_events_end: false, .. } => {}
                    Event::Bookmark { revision, initial_events_end: true } => {
                        self.state(items, revision);
                        // The events after the bookmark in the same batch follow the complete state.
                        self.follow(batch.collect()).await?;
                        return Ok((stream, ends));
                    }
                    Event::Error(status) => return Err(or_list(status)),
                }
                self.turn(items.len()).await;
            }
        }
    }

    /// Takes a complete state page by page; by one unpaged list if the pages' revision expires meanwhile.
    async fn list_state(&mut self) -> Result<Revision, End> {
        self.publish("listing");
        let (mut limit, mut token, mut items) = (PAGE_ITEMS, Str::default(), Items::new());
        loop {
            let options = ListOptions { limit, continue_token: token.clone(), ..self.source.options() };
            let (resource, namespace) = (self.source.resource, &self.source.selection.namespace);
            let list = match self.source.client.list(resource, namespace, options).await {
                Ok(list) => list,
                Err(status) if expired(&status) && limit > 0 => {
                    (limit, token) = (0, Str::default());
                    items.clear();
                    continue;
                }
                Err(status) => return Err(End::Failed(status)),
            };
            for object in &list.items {
                match decode::known(&self.cache, object) {
                    Ok(item) => drop(items.insert(item.key().clone(), item)),
                    Err(status) => self.unreadable(&status),
                }
                self.turn(items.len()).await;
            }
            if list.continue_token.is_empty() {
                self.state(items, list.revision);
                return Ok(list.revision);
            }
            token = list.continue_token;
        }
    }

    fn state(&mut self, items: Items<T>, revision: Revision) {
        self.cache.replace(items, revision);
        self.cache.relay().begin();
        self.resume = Some(revision);
        self.seen.states += 1;
    }

    /// Applies a batch of events that follow a complete state.
    async fn follow(&mut self, batch: Vec<Event>) -> Result<(), End> {
        let (mut deltas, mut objects, mut end) = (Vec::with_capacity(batch.len()), Vec::new(), Ok(()));
        let published = self.cache.relay().is_published();
        for event in batch {
            let delta = match event {
                Event::Added(object) | Event::Modified(object) => match self.cache.item(&object) {
                    Ok(item) => {
                        objects.extend(published.then_some(object));
                        Delta::Set(item)
                    }
                    Err(status) => {
                        self.unreadable(&status);
                        Delta::Mark(object.revision)
                    }
                },
                Event::Deleted(object) => match decode::key(&object) {
                    Ok(key) => Delta::Gone(key, object.revision),
                    Err(status) => {
                        self.unreadable(&status);
                        Delta::Mark(object.revision)
                    }
                },
                Event::Bookmark { revision, .. } => Delta::Mark(revision),
                Event::Error(status) => {
                    end = Err(End::of(status));
                    break;
                }
            };
            deltas.push(delta);
            self.turn(deltas.len()).await;
        }
        let from = self.cache.revision();
        if published {
            self.cache.apply(deltas.iter().cloned());
            self.cache.relay().read((from, self.cache.revision()), deltas, objects);
        } else {
            self.cache.apply(deltas);
        }
        self.resume = position(&self.cache);
        end
    }

    async fn turn(&self, done: usize) {
        if done.is_multiple_of(DECODES_PER_TURN) {
            self.ctx.heartbeat();
            tokio::task::yield_now().await;
        }
    }

    fn unreadable(&mut self, status: &Status) {
        self.seen.unreadable += 1;
        tracing::error!(actor = self.ctx.name(), %status, "object left out of the cache");
    }
}

impl End {
    fn of(status: Status) -> Self {
        if expired(&status) { Self::Expired } else { Self::Failed(status) }
    }
}
