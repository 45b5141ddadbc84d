//! Routes requests by path.

use std::time::Duration;

use http::{Method, Request};
use hyper::body::Incoming;
use oarlock_schema::Str;
use oarlock_serving::query::Query;

use super::answer::{self, Answer, Refusal};
use super::place::Place;
use super::{Server, configz, proxy, stats};
use crate::cri::{self, Streams};
use crate::fleet::KubeletHandle;
use crate::node::command::RunningPod;

/// Deadline of a command of `/run`.
const RUN_TIMEOUT: Duration = Duration::from_secs(120);

/// Answers an authorized request.
pub(super) async fn route(
    server: &Server,
    node: &KubeletHandle,
    request: Request<Incoming>,
) -> Result<Answer, Refusal> {
    let path = request.uri().path().trim_end_matches('/').to_owned();
    let place = Place::parse(&path);
    let methods: &[Method] = match (path.as_str(), &place) {
        (_, Some(("exec" | "attach" | "portForward", _))) => &[Method::GET, Method::POST],
        (_, Some(("run", _))) => &[Method::POST],
        _ => &[Method::GET, Method::HEAD],
    };
    if !methods.contains(request.method()) {
        return Err(Refusal::new(405, "405: Method Not Allowed"));
    }
    match (path.as_str(), place) {
        (_, Some(("containerLogs", _))) | ("/pods", _) => {
            let target = request.uri().path_and_query().map_or(path.as_str(), |target| target.as_str());
            Ok(answer::reply(node.get(target).await?))
        }
        ("/healthz" | "/healthz/ping" | "/healthz/log" | "/healthz/syncloop", _) => {
            // Health requires that the node's actor answers.
            node.find("", "").await?;
            Ok(answer::text(200, "ok"))
        }
        ("/runningpods", _) => Ok(answer::whole(200, "application/json", stats::running(node).await?)),
        ("/stats/summary" | "/stats", _) => Ok(answer::whole(200, "application/json", stats::summary(node).await?)),
        ("/configz", _) => Ok(answer::whole(200, "application/json", configz::configz(node))),
        ("/metrics", _) if server.inner.shows_metrics => {
            oarlock_serving::metrics::answer(&server.inner.system, request.headers()).await
        }
        ("/metrics", _) => {
            Err(Refusal::new(404, "404: this process shows its metrics at its API server, under /metrics\n"))
        }
        (_, Some((what, place))) => on_container(server, node, what, &place, request).await,
        _ => Err(Refusal::not_found()),
    }
}

async fn on_container(
    server: &Server,
    node: &KubeletHandle,
    what: &str,
    place: &Place,
    request: Request<Incoming>,
) -> Result<Answer, Refusal> {
    let query = Query::of(&request);
    let streams = match what {
        "exec" | "attach" => streams(&query)?,
        _ => Streams::default(),
    };
    let found = node.find(&place.namespace, &place.pod).await?;
    let found = found.ok_or_else(|| Refusal::new(404, "pod does not exist"))?;
    let same = place.uid.as_ref().is_none_or(|uid| *uid == found.uid);
    let named = found.running.iter().find(|(name, _)| same && *name == place.container).map(|(_, id)| id.as_str());
    let quoted = oarlock_meta::quote::quote(&place.container);
    let missing = || Refusal::new(500, format!("container not found ({quoted})"));
    let runtime = node.runtime();
    let url = match what {
        "exec" => runtime.exec(named.ok_or_else(missing)?, &command(&query), streams).await,
        "attach" => {
            let absent = || {
                let text = format!("container {} not found in pod {}_{}", place.container, place.pod, place.namespace);
                Refusal::new(500, text)
            };
            let id = named.ok_or_else(absent)?;
            let tty = stats::has_tty(node, place).await?;
            runtime.attach(id, Streams { tty, stderr: streams.stderr && !tty, ..streams }).await
        }
        "run" => {
            let command: Vec<Str> = query.first("cmd").split(' ').map(Str::from).collect();
            let ran = runtime.exec_sync(named.ok_or_else(missing)?, &command, RUN_TIMEOUT).await.map_err(refusal)?;
            return Ok(answer::whole(200, "application/json", [ran.stdout, ran.stderr].concat()));
        }
        _ if !same => return Err(Refusal::new(404, "pod not found")),
        _ => runtime.port_forward(&sandbox(&found, place)?, &ports(&query, &request)?).await,
    };
    proxy::pass(server, request, &url.map_err(refusal)?).await
}

fn sandbox(found: &RunningPod, place: &Place) -> Result<Str, Refusal> {
    let text =
        || format!("pod not found ({})", oarlock_meta::quote::quote(&format!("{}_{}", place.pod, place.namespace)));
    found.sandbox.clone().ok_or_else(|| Refusal::new(500, text()))
}

/// Returns the answer for a failed runtime call (upstream `streaming.WriteError`).
fn refusal(error: cri::Error) -> Refusal {
    let code = if matches!(error, cri::Error::NotFound(_)) { 404 } else { 500 };
    Refusal::new(code, error.to_string())
}

fn command(query: &Query) -> Vec<Str> {
    query.all("command").map(Str::from).collect()
}

/// Parses the streams of exec and attach (upstream `remotecommand.NewOptions`).
fn streams(query: &Query) -> Result<Streams, Refusal> {
    // The kubelet's parameter names differ from the API's.
    let set = |name| query.first(name) == "1";
    let (stdin, stdout, stderr, tty) = (set("input"), set("output"), set("error"), set("tty"));
    if !stdin && !stdout && !stderr {
        return Err(Refusal::new(400, "you must specify at least 1 of stdin, stdout, stderr"));
    }
    Ok(Streams { stdin, stdout, stderr: stderr && !tty, tty })
}

/// Parses the ports of port-forward (upstream `portforward.NewV4Options`): only WebSocket clients send the ports in the request.
fn ports(query: &Query, request: &Request<Incoming>) -> Result<Vec<u16>, Refusal> {
    if !oarlock_streams::websocket::asked(request.headers()) {
        return Ok(Vec::new());
    }
    let given: Vec<&str> = query.all("port").collect();
    if given.is_empty() {
        return Err(Refusal::new(400, "query parameter \"port\" is required"));
    }
    let one = |text: &str| match text.parse::<u16>() {
        Ok(0) => Err(Refusal::new(400, format!("port {text:?} must be > 0"))),
        Ok(port) => Ok(port),
        Err(error) => Err(Refusal::new(400, format!("unable to parse {text:?} as a port: {error}"))),
    };
    given.iter().flat_map(|text| text.split(',')).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_streams_and_commands() {
        let query = Query::parse("input=1&output=1&tty=1&error=1&command=sh&command=-c&command=echo+a%20%26%2b");
        let wanted = Streams { stdin: true, stdout: true, stderr: false, tty: true };
        assert_eq!(streams(&query).unwrap(), wanted);
        assert_eq!(command(&query), ["sh", "-c", "echo a &+"]);
        assert!(streams(&Query::default()).is_err());
    }
}
