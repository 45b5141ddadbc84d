//! The transport for components in the same process: without TCP, TLS, framing or re-encoding, but with every stage from authorization on.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oarlock_auth::UserInfo;
use oarlock_client::{Event, ListOptions, Object, RawReply, RawRequest, Reply, Request, Transport, WatchStream};
use oarlock_meta::Status;
use oarlock_runtime::{Instant, clock};
use oarlock_schema::{Resource, Str};
use oarlock_store::{Entry, EventKind};

use crate::call::{Dispatch, selected_name};
use crate::caller::Caller;
use crate::metrics::{self, OpenWatch, RequestLabels};
use crate::server::Server;
use crate::target::Target;
use crate::verbs::watch::{self, Delivery};

/// Deadline for starting a watch.
const WATCH_START: Duration = Duration::from_secs(30);

/// A client that calls a server in the same process as one identity.
#[derive(Clone, Debug)]
pub struct InProcess {
    server: Server,
    user: Arc<UserInfo>,
    agent: Str,
}

impl InProcess {
    /// Creates a client that calls `server` as `user`; `agent` takes the place of the `User-Agent` and names the field manager.
    #[must_use]
    pub fn new(server: Server, user: UserInfo, agent: impl Into<Str>) -> Self {
        Self { server, user: Arc::new(user.authenticated()), agent: agent.into() }
    }

    fn caller(&self, deadline: Instant) -> Caller {
        Caller::new(Arc::clone(&self.user), self.agent.clone(), deadline)
    }
}

#[async_trait]
impl Transport for InProcess {
    async fn call(&self, request: Request) -> Result<Reply, Status> {
        let began = clock::now();
        let deadline = began + request.timeout;
        let mut caller = self.caller(deadline);
        caller.fence.clone_from(&request.fence);
        let labels = RequestLabels::of_call(request.resource, request.subresource, &request.namespace, &request.call);
        let answer = match clock::timeout_at(deadline, Dispatch::new(&self.server, &caller).call(request)).await {
            Ok(answer) => answer,
            Err(_) => {
                metrics::terminated(labels, 504);
                Err(Status::timeout("the call took too long", 0))
            }
        };
        let code = match &answer {
            Ok(Reply::Object { created: true, .. }) => 201,
            Ok(_) => 200,
            Err(status) => status.code,
        };
        metrics::answered(labels, code, began.elapsed(), (None, None));
        answer
    }

    async fn watch(
        &self,
        resource: &'static Resource,
        namespace: &str,
        options: ListOptions,
    ) -> Result<WatchStream, Status> {
        let caller = self.caller(clock::after(WATCH_START));
        // As over HTTP, a watch that a selector narrows to one object is authorized for that object's name.
        let named = Target::new(resource, "", namespace, selected_name(&options.field_selector));
        self.server.authorize_selected(&caller, "watch", &named, Some(&options.field_selector))?;
        let target = Target::new(resource, "", namespace, "");
        watch::validate(&options)?;
        let running = watch::watch(&self.server, &caller, &target, &options).await?;
        let open = OpenWatch::begin(RequestLabels::of_watch(resource, namespace));
        Ok(Box::new(Running { watch: running, resource, _open: open }))
    }

    async fn raw(&self, request: RawRequest) -> Result<RawReply, Status> {
        Err(Status::service_unavailable(format!("{}: raw requests need the HTTPS transport", request.path)))
    }
}

struct Running {
    watch: watch::Watch,
    resource: &'static Resource,
    /// The watch in the metrics.
    _open: OpenWatch,
}

#[async_trait]
impl oarlock_client::Watch for Running {
    async fn next(&mut self) -> Option<Vec<Event>> {
        let deliveries = self.watch.next().await?;
        Some(deliveries.into_iter().map(|d| event(self.resource, d)).collect())
    }
}

fn event(resource: &'static Resource, delivery: Delivery) -> Event {
    match delivery {
        Delivery::Initial(entry) => of_kind(resource, EventKind::Added, &entry),
        Delivery::Plain(event) => of_kind(resource, event.kind, &event.entry),
        Delivery::Crossed(kind, entry) => of_kind(resource, kind, &entry),
        Delivery::Bookmark { revision, initial_end } => Event::Bookmark { revision, initial_events_end: initial_end },
        Delivery::Failed(status) => Event::Error(status),
    }
}

fn of_kind(resource: &'static Resource, kind: EventKind, entry: &Entry) -> Event {
    let target = Target::new(resource, "", entry.namespace(), entry.name());
    let object: Object = match target.object(entry) {
        Ok(object) => object,
        Err(status) => return Event::Error(status),
    };
    match kind {
        EventKind::Added => Event::Added(object),
        EventKind::Modified => Event::Modified(object),
        EventKind::Deleted => Event::Deleted(object),
    }
}
