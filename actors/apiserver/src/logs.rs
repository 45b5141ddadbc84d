//! `pods/log`: which container, on which node; the kubelet streams.

use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use oarlock_meta::Status;
use oarlock_schema::Obj;
use oarlock_schema::views::core_v1::Pod;

use crate::http::options::Query;
use crate::http::{Body, service};
use crate::server::Server;
use crate::target::Target;

/// Query parameters that go on to the kubelet.
const OPTIONS: &[&str] =
    &["follow", "previous", "tailLines", "sinceSeconds", "sinceTime", "timestamps", "limitBytes", "stream"];

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
    if reply.code >= 400 {
        let code = reply.code;
        let text = String::from_utf8_lossy(&reply.bytes(64 << 10).await?).into_owned();
        return Err(if code == 404 {
            Status::not_found(&target.resource().group_resource(), target.name)
        } else {
            Status::bad_request(text)
        });
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
