//! [`Client`]: the handle through which controllers, schedulers and kubelets call the API.

use std::sync::Arc;
use std::time::Duration;

use oarlock_meta::Status;
use oarlock_schema::{Resource, Str};

use crate::fence;
use crate::object::{List, Object};
use crate::options::ListOptions;
use crate::raw::{RawReply, RawRequest};
use crate::request::{Call, Reply, Request};
use crate::transport::{Transport, WatchStream};
use crate::written::Attempted;

/// Default budget of a call, which [`Client::with_timeout`] replaces; below the apiserver's own 60 s.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// API client with typed verbs over a [`Transport`]; cheap to clone. Every call has a budget.
#[derive(Clone)]
pub struct Client {
    transport: Arc<dyn Transport>,
    timeout: Duration,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client over `transport` with 30 s per call.
    #[must_use]
    pub fn new(transport: Arc<dyn Transport>) -> Self {
        Self { transport, timeout: DEFAULT_TIMEOUT }
    }

    /// Returns the client with another budget per call.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { transport: self.transport.clone(), timeout }
    }

    /// Returns the budget of a call.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the transport.
    #[must_use]
    pub fn transport(&self) -> &Arc<dyn Transport> {
        &self.transport
    }

    /// Sends any call.
    ///
    /// # Errors
    /// The server's Status, or the transport's own (503, 504).
    pub async fn call(
        &self,
        resource: &'static Resource,
        subresource: &'static str,
        namespace: &str,
        name: &str,
        call: Call,
    ) -> Result<Reply, Status> {
        let (namespace, name) = (Str::from(namespace), Str::from(name));
        let fence = if call.is_read() { None } else { fence::current() };
        let request = Request { resource, subresource, namespace, name, call, fence, timeout: self.timeout };
        let attempted = Attempted::of(&request);
        let answer = self.transport.call(request).await;
        if let Some(attempted) = attempted {
            attempted.answered(&answer);
        }
        answer
    }

    /// As [`Client::call`], for calls whose answer is an object.
    pub(crate) async fn object(
        &self,
        resource: &'static Resource,
        subresource: &'static str,
        namespace: &str,
        name: &str,
        call: Call,
    ) -> Result<Object, Status> {
        match self.call(resource, subresource, namespace, name, call).await? {
            Reply::Object { object, .. } => Ok(object),
            other => Err(unexpected("an object", &other)),
        }
    }

    /// Reads a collection in one answer, or in pages where `options.limit` asks for them.
    ///
    /// # Errors
    /// The server's Status.
    pub async fn list(
        &self,
        resource: &'static Resource,
        namespace: &str,
        options: ListOptions,
    ) -> Result<List, Status> {
        match self.call(resource, "", namespace, "", Call::List(options)).await? {
            Reply::List(list) => Ok(list),
            other => Err(unexpected("a list", &other)),
        }
    }

    /// Starts a watch, over all namespaces when `namespace` is empty.
    ///
    /// # Errors
    /// The server's Status; 410 when the revision is too old.
    pub async fn watch(
        &self,
        resource: &'static Resource,
        namespace: &str,
        options: ListOptions,
    ) -> Result<WatchStream, Status> {
        self.transport.watch(resource, namespace, options).await
    }

    /// Sends a raw request, for `/version`, logs and similar paths.
    ///
    /// # Errors
    /// 503 or 504 from the transport; an answer with any code is `Ok`.
    pub async fn raw(&self, request: RawRequest) -> Result<RawReply, Status> {
        self.transport.raw(request).await
    }
}

pub(crate) fn unexpected(wanted: &str, got: &Reply) -> Status {
    let got = match got {
        Reply::Object { .. } => "an object",
        Reply::List(_) => "a list",
        Reply::Status(_) => "a Status",
    };
    Status::internal_error(format!("the server answered with {got} instead of {wanted}"))
}
