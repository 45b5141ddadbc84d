//! Reads: every form of an object and of a list, and the refusals.

use super::{PARTIAL, PARTIAL_LIST, Subject, TABLE, YAML};
use crate::case::Step;

pub(super) fn all(subject: &Subject) -> Vec<Step> {
    let mut steps = Vec::new();
    if subject.has("get") {
        steps.extend([
            Step::new("get", "GET {full}"),
            Step::new("get-yaml", "GET {full}").accept(YAML),
            Step::new("get-table", "GET {full}").accept(TABLE),
            Step::new("get-table-object", "GET {full}?includeObject=Object").accept(TABLE),
            Step::new("get-table-none", "GET {full}?includeObject=None").accept(TABLE),
            Step::new("get-partial", "GET {full}").accept(PARTIAL),
            Step::new("get-minimal", "GET {minimal}"),
            Step::new("get-missing", "GET {list}/missing"),
            Step::new("get-unacceptable", "GET {full}").accept("text/css"),
            Step::new("get-no-subresource", "GET {full}/nothing"),
        ]);
        for subresource in subject.resource.subresources {
            // Logs, attachments and proxies have no answer of the server itself.
            if subresource.verbs.contains(&"get")
                && matches!(subresource.name, "status" | "scale" | "approval" | "ephemeralcontainers" | "resize")
            {
                let name = subresource.name;
                steps.push(Step::new(format!("get-{name}"), format!("GET {{full}}/{name}")));
            }
        }
    }
    if subject.has("list") {
        let list = format!("GET {{list}}?labelSelector=oracle%3D{}", subject.resource.plural);
        steps.extend([
            Step::new("list", &*list),
            Step::new("list-table", &*list).accept(TABLE),
            Step::new("list-partial", &*list).accept(PARTIAL_LIST),
            Step::new("list-by-name", format!("{list}&fieldSelector=metadata.name%3Dmissing")),
            Step::new("list-by-unknown-field", format!("{list}&fieldSelector=spec.unknown%3Da")),
        ]);
    }
    steps
}
