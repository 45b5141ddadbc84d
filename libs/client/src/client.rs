//! The handle that everything which acts on the cluster holds.

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

/// Budget of a call unless [`Client::with_timeout`] says otherwise; a little below the apiserver's own 60 s.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Typed convenience over a [`Transport`]; clone it freely. Every call has a budget.
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
    /// A client over `transport`, 30 s a call.
    #[must_use]
    pub fn new(transport: Arc<dyn Transport>) -> Self {
        Self { transport, timeout: TIMEOUT }
    }

    /// The same client with another budget for each call.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { transport: self.transport.clone(), timeout }
    }

    /// The budget of a call.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// What carries the calls.
    #[must_use]
    pub fn transport(&self) -> &Arc<dyn Transport> {
        &self.transport
    }

    /// Makes any call.
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
        self.transport.call(request).await
    }

    /// As [`Client::call`], for calls that are answered with an object.
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

    /// Begins a watch, over all namespaces when `namespace` is empty.
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

    /// Makes a raw request, for `/version`, logs and the like.
    ///
    /// # Errors
    /// 503 or 504; answers of any code are `Ok`.
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
