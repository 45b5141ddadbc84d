//! Counts the writes of a piece of work, for work that is reported only if it changed something.

use std::cell::Cell;

use oarlock_meta::{Revision, Status};

use crate::request::{Call, Reply, Request};

tokio::task_local! {
    static WRITTEN: Cell<u32>;
}

/// Runs `work`; returns its output and how many writes of a [`Client`](crate::Client) inside, on the same task, changed a stored object. A patch counts
/// even if it changed nothing, because its answer does not tell.
pub async fn counted<F: Future>(work: F) -> (F::Output, u32) {
    let counted = async {
        let output = work.await;
        (output, WRITTEN.with(Cell::get))
    };
    WRITTEN.scope(Cell::new(0), counted).await
}

/// What a request would change, kept until its answer is known.
pub(crate) struct Attempted {
    /// The revision that an update is based on; zero for other writes.
    base: Revision,
}

impl Attempted {
    /// Describes a request; `None` for a request that changes no stored object, and outside [`counted`].
    pub(crate) fn of(request: &Request) -> Option<Self> {
        let writes = !request.call.is_read() && request.resource.storage.is_some();
        if !writes || WRITTEN.try_with(|_| ()).is_err() {
            return None;
        }
        let base = match &request.call {
            Call::Update(obj, _) => obj.meta().resource_version().parse().unwrap_or_default(),
            _ => Revision::ZERO,
        };
        Some(Self { base })
    }

    /// Counts the write if the answer shows that it took effect.
    pub(crate) fn answered(self, answer: &Result<Reply, Status>) {
        let changed = match answer {
            Ok(Reply::Object { object, .. }) => object.revision != self.base,
            Ok(_) => true,
            Err(_) => false,
        };
        if changed {
            // Inside `counted`, as `of` has found.
            let _counted = WRITTEN.try_with(|written| written.set(written.get().saturating_add(1)));
        }
    }
}
