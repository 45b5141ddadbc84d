//! Printers of ingresses, network policies and addresses.

use std::collections::BTreeSet;

use oarlock_schema::Value;
use oarlock_schema::views::networking_v1::{IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR};

use super::text::{NONE, join, or, selector};
use super::{Now, cells};

type Cells = Vec<Value>;

pub(super) fn ingress(obj: Ingress<'_>, now: Now) -> Cells {
    let (meta, spec) = (obj.metadata(), obj.spec());
    let points = obj.status().load_balancer().ingress();
    let address: BTreeSet<&str> =
        points.iter().map(|i| or(i.ip(), i.hostname())).filter(|text| !text.is_empty()).collect();
    cells![
        meta.name(),
        spec.ingress_class_name().unwrap_or(NONE),
        hosts(obj),
        join(address, ","),
        if spec.tls().is_empty() { "80" } else { "80, 443" },
        now.since(meta.creation_timestamp()),
    ]
}

/// Returns the first three hosts. Every rule after them counts as one more, with a host or without.
fn hosts(ingress: Ingress<'_>) -> String {
    const MAX_SHOWN: usize = 3;
    let rules = ingress.spec().rules();
    let named = rules.iter().enumerate().filter(|(_, rule)| !rule.host().is_empty());
    let shown: Vec<(usize, &str)> = named.map(|(i, rule)| (i, rule.host())).take(MAX_SHOWN).collect();
    let text = join(shown.iter().map(|(_, host)| *host), ",");
    let full = shown.get(MAX_SHOWN - 1).is_some_and(|(last, _)| last + 1 < rules.len());
    match (text.is_empty(), full) {
        (true, _) => "*".to_owned(),
        (false, true) => format!("{text} + {} more...", rules.len() - MAX_SHOWN),
        (false, false) => text,
    }
}

pub(super) fn ingress_class(obj: IngressClass<'_>, now: Now) -> Cells {
    let (meta, spec) = (obj.metadata(), obj.spec());
    let parameters = spec.parameters().map_or_else(
        || NONE.to_owned(),
        |p| match p.api_group() {
            Some(group) => format!("{}.{group}/{}", p.kind(), p.name()),
            None => format!("{}/{}", p.kind(), p.name()),
        },
    );
    cells![meta.name(), spec.controller(), parameters, now.since(meta.creation_timestamp())]
}

pub(super) fn network_policy(obj: NetworkPolicy<'_>, now: Now) -> Cells {
    let meta = obj.metadata();
    cells![meta.name(), selector(Some(obj.spec().pod_selector())), now.since(meta.creation_timestamp())]
}

/// Returns the cells of an address, with an age, for which upstream has no column.
pub(super) fn ip_address(obj: IPAddress<'_>, now: Now) -> Cells {
    let meta = obj.metadata();
    let parent = obj.spec().parent_ref().map_or_else(
        || NONE.to_owned(),
        |parent| {
            let resource = if parent.group().is_empty() {
                parent.resource().to_lowercase()
            } else {
                format!("{}.{}", parent.resource(), parent.group()).to_lowercase()
            };
            match parent.namespace() {
                "" => format!("{resource}/{}", parent.name()),
                namespace => format!("{resource}/{namespace}/{}", parent.name()),
            }
        },
    );
    cells![meta.name(), parent, now.since(meta.creation_timestamp())]
}

pub(super) fn service_cidr(obj: ServiceCIDR<'_>, now: Now) -> Cells {
    let meta = obj.metadata();
    cells![meta.name(), join(obj.spec().cidrs().iter(), ","), now.since(meta.creation_timestamp())]
}
