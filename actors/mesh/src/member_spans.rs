//! Asks all members of the bus for the spans that their processes keep in memory of some traces, and answers that question.

mod page;
mod received;
mod report;

use std::collections::{BTreeSet, HashSet};
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
    /// The spans in the order of their trace ids and span ids, each once.
    pub spans: Vec<Span>,
}

/// Returns the spans that this process keeps.
#[must_use]
pub fn own(traces: &HashSet<TraceId>) -> Kept {
    let Some(ring) = traces::ring() else { return Kept::default() };
    let mut spans = page::find(&ring, traces);
    let truncated = spans.len() > MAX_SPANS;
    spans.truncate(MAX_SPANS);
    Kept { recording: true, truncated, spans }
}

/// Asks all members with a recent heartbeat, except this process; of the nodes only those that are named. A named node without a recent heartbeat is among the
/// members that did not answer. The roster, and then all answers of a member together, may take `budget`.
///
/// # Errors
/// When no roster of members was received.
pub async fn list(
    bus: &Bus,
    traces: &HashSet<TraceId>,
    nodes: &BTreeSet<String>,
    budget: Duration,
) -> Result<Vec<MemberSpans>, AskError> {
    let mut known = everybody(bus, budget).await?;
    known.remove(bus.identity());
    known.retain(|member, _| member.role() != Role::Node);
    let nodes = nodes.iter().filter_map(|node| Identity::new(Role::Node, node).ok());
    let members: Vec<Identity> = known.into_keys().chain(nodes).collect();
    let ask = |member: Identity| async move {
        let kept = pages(bus, &member, traces, budget).await;
        MemberSpans { role: member.role(), name: member.name().to_owned(), kept }
    };
    Ok(stream::iter(members).map(ask).buffered(CONCURRENT_ASKS).collect().await)
}

/// Receives the pages of one member. When the budget ends between two pages, the earlier ones count.
async fn pages(bus: &Bus, member: &Identity, traces: &HashSet<TraceId>, budget: Duration) -> Result<Kept, AskError> {
    let end = clock::after(budget);
    let subject = Subject::member(member, SPANS).map_err(|error| AskError::Denied(error.to_string()))?;
    let mut received = Received::new(traces);
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
    use prost::Message;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_pages_of_a_trace_have_one_budget() {
        let exchange = Exchange::new();
        let member = |role, name| Bus::memory(&exchange, Identity::new(role, name).unwrap());
        let (asker, slow) = (member(Role::ApiServer, "asker"), member(Role::Node, "slow"));
        let mut asks = slow.serve(&Pattern::member(slow.identity()), 4).await.unwrap();
        let traces = HashSet::from([TraceId::from_bytes([7; 16])]);
        let page = |id: u64| {
            let span = Span { trace_id: vec![7; 16], span_id: id.to_be_bytes().to_vec(), ..Span::default() };
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
