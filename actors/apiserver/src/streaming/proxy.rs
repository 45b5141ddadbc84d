//! `pods/proxy`, `services/proxy`, `nodes/proxy`: forwards any method and path, upgrades included (upstream `UpgradeAwareHandler`).
//!
//! Links in HTML and `Location` headers are rewritten to lead through the proxy ([`super::links`], [`super::rewrite`]).

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use oarlock_meta::Status;
use oarlock_runtime::{clock, rng};
use oarlock_schema::views::core_v1::{Endpoints, Pod, Service};
use oarlock_schema::{Obj, resource};
use oarlock_streams::upgrade;

use super::location::CheckedHost;
use super::send::{bare, forget_hops, passed, send};
use super::upgraded::{forwarded_for, join};
use super::{Location, allowed, links, pod_and_node, rewrite};
use crate::http::{Body, full};
use crate::inflight::Seat;
use crate::server::Server;
use crate::target::Target;

/// Time limit until the head of the backend's response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3600);
/// Time limit for resolving the name of a node.
const NODE_LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);
/// CORS headers, which a backend must not set on behalf of this server.
const CORS: [HeaderName; 4] = [
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_ALLOW_HEADERS,
    header::ACCESS_CONTROL_ALLOW_METHODS,
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
];

/// Forwards a request.
///
/// # Errors
/// 404, 400 for an invalid name or an address that is not allowed, 503 when there is no backend.
pub(super) async fn serve(
    server: &Server,
    target: &Target<'_>,
    request: Request<Incoming>,
    seat: Seat,
) -> Result<Response<Body>, Status> {
    let to = location(server, target).await?;
    let (prefix, rest) = split(request.uri().path(), target);
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let path = format!("/{}{query}", rest.unwrap_or(""));
    if upgrade::wanted(request.headers()) {
        let asked = bare(request.method().clone(), &path)?;
        return join(server, &to, request, asked, seat).await;
    }
    if rest.is_none() && matches!(*request.method(), Method::GET | Method::HEAD) {
        return redirect(&format!("{prefix}/{query}"));
    }
    let prefix = prefix.to_owned();
    let mut request = request;
    let host = request.headers().get(header::HOST).cloned();
    let authority = request.uri().authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
    let host = host.or(authority);
    let mut headers = std::mem::take(request.headers_mut());
    forget_hops(&mut headers);
    forwarded_for(&request, &mut headers);
    let forwarded = [
        ("x-forwarded-uri", Some(format!("{prefix}{}", path.split('?').next().unwrap_or("")))),
        ("x-forwarded-proto", Some("https".to_owned())),
    ];
    for (name, value) in forwarded {
        if let Some(Ok(value)) = value.map(|value| HeaderValue::from_str(&value)) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    let called = host.as_ref().and_then(|host| host.to_str().ok()).unwrap_or_default().to_owned();
    let head = *request.method() == Method::HEAD;
    if let Some(host) = host {
        headers.insert(HeaderName::from_static("x-forwarded-host"), host.clone());
        // A kubelet gets the host that names its node; any other backend gets the host that the client called.
        if matches!(to, Location::Address { .. }) {
            headers.insert(header::HOST, host);
        } else {
            headers.remove(header::HOST);
        }
    }
    let (parts, body) = request.into_parts();
    let mut asked = Request::new(body);
    *asked.method_mut() = parts.method;
    *asked.uri_mut() = path.parse().map_err(|_| Status::bad_request("the path is none"))?;
    *asked.headers_mut() = headers;
    let answer = clock::timeout(RESPONSE_TIMEOUT, send(server, &to, asked, seat)).await;
    let answer =
        answer.map_err(|_| unreachable(&"no answer in time"))?.map_err(|status| unreachable(&status.message))?;
    let mut response = passed(answer);
    for name in &CORS {
        response.headers_mut().remove(name);
    }
    let through = links::ProxyAddresses { prefix, backend: to.host(), called };
    if let Some(moved) = response.headers().get(header::LOCATION) {
        // As upstream, an answer with `Location` keeps its body.
        if let Some(Ok(moved)) = moved.to_str().ok().and_then(|moved| through.link(moved)).map(HeaderValue::try_from) {
            response.headers_mut().insert(header::LOCATION, moved);
        }
        return Ok(response);
    }
    Ok(if head { response } else { rewrite::html(response, through) })
}

fn unreachable(why: &dyn std::fmt::Display) -> Status {
    Status::service_unavailable(format!("error trying to reach service: {why}"))
}

/// Splits a path at `proxy/`, without decoding it; the second part is `None` when not even a slash follows.
fn split<'a>(path: &'a str, target: &Target<'_>) -> (&'a str, Option<&'a str>) {
    // "", api, v1, [namespaces, x,] plural, name, proxy
    let segments = if target.resource().namespaced { 8 } else { 6 };
    match path.match_indices('/').nth(segments - 1) {
        Some((at, _)) => (path.get(..at).unwrap_or(path), path.get(at + 1..)),
        None => (path, None),
    }
}

