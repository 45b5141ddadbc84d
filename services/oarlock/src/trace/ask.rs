//! Asks the API server for the spans of a family, in as many requests as its traces and nodes need.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, bail};
use oarlock_client::{Client, RawRequest};
use oarlock_mesh::member_spans::{MAX_NODES, MAX_TRACES, TraceReport};
use oarlock_meta::Status;
use oarlock_telemetry::traces::Change;

use super::objects::{self, Family};

/// How long to wait for the spans; the server itself waits two seconds for each process.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// Largest number of bytes of an answer.
const MAX_ANSWER: usize = 64 << 20;

/// Asks for the spans of all objects of a family.
///
/// # Errors
/// When the server refuses or has no such path.
pub(super) async fn ask(client: &Client, family: &Family) -> anyhow::Result<TraceReport> {
    let mut whole = TraceReport::default();
    for path in paths(family) {
        let reply = client.raw(RawRequest::get(path, ANSWER_TIMEOUT)).await.map_err(objects::said)?;
        let code = reply.code;
        let bytes = reply.bytes(MAX_ANSWER).await.map_err(objects::said)?;
        match code {
            200 => {}
            404 => bail!("the API server has no path /debug/traces: it is not Oarlock's, or an older version"),
            _ => match serde_json::from_slice::<Status>(&bytes) {
                Ok(status) => return Err(objects::said(status)),
                Err(_) => bail!("/debug/traces is answered with {code}"),
            },
        }
        add(&mut whole, serde_json::from_slice(&bytes).context("the answer of /debug/traces")?);
    }
    Ok(whole)
}

/// Returns the requests for the spans of a family.
pub(super) fn paths(family: &Family) -> Vec<String> {
    let traces: BTreeSet<String> =
        family.all().map(|found| Change::new(found.obj.meta().uid(), 0).trace().to_string()).collect();
    paths_of(&traces, &family.node_names)
}

/// Returns the requests that together ask every node for every trace, each within the bounds of one request. Without a node, the other processes are asked.
fn paths_of(traces: &BTreeSet<String>, nodes: &BTreeSet<String>) -> Vec<String> {
    let traces: Vec<String> = traces.iter().map(|trace| format!("trace={trace}")).collect();
    let nodes: Vec<String> = nodes.iter().map(|node| format!("node={node}")).collect();
    let mut node_parts: Vec<&[String]> = nodes.chunks(MAX_NODES).collect();
    if node_parts.is_empty() {
        node_parts.push(&[]);
    }
    let path = &|traces: &[String], nodes: &[String]| format!("/debug/traces?{}", [traces, nodes].concat().join("&"));
    traces.chunks(MAX_TRACES).flat_map(|traces| node_parts.iter().map(move |nodes| path(traces, nodes))).collect()
}

/// Adds the report of one request to those of the earlier ones. A process that was asked several times is one member, with the first of its errors.
fn add(whole: &mut TraceReport, part: TraceReport) {
    for spans in part.traces.resource_spans {
        // A process that is no node answers the requests for other nodes with the same spans.
        if !whole.traces.resource_spans.contains(&spans) {
            whole.traces.resource_spans.push(spans);
        }
    }
    for new in part.members {
        let same = whole.members.iter_mut().find(|known| (&known.role, &known.name) == (&new.role, &new.name));
        let Some(known) = same else {
            whole.members.push(new);
            continue;
        };
        known.recording |= new.recording;
        known.truncated |= new.truncated;
        known.refused += new.refused;
        known.error = known.error.take().or(new.error);
    }
    whole.incomplete = whole.incomplete.take().or(part.incomplete);
}

#[cfg(test)]
mod tests {
    use oarlock_mesh::member_spans::MemberReport;
    use oarlock_mesh::otlp::trace::v1::{ResourceSpans, ScopeSpans};

    use super::*;

    #[test]
    fn every_node_is_asked_for_every_trace_within_the_bounds_of_a_request() {
        let texts = |key: &str, count: usize| (0..count).map(|id| format!("{key}{id}")).collect::<BTreeSet<_>>();
        let count = |path: &str, key: &str| path.matches(&format!("{key}=")).count();
        type Case = (usize, usize, &'static [(usize, usize)]);
        let cases: [Case; 4] = [
            (2, 0, &[(2, 0)]),
            (MAX_TRACES, MAX_NODES, &[(MAX_TRACES, MAX_NODES)]),
            (1, MAX_NODES + 1, &[(1, MAX_NODES), (1, 1)]),
            (MAX_TRACES + 2, MAX_NODES + 1, &[(MAX_TRACES, MAX_NODES), (MAX_TRACES, 1), (2, MAX_NODES), (2, 1)]),
        ];
        for (traces, nodes, wanted) in cases {
            let paths = paths_of(&texts("t", traces), &texts("n", nodes));
            let sizes: Vec<_> = paths.iter().map(|path| (count(path, "trace"), count(path, "node"))).collect();
            assert_eq!(sizes, wanted);
        }
    }

    #[test]
    fn what_a_member_said_to_an_earlier_request_is_kept() {
        let member = |name: &str, recording, truncated, error: Option<&str>| MemberReport {
            role: "node".to_owned(),
            name: name.to_owned(),
            recording,
            truncated,
            error: error.map(str::to_owned),
            ..MemberReport::default()
        };
        let resource = |count| {
            let scope_spans = vec![ScopeSpans::default(); count];
            ResourceSpans { scope_spans, ..ResourceSpans::default() }
        };
        let report = |members, sizes: &[usize], incomplete: Option<&str>| {
            let mut report =
                TraceReport { members, incomplete: incomplete.map(str::to_owned), ..TraceReport::default() };
            report.traces.resource_spans = sizes.iter().map(|count| resource(*count)).collect();
            report
        };
        let mut whole = TraceReport::default();
        let first = [member("a", true, true, None), member("b", false, false, Some("first"))];
        add(&mut whole, report(first.to_vec(), &[1], Some("no list")));
        let second = [member("b", true, false, Some("second")), member("a", false, false, None)];
        add(&mut whole, report([&second[..], &[member("c", true, false, None)]].concat(), &[1, 2], None));
        let members = vec![
            member("a", true, true, None),
            member("b", true, false, Some("first")),
            member("c", true, false, None),
        ];
        assert_eq!(whole, report(members, &[1, 2], Some("no list")));
    }
}
