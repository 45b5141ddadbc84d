//! Waits at the start of a new incarnation until all bindings of the previous incarnation are known.
//!
//! The previous incarnation's tasks have ended, but their requests may still be in flight: first the outcome of each open binding is determined. Then every
//! binding is in the store, but the cache may lag, and the engine starts empty: a binding that it does not see would let the pod's room be given away twice.

use std::time::Duration;

use oarlock_client::{Client, ListOptions};
use oarlock_informer::Cache;
use oarlock_meta::{Revision, Status};
use oarlock_runtime::{LoopCtx, clock};
use oarlock_schema::resource;

use crate::project::PodView;

use super::set::{SYNC_WARNING, Set};

/// Pause after a failed list.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Pods per page of a list.
const PAGE_SIZE: u64 = 500;

/// Waits until the cache shows every binding of the previous incarnation; returns `false` when asked to stop.
pub(super) async fn catch_up(ctx: &LoopCtx, set: &Set, pods: &Cache<PodView>) -> bool {
    if ctx.or_stop(set.open_bindings.settle(&set.client)).await.is_none() {
        return false;
    }
    let newest = loop {
        match ctx.or_stop(newest(&set.client)).await {
            None => return false,
            Some(Ok(revision)) => break revision,
            Some(Err(status)) => tracing::warn!(actor = ctx.name(), %status, "the bound pods cannot be listed"),
        }
        if !ctx.sleep(RETRY_PAUSE).await {
            return false;
        }
    };
    loop {
        match ctx.or_stop(pods.at_least(newest, clock::after(SYNC_WARNING))).await {
            None => return false,
            Some(Ok(())) => return true,
            Some(Err(lagging)) => tracing::warn!(actor = ctx.name(), %lagging, "scheduler waits for what was bound"),
        }
    }
}

/// Returns the highest revision among all pods. Unlike the store's revision, every cache of pods reaches this one at once, by that pod's own event.
/// A pod that is deleted meanwhile only frees room.
async fn newest(client: &Client) -> Result<Revision, Status> {
    let pods = resource("", "v1", "pods").ok_or_else(|| Status::internal_error("the schema has no pods"))?;
    let (mut options, mut newest) = (ListOptions { limit: PAGE_SIZE, ..ListOptions::default() }, Revision::ZERO);
    loop {
        let page = client.list(pods, "", options.clone()).await?;
        newest = page.items.iter().map(|pod| pod.revision).fold(newest, Revision::max);
        if page.continue_token.is_empty() {
            return Ok(newest);
        }
        options.continue_token = page.continue_token;
    }
}
