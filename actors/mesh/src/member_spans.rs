//! Asks all members of the bus for the spans that their processes keep in memory of some traces, and answers that question.

mod authority;
mod page;
mod received;
mod report;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use futures::{StreamExt, stream};
use oarlock_bus::proto::mesh::v1::{SpansAnswer, SpansQuestion};
use oarlock_bus::{AskError, Bus, Identity, Role, Subject};
use oarlock_runtime::clock;
use oarlock_telemetry::traces;
use oarlock_telemetry::traces::opentelemetry::trace::TraceId;
use opentelemetry_proto::tonic::trace::v1::Span;

use self::received::Received;
use crate::inspect::{CONCURRENT_ASKS, everybody};
use crate::methods::SPANS;

pub(crate) use page::page;
pub use report::{MemberReport, TraceReport};

/// The most traces that one question names.
pub const MAX_TRACES: usize = 128;
/// The most nodes that one request to the API server names.
pub const MAX_NODES: usize = 128;
/// The most spans that are accepted of one process.
const MAX_SPANS: usize = 10_000;

/// A process with the spans that it keeps, or why the process did not answer.
#[derive(Clone, Debug)]
pub struct MemberSpans {
    /// The role of the process.
    pub role: Role,
    /// The name of the process.
    pub name: String,
    /// The spans.
    pub kept: Result<Kept, AskError>,
}

/// The spans that a process keeps of the traces in a question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// Whether the process keeps spans; false where tracing is off.
    pub recording: bool,
    /// Whether the process keeps further spans of these traces: more than are accepted of one process, or than it sent within the budget.
    pub truncated: bool,
    /// Number of spans that the process may not record, by its role or because they are about another node; they are left out.
    pub refused: usize,
    /// The spans in the order of their trace ids and span ids, each once.
    pub spans: Vec<Span>,
}

/// Returns the spans that this process keeps.
#[must_use]
pub fn own(traces: &HashSet<TraceId>) -> Kept {
    let Some(ring) = traces::ring() else { return Kept::default() };
    let mut found = page::find(&ring, traces);
    let truncated = found.len() > MAX_SPANS;
    found.truncate(MAX_SPANS);
    let spans = found.into_iter().map(|span| Span::from((*span).clone())).collect();
    Kept { recording: true, truncated, refused: 0, spans }
}

/// Asks all members with a recent heartbeat, except this process; of the nodes only those in `nodes`, each for the lives of its own pods, which the caller knows from the store. A named node without a
/// recent heartbeat is among the members that did not answer. Of each member only those spans count that its role may record. The roster, and then all answers of a member together, may take `budget`.
///
/// # Errors
/// When no roster of members was received.
pub async fn list(
    bus: &Bus,
    traces: &HashSet<TraceId>,
    nodes: BTreeMap<String, HashSet<TraceId>>,
    budget: Duration,
) -> Result<Vec<MemberSpans>, AskError> {
    let mut known = everybody(bus, budget).await?;
    known.remove(bus.identity());
    known.retain(|member, _| member.role() != Role::Node);
    let nodes = nodes.into_iter().filter_map(|(node, lives)| Some((Identity::new(Role::Node, &node).ok()?, lives)));
    let members: Vec<_> = known.into_keys().map(|member| (member, traces.clone())).chain(nodes).collect();
    let ask = |(member, traces): (Identity, HashSet<TraceId>)| async move {
        let kept = pages(bus, &member, &traces, budget).await;
        MemberSpans { role: member.role(), name: member.name().to_owned(), kept }
    };
    Ok(stream::iter(members).map(ask).buffered(CONCURRENT_ASKS).collect().await)
}