fn redirect(to: &str) -> Result<Response<Body>, Status> {
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    let to = HeaderValue::from_str(to).map_err(Status::internal_error)?;
    response.headers_mut().insert(header::LOCATION, to);
    Ok(response)
}

/// The name of a proxied object: `[scheme:]name[:port]`.
struct ProxiedName<'a> {
    https: bool,
    name: &'a str,
    port: &'a str,
}

impl<'a> ProxiedName<'a> {
    fn parse(id: &'a str) -> Option<Self> {
        let parts: Vec<&str> = id.split(':').collect();
        let (scheme, name, port) = match *parts.as_slice() {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme, name, port] => (scheme, name, port),
            _ => return None,
        };
        (!name.is_empty() && matches!(scheme, "" | "http" | "https")).then_some(Self {
            https: scheme == "https",
            name,
            port,
        })
    }

    fn port_or(&self, default: u16) -> Result<u16, Status> {
        if self.port.is_empty() {
            return Ok(default);
        }
        self.port.parse().map_err(|_| unreachable(&format_args!("unknown port {:?}", self.port)))
    }
}

/// Returns the destination of a proxied request.
async fn location(server: &Server, target: &Target<'_>) -> Result<Location, Status> {
    let plural = target.resource().plural;
    let kind = plural.trim_end_matches('s');
    let called = ProxiedName::parse(target.name);
    let called = called.ok_or_else(|| Status::bad_request(format!("invalid {kind} request {:?}", target.name)))?;
    let target = Target { name: called.name, ..*target };
    match plural {
        "pods" => pod(server, &target, &called).await,
        "services" => service(server, &target, &called).await,
        _ => node(server, &target, &called).await,
    }
}

async fn pod(server: &Server, target: &Target<'_>, called: &ProxiedName<'_>) -> Result<Location, Status> {
    let (pod, _) = pod_and_node(server, target).await?;
    let Some(pod) = pod.view::<Pod<'_>>() else { return Err(Status::internal_error("stored pod is no pod")) };
    let declared = pod.spec().containers().iter().find_map(|container| container.ports().iter().next());
    let declared = declared.and_then(|port| u16::try_from(port.container_port()).ok());
    let host = pod.status().pod_ips().iter().next().map_or("", |ip| ip.ip()).to_owned();
    let at = vec![allowed::address(&host)?];
    let port = called.port_or(declared.unwrap_or(if called.https { 443 } else { 80 }))?;
    Ok(Location::Address { https: called.https, host, port, at })
}

