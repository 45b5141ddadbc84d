//! `pods/log`: which container, on which node; the kubelet streams.

use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use oarlock_meta::{GroupResource, Status};
use oarlock_runtime::clock;

use crate::caller::Caller;
use crate::http::options::Query;
use crate::http::{Body, service};
use crate::server::Server;
use crate::streaming::{self, Location};
use crate::target::Target;

/// Query parameters that go on to the kubelet.
const OPTIONS: &[&str] =
    &["follow", "previous", "tailLines", "sinceSeconds", "sinceTime", "timestamps", "limitBytes", "stream"];

/// As much of a kubelet's refusal is passed on, in bytes.
const REFUSAL_MAX: usize = 50_000;

/// Streams the log of a container.
///
/// # Errors
/// 404 for an unknown pod, 400 for a container that is not in it, what the kubelet says.
pub(crate) async fn serve(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    query: &Query,
) -> Result<Response<Body>, Status> {
    let (pod, node) = streaming::pod_and_node(server, target).await?;
    let container = streaming::choose_container(&pod, query.get("container"))?;
    if node.is_empty() {
        return Ok(service::text(StatusCode::OK, "text/plain", ""));
    }
    let given = OPTIONS.iter().filter(|option| query.has(option));
    let options: Vec<String> =
        given.map(|option| format!("{option}={}", streaming::escaped(query.get(option)))).collect();
    let path = format!("/containerLogs/{}/{}/{container}?{}", target.namespace, target.name, options.join("&"));
    let verify = query.flag("insecureSkipTLSVerifyBackend") != Some(true);
    let asked = streaming::bare(Method::GET, &path)?;
    let to = Location::Kubelet { node, verify };
    let answer = streaming::send(server, &to, asked);
    let late = |_| Status::timeout("the kubelet did not answer in time", 0);
    let answer = clock::timeout_at(caller.deadline, answer).await.map_err(late)??;
    let code = answer.status().as_u16();
    if !(200..=206).contains(&code) {
        let text = Limited::new(answer.into_body(), REFUSAL_MAX).collect().await;
        let text = text.map_or_else(|error| error.to_string(), |body| String::from_utf8_lossy(&body.to_bytes()).into());
        return Err(refusal(code, text, target.name));
    }
    let mut response = streaming::passed(answer);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

/// What the kubelet refuses, as upstream passes it on (`GenericHttpResponseChecker`).
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
    use super::refusal;

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
