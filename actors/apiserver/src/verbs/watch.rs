//! Watches objects: optional initial state, then the events of the shared ring that this watcher's selectors match.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Fuse};
use oarlock_client::{ListOptions, VersionMatch};
use oarlock_meta::{Revision, Status};
use oarlock_runtime::{Instant, Watched, clock, rng};
use oarlock_schema::Str;
use oarlock_store::{Entry, Event, EventKind, Gone, Interest, Snapshot, View, WatchCursor};

use super::selection::{COMPARISONS_PER_TURN, Selection};
use crate::caller::Caller;
use crate::server::Server;
use crate::state::Watching;
use crate::target::Target;

/// Maximum number of events that are delivered at a time.
const MAX_BATCH: usize = 256;
/// Number of bytes of objects after which a batch of initial items is complete: their bodies are in memory until they are encoded.
const MAX_BATCH_BYTES: usize = 256 << 10;
/// Approximate interval between bookmarks.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// A watch without `timeoutSeconds` ends after one to two times this duration (upstream: `--min-request-timeout`).
const MIN_TIMEOUT: Duration = Duration::from_secs(1800);

/// One item that is sent to the watcher.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// An object that exists at the start of the watch.
    Initial(Arc<Entry>),
    /// An event of the type that the ring has.
    Plain(Arc<Event>),
    /// An event of another type for this watcher than in the ring, because the object entered or left the watcher's selection.
    Crossed(EventKind, Arc<Entry>),
    /// All events up to this revision have been delivered.
    Bookmark {
        /// The revision.
        revision: Revision,
        /// Whether this bookmark ends the initial objects.
        initial_end: bool,
    },
    /// The watch failed; this is the last item.
    Failed(Status),
}

impl Delivery {
    /// Returns the entry of the object while its body is cold.
    fn cold(&self) -> Option<&Arc<Entry>> {
        match self {
            Self::Initial(entry) | Self::Crossed(_, entry) => Some(entry).filter(|entry| entry.bytes().is_none()),
            _ => None,
        }
    }
}

/// The initial items of a watch that have not been delivered yet. A client that does not read them holds a snapshot, which shares its objects with the
/// View, and no list of its own.
#[derive(Default)]
struct InitialItems {
    /// The state that remains to be delivered, and the key at which it begins.
    objects: Option<(Snapshot, Str)>,
    /// The item after the objects.
    last: Option<Delivery>,
}

/// An open watch.
pub struct Watch {
    view: View,
    /// `None` when the watch could not begin; the initial items then contain the error.
    cursor: Option<WatchCursor>,
    selection: Arc<Selection>,
    /// Namespace of the watch; empty for all namespaces.
    namespace: Str,
    initial: InitialItems,
    bookmarks: bool,
    next_bookmark: Instant,
    ends: Instant,
    /// Revisions after which a bookmark must be sent soon.
    milestones: Arc<Watched<Revision>>,
    milestone: Revision,
    last_bookmark: Revision,
    over: bool,
    /// Resolves when the server shuts down, to the period over which the ends of its watches are spread.
    server_ends: Fuse<BoxFuture<'static, Duration>>,
    _counted: Watching,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("over", &self.over).finish_non_exhaustive()
    }
}

