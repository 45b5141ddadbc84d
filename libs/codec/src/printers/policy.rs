//! Printers of kinds that are alone in their groups: disruption budgets, leases, priority and runtime classes, signing requests, API
//! services.

use oarlock_schema::Value;
use oarlock_schema::views::IntOrStr;
use oarlock_schema::views::apiregistration_v1::APIService;
use oarlock_schema::views::certificates_v1::CertificateSigningRequest;
use oarlock_schema::views::coordination_v1::Lease;
use oarlock_schema::views::node_v1::RuntimeClass;
use oarlock_schema::views::policy_v1::PodDisruptionBudget;
use oarlock_schema::views::scheduling_v1::PriorityClass;

use super::text::{NONE, or};
use super::{Now, cells, now};

type Cells = Vec<Value>;

pub(super) fn disruption_budget(obj: PodDisruptionBudget<'_>, now: Now) -> Cells {
    let (meta, spec) = (obj.metadata(), obj.spec());
    let bound = |bound: Option<IntOrStr<'_>>| match bound {
        None => "N/A".to_owned(),
        Some(IntOrStr::Int(n)) => n.to_string(),
        Some(IntOrStr::Str(text)) => text.to_owned(),
    };
    cells![
        meta.name(),
        bound(spec.min_available()),
        bound(spec.max_unavailable()),
        obj.status().disruptions_allowed(),
        now.since(meta.creation_timestamp()),
    ]
}

pub(super) fn lease(obj: Lease<'_>, now: Now) -> Cells {
    let meta = obj.metadata();
    cells![meta.name(), obj.spec().holder_identity().unwrap_or(""), now.since(meta.creation_timestamp())]
}

pub(super) fn priority_class(obj: PriorityClass<'_>, now: Now) -> Cells {
    let meta = obj.metadata();
    let age = now.since(meta.creation_timestamp());
    cells![meta.name(), obj.value(), obj.global_default(), age, obj.preemption_policy().unwrap_or("")]
}

pub(super) fn runtime_class(obj: RuntimeClass<'_>, now: Now) -> Cells {
    let meta = obj.metadata();
    cells![meta.name(), obj.handler(), now.since(meta.creation_timestamp())]
}

pub(super) fn signing_request(obj: CertificateSigningRequest<'_>, now: Now) -> Cells {
    let (meta, spec, status) = (obj.metadata(), obj.spec(), obj.status());
    let has = |kind: &str| status.conditions().iter().any(|c| c.type_() == kind);
    let mut state = vec![if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }];
    if has("Failed") {
        state.push("Failed");
    }
    if !status.certificate().is_empty() {
        state.push("Issued");
    }
    cells![
        meta.name(),
        now.since(meta.creation_timestamp()),
        or(spec.signer_name(), NONE),
        spec.username(),
        spec.expiration_seconds().map_or_else(|| NONE.to_owned(), now::seconds),
        state.join(","),
    ]
}

pub(super) fn api_service(obj: APIService<'_>, now: Now) -> Cells {
    let meta = obj.metadata();
    let service = obj.spec().service().map(|s| format!("{}/{}", s.namespace(), s.name()));
    let available = obj.status().conditions().iter().find(|c| c.type_() == "Available");
    let available = available.map_or_else(
        || "Unknown".to_owned(),
        |c| match (c.status(), c.reason()) {
            ("True", _) => "True".to_owned(),
            (status, "") => status.to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        },
    );
    cells![meta.name(), service.unwrap_or_else(|| "Local".to_owned()), available, now.since(meta.creation_timestamp())]
}
