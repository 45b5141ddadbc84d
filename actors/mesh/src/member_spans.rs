//! Asks all members of the bus for the spans that their processes keep in memory of some traces, and answers that question.

mod page;
mod report;

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use futures::{StreamExt, stream};
use oarlock_bus::proto::mesh::v1::{SpansAnswer, SpansQuestion};
use oarlock_bus::{AskError, Bus, Identity, Role, Subject};
use oarlock_telemetry::traces;
use oarlock_telemetry::traces::opentelemetry::trace::TraceId;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

use crate::inspect::{CONCURRENT_ASKS, everybody};
use crate::methods::SPANS;

pub(crate) use page::page;
pub use report::{MemberReport, TraceReport};

/// The most traces that one question names.
pub const MAX_TRACES: usize = 128;
/// The most spans that are accepted of one process; bounds the pages that a faulty member can send.
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
    /// Whether the process keeps more than [`MAX_SPANS`] spans of these traces, so that some are missing.
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
/// members that did not answer. Each answer may take `budget`.
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

async fn pages(bus: &Bus, member: &Identity, traces: &HashSet<TraceId>, budget: Duration) -> Result<Kept, AskError> {
    let subject = Subject::member(member, SPANS).map_err(|error| AskError::Denied(error.to_string()))?;
    let mut kept = Kept::default();
    let mut question = SpansQuestion {
        traces: traces.iter().map(|trace| trace.to_bytes().to_vec().into()).collect(),
        ..SpansQuestion::default()
    };
    loop {
        let page: SpansAnswer = bus.ask(&subject, &question, budget).await?;
        kept.recording = page.recording;
        for span in &page.spans {
            kept.spans.push(Span::decode(span.clone()).map_err(|error| AskError::Garbled(error.to_string()))?);
        }
        let Some(last) = kept.spans.last().filter(|_| page.more && !page.spans.is_empty()) else { return Ok(kept) };
        if kept.spans.len() >= MAX_SPANS {
            kept.truncated = true;
            return Ok(kept);
        }
        question.after = page::position(last).into();
    }
}
