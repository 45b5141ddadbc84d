//! `pods/log`: finds the container and its node, and streams the log from the kubelet.

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use oarlock_meta::{ErrorList, FieldError, GroupKind, GroupResource, Path, Status, Time};
use oarlock_runtime::clock;
use oarlock_streams::upgrade;
use oarlock_streams::websocket::{self, Reader};

use crate::caller::Caller;
use crate::http::options::Query;
use crate::http::{Body, full};
use crate::inflight::Seat;
use crate::server::Server;
use crate::streaming::{self, Location};
use crate::target::Target;

/// Query parameters that are passed on to the kubelet.
const OPTIONS: &[&str] = &["follow", "previous", "tailLines", "sinceSeconds", "sinceTime", "timestamps", "limitBytes"];

/// Number of bytes of a kubelet's error message that are passed on.
const REFUSAL_MAX: usize = 50_000;

/// Streams the log of a container.
///
/// # Errors
/// 404 for an unknown pod, 400 for a container that the pod does not have, and the kubelet's error.
pub(crate) async fn serve(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    query: &Query,
    request: Request<Incoming>,
    seat: Seat,
) -> Result<Response<Body>, Status> {
    check(query, target.name)?;
    let (pod, node) = streaming::pod_and_node(server, target).await?;
    let container = streaming::choose_container(&pod, query.get("container"))?;
    if node.is_empty() {
        // The pod has not been scheduled yet: there is no log.
        let mut response = Response::new(full(Bytes::new()));
        *response.status_mut() = StatusCode::NO_CONTENT;
        return Ok(response);
    }
    let given = OPTIONS.iter().filter(|option| query.has(option));
    let options: Vec<String> =
        given.map(|option| format!("{option}={}", streaming::escaped(query.get(option)))).collect();
    let path = format!("/containerLogs/{}/{}/{container}?{}", target.namespace, target.name, options.join("&"));
    let verify = query.flag("insecureSkipTLSVerifyBackend") != Some(true);
    let asked = streaming::bare(Method::GET, &path)?;
    let to = Location::kubelet(node, verify);
    let answer = streaming::send(server, &to, asked, seat);
    let late = |_| Status::timeout("the kubelet did not answer in time", 0);
    let answer = clock::timeout_at(caller.deadline, answer).await.map_err(late)??;
    let code = answer.status().as_u16();
    if !(200..=206).contains(&code) {
        let text = Limited::new(answer.into_body(), REFUSAL_MAX).collect().await;
        let text = text.map_or_else(|error| error.to_string(), |body| String::from_utf8_lossy(&body.to_bytes()).into());
        return Err(refusal(code, text, target.name));
    }
    if websocket::asked(request.headers()) {
        return to_websocket(server, request, answer.into_body());
    }
    let mut response = streaming::passed(answer);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

/// Validates the options (upstream: `ValidatePodLogOptions`).
fn check(query: &Query, pod: &str) -> Result<(), Status> {
    let (tail, bytes, seconds) =
        (query.number("tailLines")?, query.number("limitBytes")?, query.number("sinceSeconds")?);
    let since = Some(query.get("sinceTime")).filter(|text| !text.is_empty());
    if let Some(text) = since {
        Time::parse(text).map_err(|error| Status::bad_request(error.to_string()))?;
    }
    let mut errors = ErrorList::default();
    let mut least = |name, value: Option<i64>, least, detail| {
        if let Some(value) = value.filter(|value| *value < least) {
            errors.push(FieldError::invalid(&Path::new(name), value, detail));
        }
    };
    least("tailLines", tail, 0, "must be greater than or equal to 0");
    least("limitBytes", bytes, 1, "must be greater than 0");
    least("sinceSeconds", seconds.filter(|_| since.is_none()), 1, "must be greater than 0");
    if seconds.is_some() && since.is_some() {
        let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        errors.push(FieldError::forbidden(&Path::new("[]"), detail));
    }
    if query.has("stream") {
        // Feature PodLogsQuerySplitStreams, which is off.
        errors.push(FieldError::forbidden(&Path::new("stream"), "may not be specified"));
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Status::invalid(&GroupKind::new("", "PodLogOptions"), pod, errors.as_slice())),
    }
}

/// Sends the log as WebSocket messages, for clients that cannot read a long answer incrementally (browsers).
fn to_websocket(server: &Server, mut request: Request<Incoming>, log: Incoming) -> Result<Response<Body>, Status> {
    let Some((reader, name)) = Reader::chosen(request.headers()) else {
        // Upstream's WebSocket library answers without any details of the error.
        let mut response = Response::new(full(Bytes::new()));
        *response.status_mut() = StatusCode::FORBIDDEN;
        return Ok(response);
    };
    let answer = websocket::accept(request.headers(), name).map_err(Status::bad_request)?;
    let client = hyper::upgrade::on(&mut request);
    let stop = server.streams().token();
    let follow = async move {
        let Ok(client) = upgrade::take(client).await else { return };
        let client = websocket::serve(client).await;
        tokio::select! {
            () = stop.cancelled() => {}
            () = reader.send(client, log.into_data_stream()) => {}
        }
    };
    server.streams().spawn("log", follow).map_err(|error| Status::service_unavailable(error.to_string()))?;
    Ok(answer.map(|()| full(Bytes::new())))
}

/// Converts an error of the kubelet as upstream does (`GenericHttpResponseChecker`).
fn refusal(code: u16, text: String, pod: &str) -> Status {
    match code {
        400 => Status::bad_request(text),
        500 => Status::internal_error(text),
        _ => {
            let resource = GroupResource::new("", "pods/log");
            Status::generic_server_response(code, "", &resource, pod, &text, 0, false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{check, refusal};
    use crate::http::options::Query;

    #[test]
    fn options_are_judged_before_anything_is_asked() {
        for (query, code, message) in [
            ("tailLines=-1", 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
            ("sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
            (
                "sinceSeconds=0&sinceTime=2020-01-01T00:00:00Z",
                422,
                "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
            ),
            ("stream=Stdout", 422, "stream: Forbidden: may not be specified"),
            ("limitBytes=x", 400, "strconv.ParseInt: parsing \"x\": invalid syntax"),
            ("sinceTime=x", 400, "cannot parse \"x\" as \"2006\""),
        ] {
            let status = check(&Query::new(query), "p").unwrap_err();
            assert_eq!(status.code, code, "{query}");
            assert!(status.message.ends_with(message), "{query}: {}", status.message);
        }
        assert!(check(&Query::new("tailLines=0&limitBytes=1&follow=maybe&sinceSeconds="), "p").is_ok());
    }

    #[test]
    fn a_kubelets_refusal_keeps_its_code() {
        for (code, message) in [
            (400, "why"),
            (500, "Internal error occurred: why"),
            (404, "the server could not find the requested resource ( pods/log web)"),
            (403, "why ( pods/log web)"),
            (503, "the server is currently unable to handle the request ( pods/log web)"),
        ] {
            let status = refusal(code, "why".to_owned(), "web");
            assert_eq!((status.code, status.message.as_str()), (code, message));
        }
    }
}
