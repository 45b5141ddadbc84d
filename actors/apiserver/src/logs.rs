//! `pods/log`: which container, on which node; the kubelet streams.

use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use oarlock_meta::{GroupResource, Status};
use oarlock_schema::Obj;
use oarlock_schema::views::core_v1::Pod;

use crate::http::options::Query;
use crate::http::{Body, service};
use crate::server::Server;
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
pub(crate) async fn serve(server: &Server, target: &Target<'_>, query: &Query) -> Result<Response<Body>, Status> {
    let pod_target = Target { subresource: "", ..*target };
    let entry = server.view().get(&pod_target.key(target.name)?).ok_or_else(|| pod_target.not_found())?;
    let pod = pod_target.decode(&entry)?;
    let container = container(&pod, query.get("container"))?;
    let node = pod.view::<Pod<'_>>().map_or("", |p| p.spec().node_name()).to_owned();
    if node.is_empty() {
        return Ok(service::text(StatusCode::OK, "text/plain", Bytes::new()));
    }
    let options: Vec<String> =
        OPTIONS.iter().filter(|o| query.has(o)).map(|o| format!("{o}={}", query.get(o))).collect();
    let path = format!("/containerLogs/{}/{}/{container}?{}", target.namespace, target.name, options.join("&"));
    let reply = server.nodes().get(&node, &path).await?;
    if !(200..=206).contains(&reply.code) {
        let code = reply.code;
        let text = String::from_utf8_lossy(&reply.bytes(REFUSAL_MAX).await?).into_owned();
        return Err(refusal(code, text, target.name));
    }
    let frames = stream::unfold(reply.body, |mut body| async move {
        match body.next().await? {
            Ok(part) => Some((Ok::<_, std::convert::Infallible>(Frame::data(part)), body)),
            Err(_) => None,
        }
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
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

/// The named container, or the only one (upstream: `podutils.FindContainerByName` and its errors).
fn container(pod: &Obj, asked: &str) -> Result<String, Status> {
    let Some(view) = pod.view::<Pod<'_>>() else { return Err(Status::internal_error("stored pod is no pod")) };
    let spec = view.spec();
    let names = || spec.containers().iter().map(|c| c.name());
    let all = || {
        spec.init_containers()
            .iter()
            .map(|c| c.name())
            .chain(names())
            .chain(spec.ephemeral_containers().iter().map(|c| c.name()))
    };
    if asked.is_empty() {
        let default = pod.meta().annotations().get("kubectl.kubernetes.io/default-container");
        if let Some(name) = default.filter(|d| all().any(|n| n == *d)) {
            return Ok(name.to_owned());
        }
        let (count, first) = (spec.containers().len(), names().next().unwrap_or(""));
        if count == 1 {
            return Ok(first.to_owned());
        }
        let list = names().collect::<Vec<_>>().join(" ");
        return Err(Status::bad_request(format!(
            "a container name must be specified for pod {}, choose one of: [{list}]",
            pod.name()
        )));
    }
    if all().any(|n| n == asked) {
        return Ok(asked.to_owned());
    }
    Err(Status::bad_request(format!("container {asked} is not valid for pod {}", pod.name())))
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
