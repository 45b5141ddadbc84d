//! The decision: does an object fall under a quota, what does it add, does that fit (upstream `resourcequota.CheckRequest`).

use oarlock_schema::Obj;

use super::evaluator::Evaluator;
use super::{hard, scopes, used};
use oarlock_pods::{Amounts, ResourceList};

/// Whether an object falls under a quota.
///
/// # Errors
/// When the object leaves out what the quota counts, or the quota has not been counted yet.
pub(super) fn concerns(evaluator: Evaluator, quota: &Obj, object: &Obj) -> Result<bool, String> {
    let hard = hard(quota);
    let counted: Vec<&str> = hard.names().filter(|name| evaluator.counts(name)).collect();
    if counted.is_empty() || !scopes::of(quota).iter().all(|scope| scope.matches(evaluator, object)) {
        return Ok(false);
    }
    let name = quota.name();
    evaluator.must_specify(&counted, object).map_err(|why| format!("failed quota: {name}: {why}"))?;
    let used = used(quota);
    if counted.iter().any(|resource| used.get(resource).is_none()) {
        return Err(format!("status unknown for quota: {name}, resources: {}", counted.join(",")));
    }
    Ok(true)
}

/// What a write adds: everything for a new object, for a changed one what it has more of than before.
///
/// # Errors
/// When an amount is negative.
pub(super) fn added(evaluator: Evaluator, new: &Obj, old: Option<&Obj>) -> Result<Amounts, String> {
    let mut delta = evaluator.usage(new);
    let negative: Vec<&str> = delta.iter().filter(|(_, amount)| amount.signum() < 0).map(|(name, _)| name).collect();
    if !negative.is_empty() {
        return Err(format!("quota usage is negative for resource(s): {}", negative.join(",")));
    }
    if let Some(old) = old {
        delta = delta.above(&evaluator.usage(old));
    }
    Ok(delta.only(|_, amount| !amount.is_zero()))
}

/// The usage of a quota after `added`, of the resources that change; `None` when it counts nothing of it.
///
/// # Errors
/// When that is more than the quota allows.
pub(super) fn charge(quota: &Obj, added: &Amounts) -> Result<Option<Amounts>, String> {
    let (hard, used) = (hard(quota), used(quota));
    let requested = added.clone().only(|name, _| hard.get(name).is_some());
    if requested.is_empty() {
        return Ok(None);
    }
    let mut after = used.clone();
    after.add(&requested);
    let after = after.only(|name, _| requested.get(name).is_some());
    let exceeds = |name: &str| hard.get(name).zip(after.get(name)).is_some_and(|(hard, after)| after > hard);
    if after.names().any(exceeds) {
        let shown = |amounts: &Amounts| amounts.clone().only(|name, _| exceeds(name));
        return Err(format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            quota.name(),
            shown(&requested),
            shown(&used),
            shown(&hard)
        ));
    }
    Ok(Some(after))
}
