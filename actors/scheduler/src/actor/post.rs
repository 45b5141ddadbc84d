//! Whether this process decides: one scheduler process holds the arbiter's unit, the others keep their caches warm and wait.
//!
//! Who comes to hold it decides nothing before its caches have come past the unit's epoch: then they show every binding of the one before,
//! and what that one still sends is refused.

use std::sync::Arc;

use futures::future::join_all;
use oarlock_client::Fence;
use oarlock_informer::Fresh;
use oarlock_mesh::{Changes, Claim, Placement, Unit};
use oarlock_meta::Revision;

/// See the module text.
pub(super) struct Post {
    placement: Placement,
    unit: Unit,
    changes: Changes,
    caches: Vec<Arc<dyn Fresh>>,
    active: Option<Claim>,
}

impl Post {
    /// The arbiter's, as `placement` gives it, for one who reads `caches`.
    pub(super) fn new(placement: &Placement, caches: Vec<Arc<dyn Fresh>>) -> Self {
        let unit = crate::arbiter_unit();
        Self { changes: placement.follow(), placement: placement.clone(), unit, caches, active: None }
    }

    /// The claim under which bindings are made now; none while somebody else decides.
    pub(super) fn claim(&self) -> Option<Claim> {
        self.placement.claim(&self.unit).filter(|claim| self.active.as_ref() == Some(claim))
    }

    /// A binding was refused for its claim.
    pub(super) fn lost(&self, fence: &Fence) {
        self.placement.lost(fence);
    }

    /// Waits until this process may decide, or may not any more. Cancel safe.
    pub(super) async fn next(&mut self) {
        loop {
            match self.placement.claim(&self.unit) {
                None if self.active.take().is_some() => return,
                Some(claim) if self.active.as_ref() != Some(&claim) => tokio::select! {
                    biased;
                    () = self.changes.next() => {}
                    () = caught_up(&self.caches, claim.epoch()) => {
                        tracing::info!(unit = %self.unit, epoch = claim.epoch().get(), "decides from here on");
                        self.active = Some(claim);
                        return;
                    }
                },
                _ => self.changes.next().await,
            }
        }
    }
}

async fn caught_up(caches: &[Arc<dyn Fresh>], epoch: Revision) {
    let each = caches.iter().map(|cache| async move {
        let mut progress = cache.follow();
        // Err means that the cache is gone, and with it everything that could be decided.
        let _ = progress.wait_for(|progress| progress.synced && progress.revision >= epoch).await;
    });
    join_all(each).await;
}
