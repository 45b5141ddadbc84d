//! What a provider can be asked.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::wire;

/// Why a call brought nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The provider did not hear of it.
    #[error("the provider is out of reach: {0}")]
    Unsent(String),
    /// Nobody knows whether the provider did it, or does it yet, within the time of the call.
    #[error("the provider did not answer: {0}")]
    Unanswered(String),
    /// There is no such load balancer.
    #[error("{0}")]
    NotFound(String),
    /// The provider says why not.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    /// Whether nothing of the call goes on.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        !matches!(self, Self::Unanswered(_))
    }
}

/// A cloud. Every call may be made again; each has a time within which it is done or given up, at the provider too.
#[async_trait]
pub trait Provider: Send + Sync + fmt::Debug + 'static {
    /// Which load balancer a Service has.
    async fn get(
        &self,
        request: wire::GetLoadBalancerRequest,
        within: Duration,
    ) -> Result<wire::GetLoadBalancerAnswer, Error>;

    /// Makes or changes it.
    async fn ensure(
        &self,
        request: wire::EnsureLoadBalancerRequest,
        within: Duration,
    ) -> Result<wire::EnsureLoadBalancerAnswer, Error>;

    /// Lets it lead to other nodes.
    async fn update(
        &self,
        request: wire::UpdateLoadBalancerRequest,
        within: Duration,
    ) -> Result<wire::UpdateLoadBalancerAnswer, Error>;

    /// Takes it away.
    async fn delete(
        &self,
        request: wire::DeleteLoadBalancerRequest,
        within: Duration,
    ) -> Result<wire::DeleteLoadBalancerAnswer, Error>;

    /// The machine of a node.
    async fn instance(
        &self,
        request: wire::GetInstanceRequest,
        within: Duration,
    ) -> Result<wire::GetInstanceAnswer, Error>;
}