/// Receives the pages of one member. When the budget ends between two pages, the earlier ones count.
async fn pages(bus: &Bus, member: &Identity, traces: &HashSet<TraceId>, budget: Duration) -> Result<Kept, AskError> {
    let end = clock::after(budget);
    let subject = Subject::member(member, SPANS).map_err(|error| AskError::Denied(error.to_string()))?;
    let mut received = Received::new(member, traces);
    let mut question = SpansQuestion {
        traces: traces.iter().map(|trace| trace.to_bytes().to_vec().into()).collect(),
        ..SpansQuestion::default()
    };
    loop {
        let page: SpansAnswer = match bus.ask(&subject, &question, end.remaining()).await {
            Ok(page) => page,
            Err(AskError::Timeout | AskError::Expired) if received.after().is_some() => {
                return Ok(received.finish(true));
            }
            Err(error) => return Err(error),
        };
        if !received.add(&page)? {
            return Ok(received.finish(false));
        }
        question.after = received.after().unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use oarlock_bus::{Exchange, Pattern};
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
    use prost::Message;

    use super::*;

    /// A span with a parent, as a member on the bus may make it up.
    fn rogue(name: &str, trace: &[u8; 16], node: &str) -> Span {
        let value = Some(AnyValue { value: Some(Value::StringValue(node.to_owned())) });
        let attributes = vec![KeyValue { key: "k8s.node.name".to_owned(), value, ..KeyValue::default() }];
        let (trace_id, parent_span_id) = (trace.to_vec(), vec![1; 8]);
        Span { name: name.to_owned(), trace_id, span_id: vec![9; 8], parent_span_id, attributes, ..Span::default() }
    }

    /// Asks a node that answers with these spans, whatever the question is; the node's own pod has the trace 7.
    async fn asked(spans: &[Span]) -> Result<Kept, AskError> {
        let exchange = Exchange::new();
        let member = |role, name| Bus::memory(&exchange, Identity::new(role, name).unwrap());
        let (asker, node) = (member(Role::ApiServer, "asker"), member(Role::Node, "n1"));
        let mut asks = node.serve(&Pattern::member(node.identity()), 4).await.unwrap();
        let spans = spans.iter().map(|span| span.encode_to_vec().into()).collect();
        let page = SpansAnswer { spans, more: false, recording: true };
        let answers = async {
            while let Some(ask) = asks.next().await {
                ask.answer(&page).await.unwrap();
            }
        };
        let (own, other) = (TraceId::from_bytes([7; 16]), TraceId::from_bytes([8; 16]));
        let (traces, nodes) = (HashSet::from([own, other]), BTreeMap::from([("n1".to_owned(), HashSet::from([own]))]));
        let budget = Duration::from_secs(2);
        let members = tokio::select! {
            () = answers => panic!("nobody asks any more"),
            members = list(&asker, &traces, nodes, budget) => members.unwrap(),
        };
        let [node] = <[MemberSpans; 1]>::try_from(members).unwrap();
        assert_eq!((node.role, node.name.as_str()), (Role::Node, "n1"));
        node.kept
    }

    #[tokio::test(start_paused = true)]
    async fn a_rogue_node_replaces_no_span_of_another_part_or_of_another_nodes_pod() {
        let own = rogue("pull", &[7; 16], "n1");
        for attack in [
            rogue("bind", &[7; 16], "n1"),
            rogue("commit", &[7; 16], "n1"),
            rogue("pull", &[7; 16], "n2"),
            Span { parent_span_id: Vec::new(), ..rogue("deployment create", &[7; 16], "n1") },
        ] {
            let kept = asked(std::slice::from_ref(&attack)).await.unwrap();
            assert_eq!((kept.spans.as_slice(), kept.refused), ([].as_slice(), 1), "{}", attack.name);
        }
        assert_eq!(asked(std::slice::from_ref(&own)).await.unwrap().spans, [own]);
        let of_another_pod = Span { parent_span_id: Vec::new(), ..rogue("pod create", &[8; 16], "n1") };
        let refused = asked(&[of_another_pod]).await;
        assert!(matches!(&refused, Err(AskError::Garbled(why)) if why.contains("not asked for")), "{refused:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn all_pages_of_a_trace_have_one_budget() {
        let exchange = Exchange::new();
        let member = |role, name| Bus::memory(&exchange, Identity::new(role, name).unwrap());
        let (asker, slow) = (member(Role::ApiServer, "asker"), member(Role::Node, "slow"));
        let mut asks = slow.serve(&Pattern::member(slow.identity()), 4).await.unwrap();
        let traces = HashSet::from([TraceId::from_bytes([7; 16])]);
        let page = |id: u64| {
            let span = Span { span_id: id.to_be_bytes().to_vec(), ..rogue("pull", &[7; 16], "slow") };
            SpansAnswer { spans: vec![span.encode_to_vec().into()], more: true, recording: true }
        };
        let answers = async {
            let mut sent = 0;
            while let Ok(ask) = asks.next().await.ok_or("over") {
                clock::sleep(Duration::from_millis(300)).await;
                sent += 1;
                // The last asker no longer waits.
                let _late = ask.answer(&page(sent)).await;
            }
        };
        let (began, budget) = (clock::now(), Duration::from_secs(2));
        let kept = tokio::select! {
            () = answers => panic!("nobody asks any more"),
            kept = pages(&asker, slow.identity(), &traces, budget) => kept.unwrap(),
        };
        assert_eq!(began.elapsed(), budget, "of virtual time");
        assert_eq!((kept.spans.len(), kept.truncated, kept.recording), (6, true, true));
    }
}
