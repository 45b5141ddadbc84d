//! Subresources that stream from a node: log, exec, attach, portforward, proxy.

use std::sync::Arc;

use async_trait::async_trait;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use oarlock_client::RawReply;
use oarlock_meta::Status;

use crate::caller::Caller;
use crate::http::options::Query;
use crate::http::request_info::RequestInfo;
use crate::http::{Body, service};
use crate::server::Server;
use crate::target::Target;

/// Reaches the kubelet that runs a pod. In one process this is a function call, else HTTPS to the node.
#[async_trait]
pub trait Nodes: Send + Sync + 'static {
    /// GET on the kubelet of `node`: path and query as the kubelet's own server has them.
    ///
    /// # Errors
    /// 503 when the node cannot be reached.
    async fn get(&self, node: &str, path: &str) -> Result<RawReply, Status>;
}

/// Nodes when there are none to be reached.
#[derive(Clone, Copy, Debug)]
pub struct NoNodes;

#[async_trait]
impl Nodes for NoNodes {
    async fn get(&self, node: &str, _path: &str) -> Result<RawReply, Status> {
        Err(Status::service_unavailable(format!("no way to the kubelet of node {node}")))
    }
}

/// The way to nodes, shared.
pub type NodesRef = Arc<dyn Nodes>;

/// Whether a subresource streams.
#[must_use]
pub fn is_streaming(subresource: &str) -> bool {
    matches!(subresource, "log" | "exec" | "attach" | "portforward" | "proxy")
}

/// Serves a streaming subresource.
///
/// # Errors
/// 404 for an unknown pod, 400 for a container that is not there or has not started, 503 when the node does not answer.
pub async fn serve(
    server: &Server,
    _caller: &Caller,
    target: &Target<'_>,
    _info: &RequestInfo,
    query: &Query,
    _request: Request<Incoming>,
) -> Result<Response<Body>, Status> {
    if target.subresource == "log" && target.resource().plural == "pods" {
        return crate::logs::serve(server, target, query).await;
    }
    Ok(service::text(StatusCode::NOT_IMPLEMENTED, "text/plain; charset=utf-8", "not served by this server yet\n"))
}
