//! Subresources that stream from a node, a pod or a service: log, exec, attach, portforward, proxy (upstream: `rest.Connecter`).

mod allowed;
mod container;
mod html;
mod links;
mod location;
mod logs;
mod proxy;
mod rewrite;
mod send;
mod tags;
mod upgraded;

use http::{Request, Response};
use hyper::body::Incoming;
use oarlock_admission::Operation;
use oarlock_meta::Status;
use oarlock_schema::{Obj, Value, type_named};

use crate::caller::Caller;
use crate::http::Body;
use crate::http::options::Query;
use crate::http::request_info::RequestInfo;
use crate::inflight::Seat;
use crate::pipeline::{self, Attempt, Commit, Source};
use crate::server::Server;
use crate::target::Target;

pub(crate) use container::choose as choose_container;
pub(crate) use location::{Location, pod_and_node};
pub(crate) use send::{bare, passed, send};
pub(crate) use upgraded::escaped;

/// Peer address of the connection on which a request arrived.
#[derive(Clone, Copy, Debug)]
pub struct Remote(pub std::net::SocketAddr);

/// Serves a streaming subresource. The seat lasts as long as the connection to the node or pod.
///
/// # Errors
/// 404 for an unknown pod, 400 for a container that is not there or has not started, 500 when the node does not answer.
pub(crate) async fn serve(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    info: &RequestInfo,
    query: &Query,
    request: Request<Incoming>,
    seat: Seat,
) -> Result<Response<Body>, Status> {
    if target.subresource == "log" {
        return logs::serve(server, caller, target, query, request, seat).await;
    }
    admitted(server, caller, target, info, query).await?;
    match target.subresource {
        "proxy" => proxy::serve(server, target, request, seat).await,
        _ => upgraded::serve(server, caller, target, info, query, request, seat).await,
    }
}

/// Runs a connection request through the admission stages, as its options object (such as PodExecOptions).
///
/// # Errors
/// The error of the stage that refuses the request.
pub(crate) async fn admitted(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    info: &RequestInfo,
    query: &Query,
) -> Result<(), Status> {
    let attempt = Attempt::new(server, caller, target, Operation::Connect, false);
    let attempt = Attempt { object: options(target, info, query), ..attempt };
    pipeline::run(attempt, Connection).await
}

/// The source of the pipeline for connection options; the connection itself is opened afterwards.
struct Connection;

impl Source for Connection {
    type Outcome = ();

    const STORED: bool = false;

    async fn finish(self, _: Attempt<'_>, _: Option<Commit>) -> Result<(), Status> {
        Ok(())
    }
}

/// Returns the options of a request as the object that the admission stages see.
fn options(target: &Target<'_>, info: &RequestInfo, query: &Query) -> Option<Obj> {
    let name = match (target.resource().plural, target.subresource) {
        (_, "exec") => "core/v1.PodExecOptions",
        (_, "attach") => "core/v1.PodAttachOptions",
        (_, "portforward") => "core/v1.PodPortForwardOptions",
        ("pods", _) => "core/v1.PodProxyOptions",
        ("services", _) => "core/v1.ServiceProxyOptions",
        _ => "core/v1.NodeProxyOptions",
    };
    let mut options = Obj::new(type_named(name)?);
    match target.subresource {
        "proxy" => {
            options.set_name("path", format!("/{}", info.rest));
        }
        "portforward" => {
            let ports = query.all("ports").flat_map(|ports| ports.split(','));
            options.set_name("ports", ports.filter_map(|port| port.parse::<i64>().ok()).collect::<Value>());
        }
        what => {
            for stream in ["stdin", "stdout", "stderr", "tty"] {
                if query.flag(stream) == Some(true) {
                    options.set_name(stream, true);
                }
            }
            options.set_name("container", query.get("container"));
            if what == "exec" {
                options.set_name("command", query.all("command").collect::<Value>());
            }
        }
    }
    Some(options)
}
