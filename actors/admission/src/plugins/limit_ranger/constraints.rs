//! Minimum, maximum and ratio rules of limit ranges, with upstream's texts.

use compact_str::CompactString;
use oarlock_meta::Quantity;
use oarlock_schema::Obj;
use oarlock_schema::views::core_v1::{LimitRange, PersistentVolumeClaim, Pod};

use oarlock_pods::amounts::Quantities;
use oarlock_pods::{Amounts, RequirementKind, Sum};

/// One item of a limit range.
#[derive(Debug)]
pub(super) struct Limit {
    /// `Container`, `Pod` or `PersistentVolumeClaim`.
    pub(super) kind: CompactString,
    pub(super) default: Amounts,
    pub(super) default_request: Amounts,
    min: Amounts,
    max: Amounts,
    ratio: Amounts,
}

/// Returns the items of a limit range.
pub(super) fn read(obj: &Obj) -> Vec<Limit> {
    let Some(range) = obj.view::<LimitRange<'_>>() else { return Vec::new() };
    let items = range.spec().limits().iter().map(|item| Limit {
        kind: item.type_().into(),
        default: Amounts::of(item.default_()),
        default_request: Amounts::of(item.default_request()),
        min: Amounts::of(item.min()),
        max: Amounts::of(item.max()),
        ratio: Amounts::of(item.max_limit_request_ratio()),
    });
    items.collect()
}

/// Returns the violations of a pod.
pub(super) fn pod(pod: Pod<'_>, limits: &[Limit]) -> Vec<String> {
    let mut errors = Vec::new();
    let spec = pod.spec();
    for limit in limits {
        match limit.kind.as_str() {
            "Container" => {
                for container in spec.containers().iter().chain(spec.init_containers().iter()) {
                    let own = |side: RequirementKind| Amounts::of(side.of(container.resources()));
                    check(limit, &own(RequirementKind::Requests), &own(RequirementKind::Limits), &mut errors);
                }
            }
            "Pod" => {
                let whole = |side| Sum::new(spec, side).without_overhead(&Quantities);
                check(limit, &whole(RequirementKind::Requests), &whole(RequirementKind::Limits), &mut errors);
            }
            _ => {}
        }
    }
    errors
}

/// Returns the violations of a claim, of which only the requests count.
pub(super) fn claim(claim: PersistentVolumeClaim<'_>, limits: &[Limit]) -> Vec<String> {
    let mut errors = Vec::new();
    let requests = Amounts::of(claim.spec().resources().requests());
    for limit in limits.iter().filter(|l| l.kind == "PersistentVolumeClaim") {
        let none = Amounts::default();
        for (name, enforced) in limit.min.iter() {
            errors.extend(minimum(&limit.kind, name, enforced, &requests, &none));
        }
        for (name, enforced) in limit.max.iter() {
            let text = || format!("maximum {name} usage per {} is {enforced}", limit.kind);
            match requests.get(name) {
                None => errors.push(format!("{}.  No request is specified", text())),
                Some(request) if request > enforced => errors.push(format!("{}, but request is {request}", text())),
                Some(_) => {}
            }
        }
    }
    errors
}

fn check(limit: &Limit, requests: &Amounts, limits: &Amounts, errors: &mut Vec<String>) {
    let kind = &limit.kind;
    errors.extend(limit.min.iter().filter_map(|(name, enforced)| minimum(kind, name, enforced, requests, limits)));
    errors.extend(limit.max.iter().filter_map(|(name, enforced)| maximum(kind, name, enforced, requests, limits)));
    errors.extend(limit.ratio.iter().filter_map(|(name, enforced)| ratio(kind, name, enforced, requests, limits)));
}

fn minimum(kind: &str, name: &str, enforced: &Quantity, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let text = format!("minimum {name} usage per {kind} is {enforced}");
    let Some(request) = requests.get(name) else { return Some(format!("{text}.  No request is specified")) };
    if request < enforced {
        return Some(format!("{text}, but request is {request}"));
    }
    let limit = limits.get(name).filter(|limit| *limit < enforced)?;
    Some(format!("{text}, but limit is {limit}"))
}

fn maximum(kind: &str, name: &str, enforced: &Quantity, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let text = format!("maximum {name} usage per {kind} is {enforced}");
    let Some(limit) = limits.get(name) else { return Some(format!("{text}.  No limit is specified")) };
    if limit > enforced {
        return Some(format!("{text}, but limit is {limit}"));
    }
    let request = requests.get(name).filter(|request| *request > enforced)?;
    Some(format!("{text}, but request is {request}"))
}

fn ratio(kind: &str, name: &str, enforced: &Quantity, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let text = format!("{name} max limit to request ratio per {kind} is {enforced}");
    let Some(request) = requests.get(name).filter(|q| !q.is_zero()) else {
        return Some(format!("{text}, but no request is specified or request is 0"));
    };
    let Some(limit) = limits.get(name).filter(|q| !q.is_zero()) else {
        return Some(format!("{text}, but no limit is specified or limit is 0"));
    };
    let ratio = quotient(limit, request);
    (ratio * 1000.0 > thousandths(enforced)).then(|| format!("{text}, but provided ratio is {ratio:.6}"))
}

/// Divides in thousandths, which are integers, so that 1.1 / 0.1 is exactly 11.
fn quotient(limit: &Quantity, request: &Quantity) -> f64 {
    thousandths(limit) / thousandths(request)
}

#[expect(clippy::cast_precision_loss, reason = "upstream compares ratios as floats too")]
fn thousandths(amount: &Quantity) -> f64 {
    match amount.milli_value() {
        i64::MAX => amount.as_f64() * 1000.0,
        milli => milli as f64,
    }
}
