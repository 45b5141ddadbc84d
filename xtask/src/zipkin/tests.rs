use serde_json::{Value, json};

use super::spans;

const TRACE: &str = "5b8efff798038103d269b633813fc60c";

fn converted(document: &Value) -> Value {
    serde_json::to_value(spans(&document.to_string()).unwrap()).unwrap()
}

fn of_process(resource: &Value, spans: &Value) -> Value {
    json!({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]})
}

#[test]
fn a_span_keeps_its_ids_times_tags_events_and_service() {
    let resource = json!({"attributes": [
        {"key": "host.name", "value": {"stringValue": "h"}},
        {"key": "service.name", "value": {"stringValue": "kubelet"}},
    ]});
    let span = json!({
        "traceId": TRACE, "spanId": "eee19b7ec3c1b174", "parentSpanId": "eee19b7ec3c1b173", "name": "start", "kind": 3,
        "startTimeUnixNano": "1544712660000001999", "endTimeUnixNano": "1544712661000002000",
        "attributes": [
            {"key": "k8s.pod.name", "value": {"stringValue": "web"}},
            {"key": "server.port", "value": {"intValue": "2379"}},
            {"key": "links", "value": {"arrayValue": {"values": [{"stringValue": "a"}, {"boolValue": true}]}}},
            {"key": "no.value", "value": null},
        ],
        "events": [{"timeUnixNano": "1544712660500000000", "name": "postStart"}],
    });
    let document = of_process(&resource, &json!([span]));
    let wanted = json!([{
        "traceId": TRACE, "id": "eee19b7ec3c1b174", "parentId": "eee19b7ec3c1b173", "name": "start", "kind": "CLIENT",
        "timestamp": 1_544_712_660_000_001_u64, "duration": 1_000_001,
        "localEndpoint": {"serviceName": "kubelet"},
        "annotations": [{"timestamp": 1_544_712_660_500_000_u64, "value": "postStart"}],
        "tags": {"k8s.pod.name": "web", "links": r#"["a",true]"#, "server.port": "2379"},
    }]);
    assert_eq!(converted(&document), wanted);
    // `oarlock trace --output json` has the same below `traces`.
    assert_eq!(converted(&json!({"object": "pod web", "traces": document})), wanted);
}

#[test]
fn a_span_without_parent_end_or_service_is_shown_too() {
    let span = |end: &str| json!({"traceId": TRACE, "spanId": "01", "parentSpanId": "", "name": "n", "kind": 1, "startTimeUnixNano": 5000, "endTimeUnixNano": end});
    let shown = converted(&of_process(&Value::Null, &json!([span("0"), span("5000")])));
    let root = json!({"traceId": TRACE, "id": "01", "name": "n", "timestamp": 5, "localEndpoint": {"serviceName": "unknown_service"}});
    assert_eq!(shown[0], root);
    assert_eq!(shown[1]["duration"], 1);
}

#[test]
fn a_failed_step_is_an_error_to_zipkin() {
    let span = |status: &Value| json!({"traceId": TRACE, "spanId": "01", "name": "n", "startTimeUnixNano": "1", "endTimeUnixNano": "2", "status": status});
    let statuses = [json!({"code": 2, "message": "no such image"}), json!({"code": 1}), json!({}), Value::Null];
    let shown = converted(&of_process(&json!({}), &statuses.iter().map(span).collect()));
    let tags: Vec<Value> = shown.as_array().unwrap().iter().map(|span| span["tags"].clone()).collect();
    let wanted = [
        json!({"error": "no such image", "otel.status_code": "ERROR"}),
        json!({"otel.status_code": "OK"}),
        Value::Null,
        Value::Null,
    ];
    assert_eq!(tags, wanted);
}

#[test]
fn other_documents_and_documents_without_spans_are_refused() {
    let said = |text: &str| spans(text).err().unwrap().to_string();
    assert_eq!(said("no JSON"), "neither output of `oarlock trace --output json` nor OTLP's JSON");
    assert_eq!(said(r#"{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": 1}]}]}]}"#), said("[]"));
    assert_eq!(said("{}"), "the document has no span");
}
