//! Projection of a PodDisruptionBudget.

use oarlock_informer::{Project, ResourceName};
use oarlock_schema::Obj;
use oarlock_schema::views::policy_v1::PodDisruptionBudget;

use crate::cluster::Budget;
use crate::intern::Interner;

use super::terms;

/// The fields of a PodDisruptionBudget that preemption reads.
#[derive(Debug, PartialEq)]
pub(crate) struct BudgetView(pub(crate) Budget);

impl Project for BudgetView {
    const RESOURCE: ResourceName = ResourceName::new("policy", "v1", "poddisruptionbudgets");

    fn project(obj: &Obj) -> Self {
        let budget: PodDisruptionBudget<'_> = obj.view().unwrap_or_else(|| PodDisruptionBudget::from_option(None));
        let status = budget.status();
        Self(Budget {
            selector: terms::selector(budget.spec().selector(), &Interner::process()),
            allowed: status.disruptions_allowed(),
            disrupted: status.disrupted_pods().iter().map(|(name, _)| name.into()).collect(),
        })
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}
