//! Calls to the cloud provider, each with a permit under the claim of the calling reconcile, and with a deadline.

use std::sync::Arc;

use oarlock_cloud::{Error, Provider, wire};
use oarlock_mesh::{NoPermit, Permit, Placement, Unit};

use crate::harness::CLOUD_UNIT;

/// Why a call to the cloud has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The call was not made, because this process may not make outside calls now.
    #[error(transparent)]
    NotPermitted(#[from] NoPermit),
    /// The provider failed or could not be reached.
    #[error(transparent)]
    Provider(#[from] Error),
}

/// The cloud provider with the permits under which the controllers of this process may call it.
#[derive(Clone, Debug)]
pub(crate) struct Cloud {
    provider: Arc<dyn Provider>,
    cluster: Arc<str>,
    placement: Placement,
    unit: Unit,
}

impl Cloud {
    pub(crate) fn new(provider: Arc<dyn Provider>, cluster: &str, placement: Placement) -> Self {
        Self { provider, cluster: cluster.into(), placement, unit: Unit::named(CLOUD_UNIT) }
    }

    /// Returns the cluster's name at the provider.
    pub(crate) fn cluster(&self) -> String {
        self.cluster.as_ref().to_owned()
    }

    pub(crate) async fn get(&self, key: wire::LoadBalancerKey) -> Result<wire::GetLoadBalancerAnswer, CallError> {
        let permit = self.placement.permit(&self.unit)?;
        let request = wire::GetLoadBalancerRequest { key: Some(key), claim: claim(&permit) };
        let answer = self.provider.get(request, permit.deadline.remaining()).await;
        ended(permit, answer)
    }

    pub(crate) async fn ensure(
        &self,
        mut request: wire::EnsureLoadBalancerRequest,
    ) -> Result<wire::EnsureLoadBalancerAnswer, CallError> {
        let permit = self.placement.permit(&self.unit)?;
        request.claim = claim(&permit);
        let answer = self.provider.ensure(request, permit.deadline.remaining()).await;
        ended(permit, answer)
    }

    pub(crate) async fn update(
        &self,
        mut request: wire::UpdateLoadBalancerRequest,
    ) -> Result<wire::UpdateLoadBalancerAnswer, CallError> {
        let permit = self.placement.permit(&self.unit)?;
        request.claim = claim(&permit);
        let answer = self.provider.update(request, permit.deadline.remaining()).await;
        ended(permit, answer)
    }

    pub(crate) async fn delete(&self, key: wire::LoadBalancerKey) -> Result<wire::DeleteLoadBalancerAnswer, CallError> {
        let permit = self.placement.permit(&self.unit)?;
        let request = wire::DeleteLoadBalancerRequest { key: Some(key), claim: claim(&permit) };
        let answer = self.provider.delete(request, permit.deadline.remaining()).await;
        ended(permit, answer)
    }

    /// Returns the machine of a node; `None` if the machine does not exist.
    pub(crate) async fn instance(&self, node: &str, provider_id: &str) -> Result<Option<wire::Instance>, CallError> {
        let permit = self.placement.permit(&self.unit)?;
        let request = wire::GetInstanceRequest {
            cluster: self.cluster(),
            claim: claim(&permit),
            node: node.to_owned(),
            provider_id: provider_id.to_owned(),
        };
        let answer = self.provider.instance(request, permit.deadline.remaining()).await;
        Ok(ended(permit, answer)?.instance)
    }
}

fn claim(permit: &Permit) -> Option<wire::Claim> {
    let claim = |fence: &oarlock_client::Fence| wire::Claim { unit: fence.unit.to_string(), epoch: fence.epoch.get() };
    Some(permit.fence.as_ref().map(claim).unwrap_or_default())
}

fn ended<T>(permit: Permit, answer: Result<T, Error>) -> Result<T, CallError> {
    if answer.as_ref().err().is_none_or(Error::is_over) {
        permit.end();
    }
    Ok(answer?)
}
