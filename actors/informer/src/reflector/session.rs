//! One attempt: get a complete state if there is none, then follow the events until something ends it.

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

/// Items of one page of a list.
const PAGE: u64 = 500;
/// So many decodes, then others get a turn.
const TURN: usize = 128;
/// A server that accepts a list-streaming watch and then says nothing for so long does not know it.
const SILENCE: Duration = Duration::from_secs(60);
/// How much longer than asked for a watch may last.
const OVERTIME: Duration = Duration::from_secs(30);
/// Who is told what another process reads hears something this often, or does not rely on it.
const TOLD: Duration = Duration::from_secs(1);
/// Who is told no more does not rely on it again for about as long: where much is lost, every loss costs a watch.
const ALONE: Duration = Duration::from_secs(1);

/// Why an attempt ended.
pub(super) enum End {
    /// The server ended the watch in good order.
    Finished,
    /// The revision is too old: start over.
    Expired,
    /// The server does not stream lists.
    Unsupported(Status),
    /// What another process reads is told no more.
    Untold,
    /// Anything else.
    Failed(Status),
}

/// A reflector between attempts.
pub(super) struct Session<T> {
    ctx: LoopCtx,
    source: Arc<Source>,
    cache: Arc<Cache<T>>,
    /// Where to go on; none to start over.
    pub(super) resume: Option<Revision>,
    pub(super) seen: Seen,
    /// Until then nobody else is relied on.
    alone: Instant,
}

type Items<T> = BTreeMap<Key, Arc<Item<T>>>;

impl<T: Project> Session<T> {
    pub(super) fn new(ctx: LoopCtx, source: Arc<Source>, cache: Arc<Cache<T>>) -> Self {
        let resume = position(&cache);
        Self { ctx, source, cache, resume, seen: Seen { watch_list: true, ..Seen::default() }, alone: clock::now() }
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
            if self.alone.passed()
                && let Some(series) = cache.relay().join(before, cache.revision())
            {
                drop((watching, stream));
                return Err(self.told(series).await);
            }
        }
    }

    /// Follows what another process reads, for as long as nothing of it is missing.
    async fn told(&mut self, series: u64) -> End {
        self.publish("told by another process");
        while let Some(at) = self.resume {
            let next = clock::timeout(TOLD, self.cache.relay().next(series, at)).await;
            let Ok(Some(Stretch { to, deltas, .. })) = next else { break };
            self.ctx.heartbeat();
            self.seen.told += deltas.len() as u64;
            // What it is ahead of may be about objects that are gone by now.
            let news = deltas.into_iter().filter(|delta| delta.revision() > at);
            self.cache.apply(news.chain([Delta::Mark(to)]));
            self.resume = position(&self.cache);
            // Where many wait, others get a turn in between.
            tokio::task::yield_now().await;
        }
        self.cache.relay().leave();
        self.alone = clock::after(rng::jitter(ALONE, 50));
        End::Untold
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
        Ok((stream, clock::after(time + OVERTIME)))
    }

    /// Takes a complete state from the beginning of a watch, which then goes on.
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
            let Ok(batch) = clock::timeout(SILENCE, stream.next()).await else {
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
                        // What came in the same batch behind the bookmark belongs to the time after it.
                        self.follow(batch.collect()).await?;
                        return Ok((stream, ends));
                    }
                    Event::Error(status) => return Err(or_list(status)),
                }
                self.turn(items.len()).await;
            }
        }
    }

    /// Takes a complete state by lists, page by page; by one big list when the pages' revision expires on the way.
    async fn list_state(&mut self) -> Result<Revision, End> {
        self.publish("listing");
        let (mut limit, mut token, mut items) = (PAGE, Str::default(), Items::new());
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
        let told = self.cache.relay().is_told();
        for event in batch {
            let delta = match event {
                Event::Added(object) | Event::Modified(object) => match self.cache.item(&object) {
                    Ok(item) => {
                        objects.extend(told.then_some(object));
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
        if told {
            self.cache.apply(deltas.iter().cloned());
            self.cache.relay().read((from, self.cache.revision()), deltas, objects);
        } else {
            self.cache.apply(deltas);
        }
        self.resume = position(&self.cache);
        end
    }

    async fn turn(&self, done: usize) {
        if done.is_multiple_of(TURN) {
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
