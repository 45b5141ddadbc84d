//! Lists objects: a snapshot of the View, filtered by selectors and cut into pages.

use std::sync::Arc;

use oarlock_client::{List, ListOptions, Object, VersionMatch};
use oarlock_meta::{Revision, Status};
use oarlock_schema::Str;
use oarlock_seeded_bug::seeded_bug;
use oarlock_store::{Entry, ReadError, Snapshot};

use super::selection::{COMPARISONS_PER_TURN, Selection};
use crate::caller::Caller;
use crate::page::Token;
use crate::server::Server;
use crate::target::Target;

/// Number of bytes of objects that are converted to another version before other tasks run: about a millisecond.
const CONVERTED_BYTES_PER_TURN: usize = 64 << 10;

/// Lists objects.
///
/// # Errors
/// 400 for invalid selectors and tokens, 410 for a revision or token that is too old, 504 for a revision that the View does not reach in time.
pub async fn list(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    options: &ListOptions,
) -> Result<List, Status> {
    let selection = Selection::new(target.resource(), target.namespace, options)?;
    let prefix = target.prefix()?;
    let (snapshot, start) = snapshot(server, caller, prefix, options).await?;
    // For resourceVersion=0 upstream serves the whole list from its cache.
    let limit = if options.resource_version == Some(Revision::ZERO) && options.continue_token.is_empty() {
        usize::MAX
    } else {
        usize::try_from(options.limit).ok().filter(|n| *n > 0).unwrap_or(usize::MAX)
    };
    let namespace = Some(target.namespace).filter(|ns| !ns.is_empty());
    let mut entries: Vec<Arc<Entry>> = Vec::new();
    let mut next = None;
    if let Some(name) = selection.single_name().filter(|_| namespace.is_some() || !target.resource().namespaced) {
        let entry = snapshot.get(&target.key(name)?).filter(|e| selection.matches(e));
        entries.extend(entry.cloned());
    } else {
        let mut compared = 0;
        for entry in snapshot.range(namespace, &start) {
            compared += selection.comparisons();
            if compared >= COMPARISONS_PER_TURN {
                compared = 0;
                tokio::task::yield_now().await;
            }
            if !selection.matches(entry) {
                continue;
            }
            if entries.len() == limit {
                next = Some(Str::new(entry.key.rest()));
                break;
            }
            entries.push(Arc::clone(entry));
        }
    }
    let ready = server.view().ready(entries).await.map_err(crate::errors::read)?;
    let lost = || crate::errors::read(ReadError::Expired { floor: server.view().floor(prefix) });
    let mut items: Vec<Object> = Vec::with_capacity(ready.len());
    let mut converted = 0;
    for entry in ready {
        let entry = entry.ok_or_else(lost)?;
        if !target.serves_stored() {
            converted += entry.length();
            if converted >= CONVERTED_BYTES_PER_TURN {
                converted = 0;
                tokio::task::yield_now().await;
            }
        }
        items.push(target.object(&entry)?);
    }
    let mut list = List { revision: snapshot.revision(), items, ..List::default() };
    if let Some(start) = next {
        server.view().keep(&snapshot);
        list.continue_token = Token { revision: snapshot.revision(), start: start.clone() }.encode();
        if selection.is_everything() {
            list.remaining = u64::try_from(snapshot.count(namespace, &start)).ok();
        }
    }
    Ok(list)
}

/// Returns the state to list, and the key at which to begin.
async fn snapshot(
    server: &Server,
    caller: &Caller,
    prefix: &str,
    options: &ListOptions,
) -> Result<(Snapshot, Str), Status> {
    let view = server.view();
    if !options.continue_token.is_empty() {
        let token = Token::decode(&options.continue_token)?;
        // A token that replaces an expired one continues at the latest state ("inconsistent continue").
        if token.revision.is_zero() {
            server.fresh_enough(None, caller.deadline).await?;
            return Ok((view.list(prefix), token.start));
        }
        if view.applied() < token.revision && !seeded_bug!("page_of_the_future") {
            // The token is from another server and of a revision that has not reached this one.
            server.fresh_enough(None, caller.deadline).await?;
        }
        return match view.list_at(prefix, token.revision) {
            Ok(snapshot) => Ok((snapshot, token.start)),
            Err(ReadError::Expired { .. }) => Err(crate::page::expired(&token.start)),
            Err(other) => Err(crate::errors::read(other)),
        };
    }
    let exact = match (options.version_match, options.resource_version) {
        (Some(VersionMatch::Exact), Some(revision)) => Some(revision),
        (None, Some(revision)) if options.limit > 0 && revision > Revision::ZERO => Some(revision),
        _ => None,
    };
    server.fresh_enough(options.resource_version, caller.deadline).await?;
    match exact {
        Some(revision) => Ok((view.list_at(prefix, revision).map_err(crate::errors::read)?, Str::default())),
        None => Ok((view.list(prefix), Str::default())),
    }
}
