//! The [`Provider`] trait and its errors.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::wire;

/// Why a provider call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The call did not reach the provider.
    #[error("the provider is out of reach: {0}")]
    Unsent(String),
    /// The provider may have executed the call, or may still do so until the call's deadline.
    #[error("the provider did not answer: {0}")]
    Unanswered(String),
    /// The load balancer does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The provider refused the call, with this reason.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    /// Whether the provider certainly does not continue the call.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        !matches!(self, Self::Unanswered(_))
    }
}

/// A cloud. Every call may be repeated. Each call has a deadline by which it is finished or abandoned, by the provider too.
#[async_trait]
pub trait Provider: Send + Sync + fmt::Debug + 'static {
    /// Returns the load balancer of a Service.
    async fn get(
        &self,
        request: wire::GetLoadBalancerRequest,
        within: Duration,
    ) -> Result<wire::GetLoadBalancerAnswer, Error>;

    /// Creates or changes the load balancer of a Service.
    async fn ensure(
        &self,
        request: wire::EnsureLoadBalancerRequest,
        within: Duration,
    ) -> Result<wire::EnsureLoadBalancerAnswer, Error>;

    /// Changes the nodes that a load balancer forwards to.
    async fn update(
        &self,
        request: wire::UpdateLoadBalancerRequest,
        within: Duration,
    ) -> Result<wire::UpdateLoadBalancerAnswer, Error>;

    /// Deletes the load balancer of a Service.
    async fn delete(
        &self,
        request: wire::DeleteLoadBalancerRequest,
        within: Duration,
    ) -> Result<wire::DeleteLoadBalancerAnswer, Error>;

    /// Returns the machine of a node.
    async fn instance(
        &self,
        request: wire::GetInstanceRequest,
        within: Duration,
    ) -> Result<wire::GetInstanceAnswer, Error>;
}
