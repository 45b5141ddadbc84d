//! The [`Transport`] trait: carries calls to an apiserver.

use async_trait::async_trait;
use oarlock_meta::Status;
use oarlock_schema::Resource;

use crate::options::ListOptions;
use crate::raw::{RawReply, RawRequest};
use crate::request::{Event, Reply, Request};

/// Carries API calls as one identity, which is fixed when the transport is created.
///
/// A transport retries within the call's budget what is safe to retry: reads, and calls that certainly were not begun. A write whose outcome is unknown is answered with a 504
/// Status and never repeated.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Sends one call. Dropping the future abandons the call; a write may still happen.
    ///
    /// # Errors
    /// The server's Status, or the transport's own: 504 when the budget is spent, 503 when no server can be reached.
    async fn call(&self, request: Request) -> Result<Reply, Status>;

    /// Starts a watch, over all namespaces when `namespace` is empty. Returns when the server has accepted the watch.
    ///
    /// # Errors
    /// As [`Transport::call`]; 410 when the revision is too old.
    async fn watch(
        &self,
        resource: &'static Resource,
        namespace: &str,
        options: ListOptions,
    ) -> Result<WatchStream, Status>;

    /// Sends a raw request. Answers with any code are `Ok`.
    ///
    /// # Errors
    /// 504 when the budget is spent, 503 when no server can be reached.
    async fn raw(&self, request: RawRequest) -> Result<RawReply, Status>;
}

/// The events of one watch. Dropping the value ends the watch.
#[async_trait]
pub trait Watch: Send {
    /// Returns the next events in order, at least one; `None` when the server ended the stream cleanly. A failure is a last [`Event::Error`] followed by `None`. Cancel safe:
    /// a dropped future loses no event. A slow consumer delays only the server's cursor for this watch.
    async fn next(&mut self) -> Option<Vec<Event>>;
}

/// A boxed [`Watch`].
pub type WatchStream = Box<dyn Watch>;
