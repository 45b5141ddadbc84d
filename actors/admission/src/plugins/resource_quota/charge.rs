//! The decision about one quota: whether it matches an object, what the object adds, and whether that fits (upstream `resourcequota.CheckRequest`).

use oarlock_schema::Obj;

use super::evaluator::Evaluator;
use super::{hard, scopes, used};
use oarlock_pods::{Amounts, ResourceList};

/// Whether a quota matches an object.
///
/// # Errors
/// When the object lacks a field that the quota counts, or the quota has not been counted yet.
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

/// Returns the usage that a write adds: all of a new object's, or the increase of a changed one's.
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

/// Returns the quota's usage after `added`, for the changed resources only; `None` when the quota counts none of them.
///
/// # Errors
/// When the usage would exceed the quota.
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
