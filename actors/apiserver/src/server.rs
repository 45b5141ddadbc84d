//! What every request needs, shared: the store, the authorizer, the admission chain.

use std::sync::Arc;
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

/// How long a read waits for a revision that is not there yet (upstream: 3 s).
const FRESHNESS_WAIT: Duration = Duration::from_secs(3);

/// The server's shared state. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    parts: Arc<Parts>,
}

/// What a server is made of.
pub struct Parts {
    /// Writes and reads.
    pub store: Store,
    /// Reads by resource.
    pub reader: Reader,
    /// Who may do what.
    pub authorizers: Authorizers,
    /// Admission stages.
    pub admission: Chain,
    /// Who a request is from.
    pub authenticators: Authenticators,
    /// Issues ServiceAccount tokens.
    pub issuer: oarlock_auth::tokens::Issuer,
    /// Facts of this server.
    pub config: crate::config::Config,
    /// What changes while it runs.
    pub state: crate::state::State,
    /// The process's actors.
    pub system: oarlock_runtime::System,
    /// The way to kubelets.
    pub kubelets: crate::kubelets::Kubelets,
    /// Streams that go on when the request that began them has been answered.
    pub streams: oarlock_runtime::Gate,
    /// Whose turn it is at what many requests would write together with their objects.
    pub turns: oarlock_admission::turns::Turns,
    /// Requests under way.
    pub(crate) inflight: crate::inflight::Inflight,
    /// Where large requests run.
    pub(crate) large: crate::large::Lanes,
    /// What the feature gates leave out of objects.
    pub disabled: oarlock_apis::Disabled,
}

impl Server {
    /// A server of these parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self { parts: Arc::new(parts) }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.parts.store
    }

    /// The View.
    #[must_use]
    pub fn view(&self) -> &View {
        self.parts.reader.view()
    }

    /// Reads by resource.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.parts.reader
    }

    /// The admission stages.
    #[must_use]
    pub fn admission(&self) -> &Chain {
        &self.parts.admission
    }

    /// The authorizer.
    #[must_use]
    pub fn authorizers(&self) -> &Authorizers {
        &self.parts.authorizers
    }

    /// The authenticators.
    #[must_use]
    pub fn authenticators(&self) -> &Authenticators {
        &self.parts.authenticators
    }

    /// Issues ServiceAccount tokens.
    #[must_use]
    pub fn issuer(&self) -> &oarlock_auth::tokens::Issuer {
        &self.parts.issuer
    }

    /// Facts of this server.
    #[must_use]
    pub fn config(&self) -> &crate::config::Config {
        &self.parts.config
    }

    /// What changes while it runs.
    #[must_use]
    pub fn state(&self) -> &crate::state::State {
        &self.parts.state
    }

    /// The process's actors.
    #[must_use]
    pub fn system(&self) -> &oarlock_runtime::System {
        &self.parts.system
    }

    /// The way to kubelets.
    #[must_use]
    pub fn kubelets(&self) -> &crate::kubelets::Kubelets {
        &self.parts.kubelets
    }

    /// Whose turn it is at what many requests would write together with their objects.
    #[must_use]
    pub fn turns(&self) -> &oarlock_admission::turns::Turns {
        &self.parts.turns
    }

    /// Requests under way.
    pub(crate) fn inflight(&self) -> &crate::inflight::Inflight {
        &self.parts.inflight
    }

    /// Where large requests run.
    pub(crate) fn large(&self) -> &crate::large::Lanes {
        &self.parts.large
    }

    /// What the feature gates leave out of objects.
    #[must_use]
    pub fn disabled(&self) -> &oarlock_apis::Disabled {
        &self.parts.disabled
    }

    /// Streams that go on when the request that began them has been answered.
    #[must_use]
    pub fn streams(&self) -> &oarlock_runtime::Gate {
        &self.parts.streams
    }

    /// Refuses what the authorizer does not allow.
    ///
    /// # Errors
    /// 403.
    pub fn authorize(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        match self.parts.authorizers.authorize(attributes) {
            Decision::Allow(_) => Ok(()),
            Decision::Deny(reason) | Decision::NoOpinion(reason) => Err(attributes.forbidden(&reason)),
        }
    }

    /// Waits until reads are as fresh as asked: `None` is the most recent state, zero whatever there is.
    ///
    /// # Errors
    /// 504 when the revision does not come in time, 503 when freshness cannot be proven.
    pub async fn fresh_enough(&self, asked: Option<Revision>, deadline: Instant) -> Result<(), Status> {
        let result = match asked {
            Some(Revision::ZERO) => return Ok(()),
            Some(revision) if self.view().applied() >= revision => return Ok(()),
            Some(revision) => self.view().wait_applied(revision, deadline.min(clock::after(FRESHNESS_WAIT))).await,
            None => self.parts.store.fresh(deadline).await.map(|_| ()),
        };
        result.map_err(crate::errors::read)
    }

    /// The current version of one object, with its body.
    ///
    /// # Errors
    /// 503 when the log has to be read for it and cannot be.
    pub(crate) async fn current(&self, key: &Key) -> Result<Option<Arc<Entry>>, Status> {
        self.view().get_ready(key).await.map_err(crate::errors::read)
    }

    /// Whether the entry is its object's newest state. Where other servers write too that is proven, so a write that would change nothing is
    /// not answered from state that is out of date.
    ///
    /// # Errors
    /// What [`Server::fresh_enough`] says.
    pub(crate) async fn is_newest(&self, entry: &Entry, deadline: Instant) -> Result<bool, Status> {
        if !seeded_bug!("stale_unchanged") {
            self.fresh_enough(None, deadline).await?;
        }
        Ok(self.view().get(&entry.key).is_some_and(|newest| newest.revision == entry.revision))
    }

    /// Authorizes the claim under which a call is made, if there is one: it needs the right `claim` on the Assignment of the claim's unit. Without this check
    /// any user could find out the epoch of a unit by trying, and could have writes logged as if a holder of the unit had made them.
    ///
    /// # Errors
    /// 403 when the caller may not hold claims.
    pub fn authorize_claim(&self, caller: &Caller) -> Result<(), Status> {
        let Some(claim) = caller.fence.as_ref().filter(|_| !seeded_bug!("anybody_claims")) else { return Ok(()) };
        let assignments = Attributes::resource(&caller.user, "claim", "oarlock.dev", "assignments");
        self.authorize(&Attributes { version: "v1", name: &claim.unit, ..assignments })
    }

    /// Authorizes a verb on a resource.
    ///
    /// # Errors
    /// 403.
    pub fn authorize_resource(
        &self,
        caller: &Caller,
        verb: &str,
        target: &crate::target::Target<'_>,
    ) -> Result<(), Status> {
        self.authorize_selected(caller, verb, target, None)
    }

    /// As [`Server::authorize_resource`], for calls on a collection that field selectors narrow: kubelets may watch their own pods only.
    ///
    /// # Errors
    /// 403.
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
