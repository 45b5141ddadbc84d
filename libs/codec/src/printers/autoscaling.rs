//! Printers of autoscalers of both versions, and of Scale.

use oarlock_schema::Value;
use oarlock_schema::views::autoscaling_v1::{HorizontalPodAutoscaler as Old, Scale};
use oarlock_schema::views::autoscaling_v2::{
    HorizontalPodAutoscaler, MetricSpec, MetricStatus, MetricTarget, MetricValueStatus,
};

use super::text::{NONE, UNSET};
use super::{Now, cells};

const UNKNOWN: &str = "<unknown>";
/// Go's text of an absent quantity.
const NIL_QUANTITY: &str = "<nil>";

pub(super) fn horizontal(obj: HorizontalPodAutoscaler<'_>, now: Now) -> Vec<Value> {
    let (meta, spec, status) = (obj.metadata(), obj.spec(), obj.status());
    let target = spec.scale_target_ref();
    let current = status.current_metrics();
    let metrics: Vec<String> = spec.metrics().iter().enumerate().map(|(i, m)| metric(m, current.get(i))).collect();
    cells![
        meta.name(),
        format!("{}/{}", target.kind(), target.name()),
        targets(&metrics),
        spec.min_replicas().map_or_else(|| UNSET.to_owned(), |n| n.to_string()),
        spec.max_replicas(),
        status.current_replicas(),
        now.since(meta.creation_timestamp()),
    ]
}

/// Returns the cells of an autoscaler in `autoscaling/v1`, which has only a CPU target.
pub(super) fn horizontal_v1(obj: Old<'_>, now: Now) -> Vec<Value> {
    let (meta, spec, status) = (obj.metadata(), obj.spec(), obj.status());
    let target = spec.scale_target_ref();
    // The default of upstream's conversion.
    let wanted = spec.target_cpu_utilization_percentage().unwrap_or(80);
    let metric = format!("cpu: {}/{wanted}%", percent(status.current_cpu_utilization_percentage(), UNKNOWN));
    cells![
        meta.name(),
        format!("{}/{}", target.kind(), target.name()),
        metric,
        spec.min_replicas().map_or_else(|| UNSET.to_owned(), |n| n.to_string()),
        spec.max_replicas(),
        status.current_replicas(),
        now.since(meta.creation_timestamp()),
    ]
}

/// Returns the first two metrics and the number of further ones.
fn targets(metrics: &[String]) -> String {
    const MAX_SHOWN: usize = 2;
    match metrics.len().checked_sub(MAX_SHOWN) {
        None | Some(0) if metrics.is_empty() => NONE.to_owned(),
        None | Some(0) => metrics.join(", "),
        Some(more) => format!("{} + {more} more...", metrics.get(..MAX_SHOWN).unwrap_or_default().join(", ")),
    }
}

fn metric(spec: MetricSpec<'_>, status: Option<MetricStatus<'_>>) -> String {
    match spec.type_() {
        "External" => {
            let target = spec.external().map(|e| e.target());
            outside(target, status.and_then(|s| s.external()).map(|e| e.current()))
        }
        "Object" => {
            let target = spec.object().map(|o| o.target());
            outside(target, status.and_then(|s| s.object()).map(|o| o.current()))
        }
        "Pods" => {
            let current = status.and_then(|s| s.pods()).map(|p| p.current());
            let wanted = spec.pods().and_then(|p| p.target().average_value()).unwrap_or(NIL_QUANTITY);
            format!("{}/{wanted}", average(current))
        }
        "Resource" => {
            let current = status.and_then(|s| s.resource()).map(|r| r.current());
            spec.resource().map_or_else(String::new, |r| usage(r.name(), r.target(), current))
        }
        "ContainerResource" => {
            let current = status.and_then(|s| s.container_resource()).map(|r| r.current());
            spec.container_resource().map_or_else(String::new, |r| usage(r.name(), r.target(), current))
        }
        _ => "<unknown type>".to_owned(),
    }
}

/// Formats a metric of another object or an external one: a value, or an average.
fn outside(target: Option<MetricTarget<'_>>, current: Option<MetricValueStatus<'_>>) -> String {
    match target.and_then(|t| t.average_value()) {
        Some(wanted) => format!("{}/{wanted} (avg)", current.and_then(|c| c.average_value()).unwrap_or(UNKNOWN)),
        None => {
            let current = current.map_or(UNKNOWN, |c| c.value().unwrap_or(NIL_QUANTITY));
            format!("{current}/{}", target.and_then(|t| t.value()).unwrap_or(NIL_QUANTITY))
        }
    }
}

/// Formats a resource metric: an average, or a percentage of the request.
fn usage(name: &str, target: MetricTarget<'_>, current: Option<MetricValueStatus<'_>>) -> String {
    match target.average_value() {
        Some(wanted) => format!("{name}: {}/{wanted}", average(current)),
        None => {
            let current = percent(current.and_then(|c| c.average_utilization()), UNKNOWN);
            format!("{name}: {current}/{}", percent(target.average_utilization(), "<auto>"))
        }
    }
}

fn average(current: Option<MetricValueStatus<'_>>) -> &str {
    current.map_or(UNKNOWN, |c| c.average_value().unwrap_or(NIL_QUANTITY))
}

fn percent(share: Option<i64>, absent: &str) -> String {
    share.map_or_else(|| absent.to_owned(), |n| format!("{n}%"))
}

pub(super) fn scale(obj: Scale<'_>, now: Now) -> Vec<Value> {
    let meta = obj.metadata();
    cells![meta.name(), obj.spec().replicas(), obj.status().replicas(), now.since(meta.creation_timestamp())]
}
