//! What a new incarnation waits for: the bindings of the one before.
//!
//! The tasks of that one have ended, but what they sent may still be on its way: first it is certain what became of each. Then everything that was bound
//! is in the store. But the cache may lag, and the engine begins empty: a binding that it did not see would leave the pod's room to be given to another.

use std::time::Duration;

use oarlock_client::{Client, ListOptions};
use oarlock_informer::Cache;
use oarlock_meta::{Revision, Status};
use oarlock_runtime::{LoopCtx, clock};
use oarlock_schema::resource;

use crate::project::PodView;

use super::Set;

/// The pause after a list that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Pods of one page of a list.
const PAGE_SIZE: u64 = 500;

/// Waits until the cache shows every binding of the incarnation before; `false` when asked to stop.
pub(super) async fn catch_up(ctx: &LoopCtx, set: &Set, pods: &Cache<PodView>) -> bool {
    if ctx.or_stop(set.open_bindings.settle(&set.client)).await.is_none() {
        return false;
    }
    let newest = loop {
        match ctx.or_stop(newest(&set.client)).await {
            None => return false,
            Some(Ok(revision)) => break revision,
            Some(Err(status)) => tracing::warn!(actor = ctx.name(), %status, "what was bound is not to be had"),
        }
        if !ctx.sleep(RETRY_PAUSE).await {
            return false;
        }
    };
    loop {
        match ctx.or_stop(pods.at_least(newest, clock::after(super::SYNC_WARNING))).await {
            None => return false,
            Some(Ok(())) => return true,
            Some(Err(lagging)) => tracing::warn!(actor = ctx.name(), %lagging, "scheduler waits for what was bound"),
        }
    }
}

/// The revision of the pod that was written last. Other than the store's, it comes to every cache of pods at once: as that pod's own event. Who was
/// deleted since leaves room.
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
