//! The state that all requests share: store, authorizers, admission chain and more.

use std::sync::{Arc, Weak};
use std::time::Duration;

use oarlock_admission::Chain;
use oarlock_auth::{Attributes, Authenticators, Authorizers, Decision};
use oarlock_meta::{Revision, Status};
use oarlock_registry::Reader;
use oarlock_runtime::{Instant, clock};
use oarlock_seeded_bug::seeded_bug;
use oarlock_storage::Key;
use oarlock_store::{Entry, Store, View};

use crate::caller::Caller;

/// How long a read waits for a revision that the View has not reached yet (upstream: 3 s).
const FRESHNESS_WAIT: Duration = Duration::from_secs(3);

/// The shared state of one API server. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    parts: Arc<Parts>,
}

/// A reference to a server that does not keep the server alive.
#[derive(Clone)]
pub(crate) struct WeakServer {
    parts: Weak<Parts>,
}

impl std::fmt::Debug for WeakServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WeakServer").finish_non_exhaustive()
    }
}

impl WeakServer {
    /// Returns the server; `None` once it is dropped.
    pub(crate) fn upgrade(&self) -> Option<Server> {
        Some(Server { parts: self.parts.upgrade()? })
    }
}

/// The components of a server.
pub struct Parts {
    /// The store, which writes objects and keeps the View.
    pub store: Store,
    /// Reads objects of the View by resource.
    pub reader: Reader,
    /// Decides whether a user may make a request.
    pub authorizers: Authorizers,
    /// The admission stages.
    pub admission: Chain,
    /// Determine the user of a request.
    pub authenticators: Authenticators,
    /// Issues ServiceAccount tokens.
    pub issuer: oarlock_auth::tokens::Issuer,
    /// Settings of this server.
    pub config: crate::config::Config,
    /// Readiness, shutdown progress and in-flight counts.
    pub state: crate::state::State,
    /// The actor system of this process.
    pub system: oarlock_runtime::System,
    /// Connections to kubelets.
    pub kubelets: crate::kubelets::Kubelets,
    /// The ways to other servers.
    pub egress: crate::egress::Egress,
    /// Gate of the streams that outlive the request that opened them.
    pub streams: oarlock_runtime::Gate,
    /// Queues for the objects that many requests write along with their own (quotas, the node port allocation).
    pub turns: oarlock_admission::turns::KeyedQueues,
    /// Counters of the requests in flight.
    pub(crate) inflight: crate::inflight::Inflight,
    /// Lanes for large requests.
    pub(crate) large: crate::large::Lanes,
    /// Fields that disabled feature gates remove from objects.
    pub disabled: oarlock_apis::DisabledFields,
}

