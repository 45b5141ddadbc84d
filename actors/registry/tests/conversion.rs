//! Objects of one stored form served in two versions.

use oarlock_registry::kind;
use oarlock_schema::{Obj, Resource, resource};

fn decode(row: &Resource, json: &str) -> Obj {
    oarlock_registry::index::decode(json.as_bytes(), row.ty).unwrap()
}

fn there_and_back(group: (&str, &str), other: (&str, &str), plural: &str, json: &str) -> Obj {
    let from = resource(group.0, group.1, plural).unwrap();
    let to = resource(other.0, other.1, plural).unwrap();
    let obj = decode(from, json);
    let middle = kind(from).strategy.convert(&obj, to.ty).unwrap();
    let back = kind(to).strategy.convert(&middle, from.ty).unwrap();
    assert_eq!(back.get("spec"), obj.get("spec"));
    assert_eq!(back.get("metadata"), obj.get("metadata"));
    middle
}

#[test]
fn an_event_reads_under_both_groups() {
    let json = r#"{"metadata":{"name":"e","namespace":"d"},"involvedObject":{"kind":"Pod","name":"p"},"reason":"R","message":"m","source":{"component":"c"},"count":2,"type":"Normal"}"#;
    let event = there_and_back(("", "v1"), ("events.k8s.io", "v1"), "events", json);
    assert_eq!(event.at(&["note"]).and_then(|v| v.as_str()), Some("m"));
    assert_eq!(event.at(&["regarding", "name"]).and_then(|v| v.as_str()), Some("p"));
    assert_eq!(event.at(&["deprecatedCount"]).and_then(|v| v.as_int()), Some(2));
}

#[test]
fn an_autoscaler_loses_nothing_through_the_older_version() {
    let json = r#"{"metadata":{"name":"h","namespace":"d"},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"w","apiVersion":"apps/v1"},"minReplicas":1,"maxReplicas":4,
        "metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}},{"type":"Resource","resource":{"name":"memory","target":{"type":"AverageValue","averageValue":"1Gi"}}}],
        "behavior":{"scaleDown":{"stabilizationWindowSeconds":60}}}}"#;
    let v1 = there_and_back(("autoscaling", "v2"), ("autoscaling", "v1"), "horizontalpodautoscalers", json);
    assert_eq!(v1.at(&["spec", "targetCPUUtilizationPercentage"]).and_then(|v| v.as_int()), Some(80));
}
