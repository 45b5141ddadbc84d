//! Computes a pod's requests in the units of the scheduler's columns, by the rule of [`oarlock_pods::requests`].

use std::collections::BTreeMap;

use oarlock_meta::Quantity;
use oarlock_pods::{Accounting, RequirementKind, ResourceList, Sum};
use oarlock_schema::views::Map;
use oarlock_schema::views::core_v1::Pod;

use crate::intern::{Interner, Res};
use crate::model::{Requests, UNSET_CPU, UNSET_MEMORY};

type Amounts = BTreeMap<Res, i64>;

/// Returns a quantity in the unit of its resource's column: milli-cores for cpu, else whole units rounded up.
fn amount(resource: Res, text: &str) -> i64 {
    // The API validates quantities; an invalid one counts as 0.
    let Ok(quantity) = Quantity::parse(text) else { return 0 };
    if resource == Res::CPU { quantity.milli_value() } else { quantity.value() }
}

/// Returns the amounts by resource, without `pods`.
pub(super) fn amounts<'a>(map: Map<'a, &'a str>, names: &Interner) -> Amounts {
    Columns(names).read(map.iter())
}

/// Returns the amounts as a sorted list without zeros.
pub(super) fn listed(amounts: &Amounts) -> Requests {
    amounts.iter().filter(|(_, amount)| **amount != 0).map(|(resource, amount)| (*resource, *amount)).collect()
}

/// Rule of summation for every resource.
struct Columns<'n>(&'n Interner);

impl Accounting for Columns<'_> {
    type List = Amounts;

    fn read<'a>(&self, amounts: impl Iterator<Item = (&'a str, &'a str)>) -> Amounts {
        let read = |(name, text)| {
            let resource = self.0.resource(name);
            (resource, amount(resource, text))
        };
        amounts.map(read).collect()
    }
}

/// Rule of summation for cpu and memory, with the defaults for containers without requests.
struct NonZero;

/// Milli-cores and bytes; `None` for an unset request.
#[derive(Default)]
struct Compute([Option<i64>; 2]);

impl Compute {
    fn merge(&mut self, other: &Self, merge: impl Fn(Option<i64>, i64) -> Option<i64>) {
        for (have, other) in self.0.iter_mut().zip(other.0) {
            if let Some(other) = other {
                *have = merge(*have, other);
            }
        }
    }
}

impl ResourceList for Compute {
    fn add(&mut self, more: &Self) {
        self.merge(more, |have, more| Some(have.unwrap_or(0).saturating_add(more)));
    }

    fn add_where_some(&mut self, more: &Self) {
        self.merge(more, |have, more| have.map(|have| if have > 0 { have.saturating_add(more) } else { have }));
    }

    fn raise(&mut self, least: &Self) {
        self.merge(least, |have, least| have.max(Some(least)));
    }

    fn replace(&mut self, with: Self) {
        self.merge(&with, |_, with| Some(with));
    }
}

impl Accounting for NonZero {
    type List = Compute;

    fn read<'a>(&self, amounts: impl Iterator<Item = (&'a str, &'a str)>) -> Compute {
        let mut compute = Compute::default();
        for (name, text) in amounts {
            match name {
                "cpu" => compute.0[0] = Some(amount(Res::CPU, text)),
                "memory" => compute.0[1] = Some(amount(Res::MEMORY, text)),
                _ => {}
            }
        }
        compute
    }

    fn fill_in(&self, container: &mut Compute) {
        for (amount, unset) in container.0.iter_mut().zip([UNSET_CPU, UNSET_MEMORY]) {
            amount.get_or_insert(unset);
        }
    }
}

/// Returns the pod's requests, and its cpu and memory with the defaults for containers without requests.
pub(super) fn of(pod: Pod<'_>, names: &Interner) -> (Requests, [i64; 2]) {
    let sum = Sum::new(pod.spec(), RequirementKind::Requests).with_status(pod.status());
    let nonzero = sum.total(&NonZero).0.map(Option::unwrap_or_default);
    (listed(&sum.total(&Columns(names))), nonzero)
}