impl Server {
    /// Creates a server from its components.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self { parts: Arc::new(parts) }
    }

    /// Returns a reference that does not keep the server alive.
    pub(crate) fn downgrade(&self) -> WeakServer {
        WeakServer { parts: Arc::downgrade(&self.parts) }
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.parts.store
    }

    /// Returns the View of the store.
    #[must_use]
    pub fn view(&self) -> &View {
        self.parts.reader.view()
    }

    /// Returns the reader of objects by resource.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.parts.reader
    }

    /// Returns the admission stages.
    #[must_use]
    pub fn admission(&self) -> &Chain {
        &self.parts.admission
    }

    /// Returns the authorizers.
    #[must_use]
    pub fn authorizers(&self) -> &Authorizers {
        &self.parts.authorizers
    }

    /// Returns the authenticators.
    #[must_use]
    pub fn authenticators(&self) -> &Authenticators {
        &self.parts.authenticators
    }

    /// Returns the issuer of ServiceAccount tokens.
    #[must_use]
    pub fn issuer(&self) -> &oarlock_auth::tokens::Issuer {
        &self.parts.issuer
    }

    /// Returns the settings of this server.
    #[must_use]
    pub fn config(&self) -> &crate::config::Config {
        &self.parts.config
    }

    /// Returns readiness, shutdown progress and in-flight counts.
    #[must_use]
    pub fn state(&self) -> &crate::state::State {
        &self.parts.state
    }

    /// Returns the actor system of this process.
    #[must_use]
    pub fn system(&self) -> &oarlock_runtime::System {
        &self.parts.system
    }

    /// Returns the connections to kubelets.
    #[must_use]
    pub fn kubelets(&self) -> &crate::kubelets::Kubelets {
        &self.parts.kubelets
    }

    /// Returns the ways to other servers.
    #[must_use]
    pub fn egress(&self) -> &crate::egress::Egress {
        &self.parts.egress
    }

    /// Returns the queues for objects that many requests write along with their own.
    #[must_use]
    pub fn turns(&self) -> &oarlock_admission::turns::KeyedQueues {
        &self.parts.turns
    }

    /// Returns the counters of the requests in flight.
    pub(crate) fn inflight(&self) -> &crate::inflight::Inflight {
        &self.parts.inflight
    }

    /// Returns the lanes for large requests.
    pub(crate) fn large(&self) -> &crate::large::Lanes {
        &self.parts.large
    }

    /// Returns the fields that disabled feature gates remove from objects.
    #[must_use]
    pub fn disabled(&self) -> &oarlock_apis::DisabledFields {
        &self.parts.disabled
    }

    /// Returns the gate of the streams that outlive the request that opened them.
    #[must_use]
    pub fn streams(&self) -> &oarlock_runtime::Gate {
        &self.parts.streams
    }

    /// Checks that the authorizers allow a request.
    ///
    /// # Errors
    /// 403 when they do not.
    pub fn authorize(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        match self.parts.authorizers.authorize(attributes) {
            Decision::Allow(_) => Ok(()),
            Decision::Deny(reason) | Decision::NoOpinion(reason) => Err(attributes.forbidden(&reason)),
        }
    }

    /// Waits until the View is as fresh as `asked`: `None` requires the most recent state, zero accepts any state.
    ///
    /// # Errors
    /// 504 when the View does not reach the revision in time, 503 when freshness cannot be proven.
    pub async fn fresh_enough(&self, asked: Option<Revision>, deadline: Instant) -> Result<(), Status> {
        let result = match asked {
            Some(Revision::ZERO) => return Ok(()),
            Some(revision) if self.view().applied() >= revision => return Ok(()),
            Some(revision) => self.view().wait_applied(revision, deadline.min(clock::after(FRESHNESS_WAIT))).await,
            None => self.parts.store.fresh(deadline).await.map(|_| ()),
        };
        result.map_err(crate::errors::read)
    }

    /// Returns the current entry of one object, with its body.
    ///
    /// # Errors
    /// 503 when the body must be read from the log and cannot be.
    pub(crate) async fn current(&self, key: &Key) -> Result<Option<Arc<Entry>>, Status> {
        self.view().get_ready(key).await.map_err(crate::errors::read)
    }

    /// Whether the entry is the newest state of its object. If other servers write too, the freshness of the View is proven first, so that a write
    /// without effect is not answered from outdated state.
    ///
    /// # Errors
    /// The errors of [`Server::fresh_enough`].
    pub(crate) async fn is_newest(&self, entry: &Entry, deadline: Instant) -> Result<bool, Status> {
        if !seeded_bug!("stale_unchanged") {
            self.fresh_enough(None, deadline).await?;
        }
        Ok(self.view().get(&entry.key).is_some_and(|newest| newest.revision == entry.revision))
    }

    /// Authorizes the claim under which a call is made, if any: the caller needs the verb `claim` on the Assignment of the claim's unit. Without this
    /// check any user could find out the epoch of a unit by trying, and could make writes appear in the log as those of the unit's holder.
    ///
    /// # Errors
    /// 403 when the caller is not authorized.
    pub fn authorize_claim(&self, caller: &Caller) -> Result<(), Status> {
        let Some(claim) = caller.fence.as_ref().filter(|_| !seeded_bug!("anybody_claims")) else { return Ok(()) };
        let assignments = Attributes::resource(&caller.user, "claim", "oarlock.dev", "assignments");
        self.authorize(&Attributes { version: "v1", name: &claim.unit, ..assignments })
    }

    /// Authorizes a verb on a resource.
    ///
    /// # Errors
    /// 403 when the authorizers do not allow it.
    pub fn authorize_resource(
        &self,
        caller: &Caller,
        verb: &str,
        target: &crate::target::Target<'_>,
    ) -> Result<(), Status> {
        self.authorize_selected(caller, verb, target, None)
    }

    /// Authorizes a verb on a collection that selectors narrow: a kubelet, for example, may watch only its own pods.
    ///
    /// # Errors
    /// 403 when the authorizers do not allow it.
    pub fn authorize_selected(
        &self,
        caller: &Caller,
        verb: &str,
        target: &crate::target::Target<'_>,
        fields: Option<&oarlock_meta::FieldSelector>,
    ) -> Result<(), Status> {
        let resource = target.resource();
        self.authorize(&Attributes {
            version: resource.version,
            subresource: target.subresource,
            namespace: target.namespace,
            name: target.name,
            fields,
            ..Attributes::resource(&caller.user, verb, resource.group, resource.plural)
        })
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("admission", &self.parts.admission).finish_non_exhaustive()
    }
}
