//! One session of a reflector: gets a complete state if the cache has none, then applies events until the watch ends.

use std::sync::Arc;
use std::time::Duration;

use oarlock_client::{Event, ListOptions, VersionMatch, WatchStream};
use oarlock_meta::{Revision, Status};
use oarlock_runtime::{Instant, LoopCtx, clock, rng};
use oarlock_schema::Str;
use oarlock_seeded_bug::seeded_bug;

use super::target::CompleteState;
use super::{Seen, Source, Target, broken, expired, position, unsupported, watch_time};

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
pub(super) struct Session {
    ctx: LoopCtx,
    source: Arc<Source>,
    cache: Arc<dyn Target>,
    /// The revision to resume from; `None` to start over.
    pub(super) resume: Option<Revision>,
    pub(super) seen: Seen,
    /// Until then the reflector keeps its own watch and does not use the relay.
    relay_not_before: Instant,
}

impl Session {
    pub(super) fn new(ctx: LoopCtx, source: Arc<Source>, cache: Arc<dyn Target>) -> Self {
        let resume = position(&*cache);
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
        let watching = cache.watching();
        loop {
            let Ok(batch) = clock::timeout_at(ends, stream.next()).await else {
                return Err(End::Failed(broken("the watch outlived its time")));
            };
            let Some(batch) = batch else { return Ok(()) };
            self.seen.failures = 0;
            let before = self.cache.progress().revision;
            self.follow(batch).await?;
            if self.relay_not_before.passed()
                && let Some(series) = cache.join_relay(before)
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
            let next = clock::timeout(RELAY_SILENCE, self.cache.next_of_relay(series, at)).await;
            let Ok(Some(told)) = next else { break };
            self.ctx.heartbeat();
            self.seen.told += told;
            self.resume = position(&*self.cache);
            // Many stretches may be waiting; other tasks get a turn between two.
            tokio::task::yield_now().await;
        }
        self.cache.leave_relay();
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
        let mut state = Arc::clone(&self.cache).complete_state();
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
                    Event::Added(object) | Event::Modified(object) => self.log_unreadable(state.add(&object)),
                    Event::Deleted(object) => self.log_unreadable(state.remove(&object)),
                    Event::Bookmark { initial_events_end: false, .. } => {}
                    Event::Bookmark { revision, initial_events_end: true } => {
                        self.finish(state, revision);
                        // The events after the bookmark in the same batch follow the complete state.
                        self.follow(batch.collect()).await?;
                        return Ok((stream, ends));
                    }
                    Event::Error(status) => return Err(or_list(status)),
                }
                self.turn(state.len()).await;
            }
        }
    }

    /// Takes a complete state page by page; by one unpaged list if the pages' revision expires meanwhile.
    async fn list_state(&mut self) -> Result<Revision, End> {
        self.publish("listing");
        let (mut limit, mut token) = (PAGE_ITEMS, Str::default());
        let mut state = Arc::clone(&self.cache).complete_state();
        loop {
            let options = ListOptions { limit, continue_token: token.clone(), ..self.source.options() };
            let (resource, namespace) = (self.source.resource, &self.source.selection.namespace);
            let list = match self.source.client.list(resource, namespace, options).await {
                Ok(list) => list,
                Err(status) if expired(&status) && limit > 0 => {
                    (limit, token) = (0, Str::default());
                    state = Arc::clone(&self.cache).complete_state();
                    continue;
                }
                Err(status) => return Err(End::Failed(status)),
            };
            for object in &list.items {
                self.log_unreadable(state.add(object));
                self.turn(state.len()).await;
            }
            if list.continue_token.is_empty() {
                self.finish(state, list.revision);
                return Ok(list.revision);
            }
            token = list.continue_token;
        }
    }

    fn finish(&mut self, state: Box<dyn CompleteState>, revision: Revision) {
        state.finish(revision);
        self.resume = Some(revision);
        self.seen.states += 1;
    }

    /// Applies a batch of events that follow a complete state.
    async fn follow(&mut self, events: Vec<Event>) -> Result<(), End> {
        let mut batch = Arc::clone(&self.cache).batch(events.len());
        let mut end = Ok(());
        for event in events {
            match event {
                Event::Added(object) | Event::Modified(object) => self.log_unreadable(batch.set(object)),
                Event::Deleted(object) => self.log_unreadable(batch.delete(&object)),
                Event::Bookmark { revision, .. } => batch.mark(revision),
                Event::Error(status) => {
                    end = Err(End::of(status));
                    break;
                }
            }
            self.turn(batch.len()).await;
        }
        batch.apply();
        self.resume = position(&*self.cache);
        end
    }

    async fn turn(&self, done: usize) {
        if done.is_multiple_of(DECODES_PER_TURN) {
            self.ctx.heartbeat();
            tokio::task::yield_now().await;
        }
    }

    /// Counts and logs an object that could not be read.
    fn log_unreadable(&mut self, outcome: Result<(), Status>) {
        if let Err(status) = outcome {
            self.seen.unreadable += 1;
            tracing::error!(actor = self.ctx.name(), %status, "object left out of the cache");
        }
    }
}

impl End {
    fn of(status: Status) -> Self {
        if expired(&status) { Self::Expired } else { Self::Failed(status) }
    }
}
