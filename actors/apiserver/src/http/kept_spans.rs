//! `GET /debug/traces?trace=…&node=…`: the spans that processes keep in memory of some traces, for `oarlock trace`. This path is our own. The server answers with the spans of its own process and,
//! if there is a bus, of every process on it; of the nodes it asks only those that the request names, each for the lives of the pods that are bound to it.
//!
//! The search and the encoding run apart from small requests, as large requests do, because they may take longer than a small request may.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use http::{Method, Response, StatusCode};
use oarlock_bus::Role;
use oarlock_mesh::member_spans::{self, MAX_NODES, MAX_TRACES, MemberSpans, TraceReport};
use oarlock_meta::Status;
use oarlock_registry::key;
use oarlock_schema::{Str, resource};
use oarlock_telemetry::traces::Change;
use oarlock_telemetry::traces::opentelemetry::trace::TraceId;

use super::options::Query;
use super::{Body, routes, text};
use crate::caller::Caller;
use crate::inflight;
use crate::server::Server;

/// Path of the endpoint.
pub(super) const PATH: &str = "/debug/traces";

/// How long a process may take to send its spans.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Answers the path.
///
/// # Errors
/// 405 for other methods; 400 without a trace, for an id that is neither a UUID nor 32 hexadecimal digits, and for too many traces or nodes; 429, 503 and 504 as for large requests.
pub(super) async fn answer(
    server: &Server,
    caller: &Caller,
    method: &Method,
    query: &str,
) -> Result<Response<Body>, Status> {
    if method != Method::GET {
        return Err(routes::method_not_allowed());
    }
    let (traces, nodes) = read(&Query::new(query))?;
    let bus = server.state().bus();
    let name = bus.as_ref().map_or(server.config().identity.as_str(), |bus| bus.identity().name()).to_owned();
    let (own, of) = (server.clone(), traces.clone());
    let search = move || (member_spans::own(&of), lives_of_nodes(&own, &of, &nodes));
    let (kept, nodes) = apart(server, caller, search).await?;
    let mut answers = vec![MemberSpans { role: Role::ApiServer, name, kept: Ok(kept) }];
    let mut incomplete = None;
    if let Some(bus) = &bus {
        match member_spans::list(bus, &traces, nodes, ANSWER_TIMEOUT).await {
            Ok(others) => answers.extend(others),
            Err(error) => incomplete = Some(format!("no list of processes over the bus: {error}")),
        }
    }
    let encode = move || serde_json::to_vec(&TraceReport { incomplete, ..TraceReport::of(answers) });
    let json = apart(server, caller, encode).await?.map_err(|error| Status::internal_error(error.to_string()))?;
    Ok(text::reply(StatusCode::OK, "application/json", json))
}

/// Runs work of the request as a large request runs.
///
/// # Errors
/// As `Lanes::run`.
async fn apart<T: Send + 'static>(
    server: &Server,
    caller: &Caller,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    let (user, exempt) = (Str::new(&caller.counted.name), inflight::is_system(&caller.counted));
    server.large().run(&user, exempt, caller.deadline, async move { Ok(work()) }).await
}

/// Returns which of the traces are lives of pods that are bound to each of the nodes. A node may answer for these alone.
fn lives_of_nodes(
    server: &Server,
    traces: &HashSet<TraceId>,
    nodes: &BTreeSet<String>,
) -> BTreeMap<String, HashSet<TraceId>> {
    let Some(prefix) = resource("", "v1", "pods").and_then(key::prefix).filter(|_| !nodes.is_empty()) else {
        return BTreeMap::new();
    };
    let pods = server.view().list(prefix);
    lives_by_node(pods.iter().map(|pod| (pod.uid.as_str(), pod.fields.get(NODE_NAME).unwrap_or(""))), traces, nodes)
}

/// The selectable field of a pod that names the pod's node.
const NODE_NAME: &str = "spec.nodeName";

/// As [`lives_of_nodes`], from the pods' UIDs and nodes.
fn lives_by_node<'a>(
    pods: impl Iterator<Item = (&'a str, &'a str)>,
    traces: &HashSet<TraceId>,
    nodes: &BTreeSet<String>,
) -> BTreeMap<String, HashSet<TraceId>> {
    let mut lives: BTreeMap<String, HashSet<TraceId>> = BTreeMap::new();
    for (uid, node) in pods.filter(|(_, node)| nodes.contains(*node)) {
        let trace = Change::new(uid, 0).trace();
        if traces.contains(&trace) {
            lives.entry(node.to_owned()).or_default().insert(trace);
        }
    }
    lives
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
    fn a_node_is_asked_for_the_lives_of_its_own_pods_alone() {
        let uid = |id: u128| format!("{id:032x}");
        let pods = [(uid(1), "n1"), (uid(2), "n2"), (uid(3), "n1"), (uid(4), ""), (uid(5), "n3")];
        let traces = [1_u128, 2, 4, 5].map(TraceId::from).into();
        let nodes = ["n1", "n2", "n4", ""].map(str::to_owned).into();
        let lives = lives_by_node(pods.iter().map(|(uid, node)| (uid.as_str(), *node)), &traces, &nodes);
        let expected = [("", 4_u128), ("n1", 1), ("n2", 2)];
        let expected = expected.map(|(node, trace)| (node.to_owned(), HashSet::from([TraceId::from(trace)])));
        assert_eq!(lives, expected.into());
    }

    #[test]
    fn the_node_of_a_pod_is_a_selectable_field() {
        let row = resource("", "v1", "pods").unwrap();
        assert!(row.selectable.contains(&NODE_NAME));
    }

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
