//! The printer of services.

use std::collections::BTreeSet;

use oarlock_schema::Value;
use oarlock_schema::views::core_v1::{LoadBalancerStatus, Service};

use super::text::{NONE, join, labels, or};
use super::{Now, cells};

pub(super) fn service(obj: Service<'_>, now: Now) -> Vec<Value> {
    let (meta, spec) = (obj.metadata(), obj.spec());
    let ports = ports(obj);
    cells![
        meta.name(),
        spec.type_(),
        spec.cluster_ips().get(0).unwrap_or(NONE),
        external_ip(obj),
        or(&ports, NONE),
        now.since(meta.creation_timestamp()),
        labels(spec.selector()),
    ]
}

fn external_ip(service: Service<'_>) -> String {
    let spec = service.spec();
    let given = join(spec.external_ips().iter(), ",");
    match spec.type_() {
        "ClusterIP" | "NodePort" => or(&given, NONE).to_owned(),
        "LoadBalancer" => {
            let ingress = ingress(service.status().load_balancer());
            let both = [ingress, given].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(",");
            or(&both, "<pending>").to_owned()
        }
        "ExternalName" => spec.external_name().to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn ingress(status: LoadBalancerStatus<'_>) -> String {
    let points: BTreeSet<&str> =
        status.ingress().iter().map(|i| or(i.ip(), i.hostname())).filter(|text| !text.is_empty()).collect();
    join(points, ",")
}

fn ports(service: Service<'_>) -> String {
    let port = |(port, node_port, protocol): (i64, i64, &str)| {
        if node_port > 0 { format!("{port}:{node_port}/{protocol}") } else { format!("{port}/{protocol}") }
    };
    let ports = service.spec().ports();
    ports.iter().map(|p| port((p.port(), p.node_port(), p.protocol()))).collect::<Vec<_>>().join(",")
}
