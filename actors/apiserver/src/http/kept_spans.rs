//! `GET /debug/traces?trace=…&node=…`: the spans that processes keep in memory of some traces, for `oarlock trace`. This path is our own. The server answers with the spans of its own process and,
//! if there is a bus, of every process on it; of the nodes it asks only those that the request names.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use http::{Method, Response, StatusCode};
use oarlock_bus::Role;
use oarlock_mesh::member_spans::{self, MAX_NODES, MAX_TRACES, MemberSpans, TraceReport};
use oarlock_meta::Status;
use oarlock_telemetry::traces::opentelemetry::trace::TraceId;

use super::options::Query;
use super::{Body, routes, text};
use crate::server::Server;

/// Path of the endpoint.
pub(super) const PATH: &str = "/debug/traces";

/// How long a process may take to send its spans.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Answers the path.
///
/// # Errors
/// 405 for other methods; 400 without a trace, for an id that is neither a UUID nor 32 hexadecimal digits, and for too many traces or nodes.
pub(super) async fn answer(server: &Server, method: &Method, query: &str) -> Result<Response<Body>, Status> {
    if method != Method::GET {
        return Err(routes::method_not_allowed());
    }
    let (traces, nodes) = read(&Query::new(query))?;
    let bus = server.state().bus();
    let name = bus.as_ref().map_or(server.config().identity.as_str(), |bus| bus.identity().name()).to_owned();
    let kept = Ok(member_spans::own(&traces));
    let mut answers = vec![MemberSpans { role: Role::ApiServer, name, kept }];
    let mut incomplete = None;
    if let Some(bus) = &bus {
        match member_spans::list(bus, &traces, &nodes, ANSWER_TIMEOUT).await {
            Ok(others) => answers.extend(others),
            Err(error) => incomplete = Some(format!("no list of processes over the bus: {error}")),
        }
    }
    let report = TraceReport { incomplete, ..TraceReport::of(answers) };
    let json = serde_json::to_vec(&report).map_err(|error| Status::internal_error(error.to_string()))?;
    Ok(text::reply(StatusCode::OK, "application/json", json))
}

/// Reads the traces and nodes that a request names.
fn read(query: &Query) -> Result<(HashSet<TraceId>, BTreeSet<String>), Status> {
    let id = |text: &str| {
        let digits = text.replace('-', "");
        let trace = TraceId::from_hex(&digits).ok().filter(|trace| digits.len() == 32 && *trace != TraceId::INVALID);
        trace.ok_or_else(|| Status::bad_request(format!("trace: {text:?} is neither a UUID nor 32 hexadecimal digits")))
    };
    let traces: HashSet<TraceId> = query.all("trace").map(id).collect::<Result<_, _>>()?;
    let nodes: BTreeSet<String> = query.all("node").map(str::to_owned).collect();
    match (traces.len(), nodes.len()) {
        (0, _) => Err(Status::bad_request("trace: Required value")),
        (MAX_TRACES.., _) if traces.len() > MAX_TRACES => {
            Err(Status::bad_request(format!("trace: at most {MAX_TRACES} may be given")))
        }
        (_, MAX_NODES..) if nodes.len() > MAX_NODES => {
            Err(Status::bad_request(format!("node: at most {MAX_NODES} may be given")))
        }
        _ => Ok((traces, nodes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_in_both_forms_and_everything_else_is_refused() {
        let uuid = "6d0a3c52-9e1f-4b7a-8c55-0123456789ab";
        let text = format!("trace={uuid}&trace={}&node=a&node=b", uuid.replace('-', ""));
        let (traces, nodes) = read(&Query::new(&text)).unwrap();
        assert_eq!((traces.len(), nodes.len()), (1, 2), "both are one trace");
        let many = (1..=MAX_TRACES + 1).fold(String::new(), |text, id| format!("{text}trace={id:032x}&"));
        let nodes = (0..=MAX_NODES).fold(format!("trace={uuid}"), |text, id| format!("{text}&node=n{id}"));
        let zero = "trace=00000000000000000000000000000000";
        for bad in ["", "node=a", "trace=", "trace=xyz", "trace=1", zero, &many, &nodes] {
            assert_eq!(read(&Query::new(bad)).unwrap_err().code, 400, "{bad}");
        }
    }
}