/// Starts a watch.
///
/// # Errors
/// 400 and 422 for invalid options, 504 when the initial state is not fresh in time. A revision below the watch window is not an error of the start:
/// as with upstream, such a watch delivers its 410 as the only event, which is where reflectors expect it.
pub async fn watch(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    options: &ListOptions,
) -> Result<Watch, Status> {
    let selection = Arc::new(Selection::new(target.resource(), target.namespace, options)?);
    let prefix = target.prefix()?;
    let streams_initial = options.send_initial_events == Some(true);
    let from_now = options.resource_version.is_none_or(Revision::is_zero);
    let wants_initial = match options.send_initial_events {
        Some(wants) => wants,
        None => from_now,
    };
    let mut last_bookmark = Revision::ZERO;
    let (after, mut initial) = if wants_initial || from_now {
        let fresh = if streams_initial && options.resource_version.is_none() {
            None
        } else {
            options.resource_version.or(Some(Revision::ZERO))
        };
        server.fresh_enough(fresh, caller.deadline).await?;
        let snapshot = server.view().list(prefix);
        let (revision, mut initial) = (snapshot.revision(), InitialItems::default());
        if wants_initial {
            if streams_initial && options.allow_bookmarks {
                last_bookmark = revision;
                initial.last = Some(Delivery::Bookmark { revision, initial_end: true });
            }
            let any = snapshot.range(within(target.namespace), "").next().is_some();
            initial.objects = any.then(|| (snapshot, Str::default()));
        }
        (revision, initial)
    } else {
        (options.resource_version.unwrap_or(Revision::ZERO), InitialItems::default())
    };
    let filter_selection = Arc::clone(&selection);
    let filter = (!selection.is_everything()).then(|| {
        Box::new(move |event: &Event| {
            filter_selection.matches(&event.entry) || event.prev.as_ref().is_some_and(|p| filter_selection.matches(p))
        }) as oarlock_store::Filter
    });
    let cursor = server.view().watch(prefix, after, interest(target, &selection), filter);
    if let Err(gone) = &cursor {
        initial = InitialItems { objects: None, last: Some(too_old(after, *gone)) };
    }
    let lifetime = options.timeout.unwrap_or_else(|| MIN_TIMEOUT + rng::jitter(MIN_TIMEOUT, 100) / 2);
    let (counted, server_ends) = server.state().watch();
    Ok(Watch {
        view: server.view().clone(),
        cursor: cursor.ok(),
        selection,
        namespace: target.namespace.into(),
        initial,
        bookmarks: options.allow_bookmarks,
        next_bookmark: clock::after(BOOKMARK_INTERVAL),
        ends: clock::after(lifetime),
        milestones: Arc::clone(server.state().milestones()),
        // A milestone that was passed since then makes a bookmark due at once.
        milestone: server.state().milestones().get().min(after),
        last_bookmark,
        over: false,
        server_ends: server_ends.boxed().fuse(),
        _counted: counted,
    })
}

/// Returns the namespace to read; `None` for all.
fn within(namespace: &str) -> Option<&str> {
    Some(namespace).filter(|namespace| !namespace.is_empty())
}

fn too_old(after: Revision, gone: Gone) -> Delivery {
    Delivery::Failed(Status::too_old_resource_version(after.get(), gone.floor.get()))
}

/// Checks the options that a watch does not allow (upstream: `ValidateListOptions` with watch).
///
/// # Errors
/// 422.
pub fn validate(options: &ListOptions) -> Result<(), Status> {
    use oarlock_meta::{ErrorList, FieldError, GroupKind, Path};
    let mut errors = ErrorList::default();
    let matches = Path::new("resourceVersionMatch");
    match (options.send_initial_events, options.version_match) {
        (Some(_), None) => errors.push(FieldError::forbidden(
            &matches,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        )),
        (Some(_), Some(VersionMatch::Exact)) => {
            errors.push(FieldError::not_supported(&matches, "Exact", &["NotOlderThan"]))
        }
        (None, Some(_)) => errors.push(FieldError::forbidden(
            &matches,
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        )),
        _ => {}
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new("meta.k8s.io", "ListOptions"), "", errors.as_slice()))
}

fn interest(target: &Target<'_>, selection: &Selection) -> Interest {
    if let Some(name) =
        selection.single_name().filter(|_| !target.namespace.is_empty() || !target.resource().namespaced)
    {
        return Interest::Object { namespace: target.namespace.into(), name: name.into() };
    }
    if let Some((field, value)) = selection.indexed_field() {
        return Interest::Field { field: field.into(), value: value.into() };
    }
    if target.namespace.is_empty() { Interest::All } else { Interest::Namespace(target.namespace.into()) }
}

impl Watch {
    /// Whether all initial items have been delivered.
    #[must_use]
    pub fn is_initialized(&self) -> bool {
        self.initial.objects.is_none() && self.initial.last.is_none()
    }

    /// Returns the approximate number of bytes of memory that the selectors take.
    #[must_use]
    pub fn selector_bytes(&self) -> usize {
        self.selection.bytes()
    }

    /// Returns the next initial items; `None` when all have been delivered.
    async fn initial(&mut self) -> Option<Vec<Delivery>> {
        loop {
            let Some((snapshot, start)) = &mut self.initial.objects else {
                return self.initial.last.take().map(|last| vec![last]);
            };
            let (mut found, mut next, mut compared, mut bytes) = (Vec::new(), None, 0, 0);
            for entry in snapshot.range(within(&self.namespace), start) {
                if found.len() == MAX_BATCH || bytes >= MAX_BATCH_BYTES || compared >= COMPARISONS_PER_TURN {
                    next = Some(Str::new(entry.key.rest()));
                    break;
                }
                compared += self.selection.comparisons();
                if self.selection.matches(entry) {
                    bytes += entry.length();
                    found.push(Delivery::Initial(Arc::clone(entry)));
                }
            }
            match next {
                Some(next) => *start = next,
                None => {
                    self.initial.objects = None;
                    found.extend(self.initial.last.take());
                }
            }
            if !found.is_empty() {
                return Some(found);
            }
            tokio::task::yield_now().await;
        }
    }

