//! The answer of `GET /debug/traces`: the spans of some traces from all processes, as JSON.

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, TracesData};
use serde::{Deserialize, Serialize};

use super::MemberSpans;

/// The spans of some traces, and the processes that were asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceReport {
    /// The processes that were asked.
    pub members: Vec<MemberReport>,
    /// Why further processes could not be asked; absent when all could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// The spans in OTLP's JSON, one resource for each process. A span that two processes keep is in both.
    pub traces: TracesData,
}

/// One process that was asked for spans.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberReport {
    /// The role of the process, such as `scheduler`.
    pub role: String,
    /// The name of the process.
    pub name: String,
    /// Whether the process keeps spans; false where tracing is off.
    pub recording: bool,
    /// Whether the process keeps further spans that are not in the answer.
    pub truncated: bool,
    /// Number of spans that the process sent although it may not record them; they are left out.
    pub refused: usize,
    /// Why the process did not answer; absent when it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl TraceReport {
    /// Collects the answers of processes.
    #[must_use]
    pub fn of(answers: Vec<MemberSpans>) -> Self {
        let mut report = Self::default();
        for MemberSpans { role, name, kept } in answers {
            let role = role.to_string();
            let mut member = MemberReport { role: role.clone(), name: name.clone(), ..MemberReport::default() };
            match kept {
                Ok(kept) => {
                    (member.recording, member.truncated) = (kept.recording, kept.truncated);
                    member.refused = kept.refused;
                    if !kept.spans.is_empty() {
                        let scope_spans = vec![ScopeSpans { spans: kept.spans, ..ScopeSpans::default() }];
                        let resource = Some(resource(&role, &name));
                        let spans = ResourceSpans { resource, scope_spans, ..ResourceSpans::default() };
                        report.traces.resource_spans.push(spans);
                    }
                }
                Err(error) => member.error = Some(error.to_string()),
            }
            report.members.push(member);
        }
        report
    }
}

/// Describes a process by OpenTelemetry's conventions.
fn resource(role: &str, name: &str) -> Resource {
    let attribute = |key: &str, value: &str| KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(Value::StringValue(value.to_owned())) }),
        ..KeyValue::default()
    };
    let attributes = vec![attribute("service.name", role), attribute("service.instance.id", name)];
    Resource { attributes, ..Resource::default() }
}

#[cfg(test)]
mod tests {
    use oarlock_bus::{AskError, Role};
    use opentelemetry_proto::tonic::trace::v1::Span;

    use super::super::Kept;
    use super::*;

    #[test]
    fn a_report_is_read_back_from_its_json() {
        let span = Span { trace_id: vec![1; 16], span_id: vec![2; 8], end_time_unix_nano: u64::MAX, ..Span::default() };
        let kept = Kept { recording: true, spans: vec![span], ..Kept::default() };
        let member = |name: &str, kept| MemberSpans { role: Role::Scheduler, name: name.to_owned(), kept };
        let report = TraceReport::of(vec![
            member("a", Ok(kept)),
            member("b", Err(AskError::Timeout)),
            member("c", Ok(Kept::default())),
        ]);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["members"][1]["error"], "no answer within the budget");
        assert_eq!((&json["members"][0]["recording"], &json["members"][2]["recording"]), (&true.into(), &false.into()));
        let spans = &json["traces"]["resourceSpans"];
        assert_eq!(spans.as_array().unwrap().len(), 1, "processes without spans have no resource");
        assert_eq!(spans[0]["scopeSpans"][0]["spans"][0]["spanId"], "0202020202020202");
        assert_eq!(serde_json::from_value::<TraceReport>(json).unwrap(), report);
    }
}