async fn service(server: &Server, target: &Target<'_>, called: &ProxiedName<'_>) -> Result<Location, Status> {
    let name = called.name;
    let mut port = called.port.to_owned();
    if let Ok(number) = port.parse::<i64>() {
        let services = Target { subresource: "", ..*target };
        let entry = server.current(&services.key(name)?).await?.ok_or_else(|| services.not_found())?;
        let service = services.decode(&entry)?;
        let declared = service.view::<Service<'_>>();
        let declared = declared.and_then(|service| service.spec().ports().iter().find(|p| p.port() == number));
        let declared = declared.ok_or_else(|| {
            Status::service_unavailable(format!("no service port {number} found for service {name:?}"))
        })?;
        declared.name().clone_into(&mut port);
    }
    let rows = (resource("", "v1", "endpoints"), resource("", "v1", "pods"));
    let (Some(endpoints), Some(pods)) = rows else { return Err(Status::internal_error("no endpoints")) };
    let found = server.reader().get(endpoints, target.namespace, name);
    let found: Obj = found.ok_or_else(|| Status::not_found(&endpoints.group_resource(), name))?;
    let view = found.view::<Endpoints<'_>>().ok_or_else(|| Status::internal_error("stored endpoints are none"))?;
    let none = |id: &str| Status::service_unavailable(format!("no endpoints available for service {id:?}"));
    if view.subsets().is_empty() {
        return Err(none(name));
    }
    let mut there = Vec::new();
    for subset in view.subsets().iter() {
        let Some(port) = subset.ports().iter().find(|p| p.name() == port) else { continue };
        let Ok(port) = u16::try_from(port.port()) else { continue };
        there.extend(subset.addresses().iter().map(|address| (address, port)));
    }
    // Only addresses of the pods themselves: an Endpoints object may name any address.
    let mut own = Vec::new();
    for (address, port) in there {
        let Some(reference) = address.target_ref().filter(|r| r.namespace() == target.namespace) else { continue };
        let pod = server.reader().fetch(pods, target.namespace, reference.name()).await.map_err(crate::errors::read)?;
        let pod = pod.as_ref().and_then(Obj::view::<Pod<'_>>);
        if pod.is_some_and(|pod| pod.status().pod_ips().iter().any(|ip| ip.ip() == address.ip())) {
            own.push((address, port));
        }
    }
    let there = own;
    let at = usize::try_from(rng::u64()).unwrap_or(0).checked_rem(there.len()).unwrap_or(0);
    let (address, port) = there.get(at).ok_or_else(|| none(target.name))?;
    let at = vec![allowed::address(address.ip())?];
    Ok(Location::Address { https: called.https, host: address.ip().to_owned(), port: *port, at })
}

async fn node(server: &Server, target: &Target<'_>, called: &ProxiedName<'_>) -> Result<Location, Status> {
    let kubelets = server.kubelets();
    let node = called.name.to_owned();
    if called.port.is_empty() && kubelets.local(called.name).is_some() {
        return Ok(Location::kubelet(node, true));
    }
    let (host, port) = kubelets.address(server.reader(), target.name)?;
    let at = allowed::resolve(&host, clock::after(NODE_LOOKUP_TIMEOUT)).await?;
    if called.port_or(port)? == port {
        return Ok(Location::Kubelet { node, verify: true, at: Some(CheckedHost { host, port, at }) });
    }
    Ok(Location::Address { https: called.https, host, port: called.port_or(port)?, at })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(plural: &str) -> Target<'static> {
        Target::new(resource("", "v1", plural).unwrap(), "proxy", "x", "y")
    }

    #[test]
    fn the_rest_of_a_path_stays_as_it_came() {
        let pods = target("pods");
        let base = "/api/v1/namespaces/x/pods/y/proxy";
        assert_eq!(split(base, &pods), (base, None));
        assert_eq!(split(&format!("{base}/"), &pods).1, Some(""));
        assert_eq!(split(&format!("{base}/a%2Fb//c/"), &pods), (base, Some("a%2Fb//c/")));
        assert_eq!(split("/api/v1/nodes/n/proxy/pods", &target("nodes")), ("/api/v1/nodes/n/proxy", Some("pods")));
    }

    #[test]
    fn names_may_say_scheme_and_port() {
        let called = ProxiedName::parse("https:web:8443").unwrap();
        assert_eq!((called.https, called.name, called.port), (true, "web", "8443"));
        assert!(
            ProxiedName::parse("ftp:web:1").is_none()
                && ProxiedName::parse(":1").is_none()
                && ProxiedName::parse("a:b:c:d").is_none()
        );
    }
}