    /// Waits for the next items, at least one, every object with its body; `None` when the watch has ended normally.
    pub async fn next(&mut self) -> Option<Vec<Delivery>> {
        let mut deliveries = self.some().await?;
        let cold = deliveries.iter().filter_map(Delivery::cold).cloned().collect::<Vec<_>>();
        if cold.is_empty() {
            return Some(deliveries);
        }
        let mut ready = match self.view.ready(cold).await {
            Ok(ready) => ready.into_iter(),
            Err(error) => {
                self.over = true;
                return Some(vec![Delivery::Failed(crate::errors::read(error))]);
            }
        };
        for at in 0..deliveries.len() {
            let Some(Delivery::Initial(entry) | Delivery::Crossed(_, entry)) = deliveries.get_mut(at) else { continue };
            if entry.bytes().is_some() {
                continue;
            }
            match ready.next().flatten() {
                Some(warm) => *entry = warm,
                None => {
                    // The object's body no longer exists: this watcher is as far behind as one that the window has passed.
                    self.over = true;
                    let revision = entry.revision;
                    deliveries.truncate(at);
                    deliveries.push(too_old(revision, Gone { floor: self.view.applied() }));
                    break;
                }
            }
        }
        Some(deliveries)
    }

    async fn some(&mut self) -> Option<Vec<Delivery>> {
        if self.over {
            return None;
        }
        if let Some(initial) = self.initial().await {
            return Some(initial);
        }
        loop {
            let wake = if self.bookmarks { self.next_bookmark.min(self.ends) } else { self.ends };
            let cursor = self.cursor.as_mut()?;
            if self.ends.passed() {
                self.over = true;
                // A last bookmark lets the client continue at this revision.
                let reached = cursor.progress();
                return self.bookmark(reached).map(|bookmark| vec![bookmark]);
            }
            let next = tokio::select! {
                biased;
                spread = &mut self.server_ends => {
                    self.ends = self.ends.min(clock::after(rng::jitter(spread, 100)));
                    continue;
                }
                next = cursor.next_batch(MAX_BATCH, wake) => next,
                passed = self.milestones.wait_for(|at| *at > self.milestone), if self.bookmarks => {
                    self.milestone = passed;
                    self.next_bookmark = clock::now();
                    continue;
                }
            };
            let batch = match next {
                Ok(batch) => batch,
                Err(gone) => {
                    self.over = true;
                    return Some(vec![too_old(cursor.progress(), gone)]);
                }
            };
            let deliveries: Vec<Delivery> = batch.events.into_iter().filter_map(|e| self.deliver(e)).collect();
            if !deliveries.is_empty() {
                return Some(deliveries);
            }
            if self.bookmarks && self.next_bookmark.passed() {
                self.next_bookmark = clock::after(BOOKMARK_INTERVAL);
                if let Some(bookmark) = self.bookmark(batch.progress) {
                    return Some(vec![bookmark]);
                }
            }
        }
    }

    fn bookmark(&mut self, revision: Revision) -> Option<Delivery> {
        if !self.bookmarks || revision <= self.last_bookmark {
            return None;
        }
        self.last_bookmark = revision;
        Some(Delivery::Bookmark { revision, initial_end: false })
    }

    /// Converts an event of the ring into the item that this watcher's selection calls for.
    fn deliver(&self, event: Arc<Event>) -> Option<Delivery> {
        if self.selection.is_everything() {
            return Some(Delivery::Plain(event));
        }
        let now = self.selection.matches(&event.entry);
        let before = event.prev.as_ref().is_some_and(|prev| self.selection.matches(prev));
        match (event.kind, before, now) {
            (EventKind::Added, _, true) | (EventKind::Modified, true, true) => Some(Delivery::Plain(event)),
            (EventKind::Deleted, true, _) => Some(Delivery::Plain(event)),
            (EventKind::Modified, false, true) => Some(Delivery::Crossed(EventKind::Added, Arc::clone(&event.entry))),
            (EventKind::Modified, true, false) => {
                let last = event.prev.as_ref()?.at_revision(event.revision);
                Some(Delivery::Crossed(EventKind::Deleted, Arc::new(last)))
            }
            _ => None,
        }
    }
}
