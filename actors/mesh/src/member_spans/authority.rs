//! Which spans a member may answer with. Members record what their part does and nothing else, so a member that is not what it should be, above all a node, cannot replace
//! the spans of others: the ids of roots follow from the object, and anybody can compute them.

use oarlock_bus::{Identity, Role};
use oarlock_seeded_bug::seeded_bug;
use oarlock_telemetry::traces::Recorder;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;

/// Names of the roots that a kubelet records. Those of deletions come from the API server.
const KUBELET_ROOTS: [&str; 2] = ["pod create", "pod update"];

/// Whether a member may record a span. The lives of which a node may record spans at all are limited by the question, see [`super::list`].
pub(super) fn may_record(member: &Identity, span: &Span) -> bool {
    if seeded_bug!("any_member_records_any_span") {
        return true;
    }
    let is_root = span.parent_span_id.is_empty();
    let is_step_of = |recorder| !is_root && Recorder::of(&span.name) == Some(recorder);
    match member.role() {
        Role::ApiServer => true,
        Role::Scheduler => is_step_of(Recorder::Scheduler) || is_answer(span),
        Role::Controllers | Role::Cloud => {
            is_step_of(Recorder::Controller) || is_root && is_of_a_workload(&span.name) || is_answer(span)
        }
        Role::Node => {
            let of_kubelet = is_step_of(Recorder::Kubelet) || is_root && KUBELET_ROOTS.contains(&span.name.as_str());
            of_kubelet && node(span) == Some(member.name())
        }
        Role::Admission => is_answer(span),
        Role::Inspector => false,
    }
}

/// Whether the name of a root, kind and verb, is that of a change that a controller brings about.
fn is_of_a_workload(name: &str) -> bool {
    name.split_once(' ').is_some_and(|(kind, verb)| kind != "pod" && matches!(verb, "create" | "update" | "delete"))
}

/// Whether the span is that of an ask that the member answered, in the trace of a request.
fn is_answer(span: &Span) -> bool {
    span.name == "answer" && span.kind == SpanKind::Server as i32 && !span.parent_span_id.is_empty()
}

/// Returns the node that a span names.
fn node(span: &Span) -> Option<&str> {
    let found = span.attributes.iter().find(|attribute| attribute.key == "k8s.node.name")?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(name) => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};

    use super::*;

    fn span(name: &str, parent: &[u8], node: &str) -> Span {
        let value = Some(AnyValue { value: Some(Value::StringValue(node.to_owned())) });
        let attributes = vec![KeyValue { key: "k8s.node.name".to_owned(), value, ..KeyValue::default() }];
        Span { name: name.to_owned(), parent_span_id: parent.to_vec(), attributes, ..Span::default() }
    }

    fn may(role: Role, span: &Span) -> bool {
        may_record(&Identity::new(role, "n1").unwrap(), span)
    }

    #[test]
    fn each_role_records_its_own_steps_and_no_others() {
        let recorders = [
            (Role::Scheduler, ["relay", "queue", "decide", "propose", "arbiter", "bind"].as_slice()),
            (Role::Node, &["admit", "volumes", "pull", "sandbox", "start", "ready"]),
            (Role::Controllers, &["reconcile"]),
            (Role::ApiServer, &["commit"]),
        ];
        for (of, names) in recorders {
            for name in names {
                let step = span(name, &[1; 8], "n1");
                for role in Role::ALL {
                    let same = role == of || role == Role::ApiServer || (role, of) == (Role::Cloud, Role::Controllers);
                    assert_eq!(may(role, &step), same, "{name} by {role}");
                }
                assert!(of == Role::ApiServer || !may(of, &span(name, &[], "n1")), "a step is never a root: {name}");
            }
        }
    }

    #[test]
    fn a_node_speaks_for_its_own_pods_and_records_no_root_of_a_workload_or_a_deletion() {
        for (name, parent, node, expected) in [
            ("pod create", [].as_slice(), "n1", true),
            ("pod update", &[], "n1", true),
            ("pod create", &[], "n2", false),
            ("pod create", &[1; 8], "n1", false),
            ("pod delete", &[], "n1", false),
            ("deployment create", &[], "n1", false),
            ("pull", &[1; 8], "n2", false),
            ("answer", &[1; 8], "n1", false),
        ] {
            assert_eq!(may(Role::Node, &span(name, parent, node)), expected, "{name} of {node}");
        }
        assert!(!may(Role::Node, &Span { attributes: Vec::new(), ..span("pull", &[1; 8], "") }));
    }

    #[test]
    fn controllers_record_roots_of_workloads_and_every_part_its_answers() {
        assert!(may(Role::Controllers, &span("deployment create", &[], "")));
        assert!(!may(Role::Controllers, &span("pod create", &[], "")));
        assert!(!may(Role::Scheduler, &span("deployment create", &[], "")));
        let answer = Span { kind: SpanKind::Server.into(), ..span("answer", &[1; 8], "") };
        for (role, expected) in [(Role::Scheduler, true), (Role::Admission, true), (Role::Node, false)] {
            assert_eq!(may(role, &answer), expected, "{role}");
        }
        assert!(!may(Role::Admission, &span("answer", &[1; 8], "")), "not of a server");
    }
}
