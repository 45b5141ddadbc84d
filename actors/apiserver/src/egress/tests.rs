//! Accounts of connections, ways by purpose, and what failures say.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use oarlock_auth::UserInfo;
use oarlock_konnectivity::HttpConnect;
use oarlock_runtime::Gate;
use oarlock_telemetry::metrics::Format;
use oarlock_testkit::wait;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;
use crate::http::request_info::RequestInfo;
use crate::inflight::{Inflight, Limits};

fn user(inflight: &Inflight) -> Cause {
    let info = RequestInfo { resource_request: true, verb: "get", ..RequestInfo::default() };
    Cause::User(inflight.stream(&UserInfo::new("somebody", [] as [&str; 0]), &info).unwrap())
}

fn soon() -> Instant {
    clock::after(wait::STEP_TIMEOUT)
}

/// A port that accepts connections and keeps them.
async fn listening(gate: &Gate) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let accept = async move {
        let mut kept = Vec::new();
        while let Ok((socket, _)) = listener.accept().await {
            kept.push(socket);
        }
    };
    gate.spawn("listener", accept).unwrap();
    port
}

/// A port that nobody listens on.
async fn closed() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap().port()
}

fn local(port: u16) -> Destination<'static> {
    Destination::new("127.0.0.1", port, None)
}

/// A tunnel server on a Unix socket, which answers each `CONNECT` with this head and then sends back what it gets.
fn tunnel_server(gate: &Gate, path: &Path, head: &'static str) -> UnboundedReceiver<String> {
    let listener = UnixListener::bind(path).unwrap();
    let (asked, requests) = unbounded_channel();
    let inner = gate.clone();
    let accept = async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let asked = asked.clone();
            let one = async move {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    request.push(socket.read_u8().await.unwrap());
                }
                asked.send(String::from_utf8(request).unwrap()).unwrap();
                socket.write_all(head.as_bytes()).await.unwrap();
                let (mut read, mut write) = socket.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            };
            inner.spawn("connection", one).unwrap();
        }
    };
    gate.spawn("tunnel server", accept).unwrap();
    requests
}

fn through(path: &Path) -> Egress {
    let route = Route::Tunnel(Tunnel::http_connect(HttpConnect::Unix(path.to_owned())));
    Egress::new(Routes::default().with(Purpose::Cluster, route))
}

/// Returns the error of a connection that must fail.
async fn refused(egress: &Egress, purpose: Purpose, to: &Destination<'_>) -> String {
    match egress.for_control_plane(purpose, to, soon()).await {
        Ok(_) => panic!("connected"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn users_take_no_connection_of_the_control_plane_and_it_none_of_theirs() {
    let gate = Gate::new("test");
    let inflight = Inflight::new(Limits { streams: 8, ..Limits::default() });
    let egress = Egress::with_limit(Routes::default(), 1);
    let port = listening(&gate).await;
    let mut users = Vec::new();
    for _ in 0..4 {
        users.push(egress.connect(Purpose::Cluster, user(&inflight), &local(port), soon()).await.unwrap());
    }
    let own = egress.for_control_plane(Purpose::Etcd, &local(port), soon()).await.unwrap();
    assert_eq!(
        refused(&egress, Purpose::Cluster, &local(port)).await,
        "the control plane has 1 connections open, and may have no more"
    );
    users.push(egress.connect(Purpose::Cluster, user(&inflight), &local(port), soon()).await.unwrap());
    drop(own);
    egress.for_control_plane(Purpose::Cluster, &local(port), soon()).await.unwrap();
}

#[tokio::test]
async fn a_seat_is_held_as_long_as_the_connection_and_a_failed_dial_leaves_none() {
    let gate = Gate::new("test");
    let inflight = Inflight::new(Limits { streams: 1, ..Limits::default() });
    let egress = Egress::default();
    let info = RequestInfo::default();
    let somebody = UserInfo::new("root", ["system:kube-scheduler"]);
    let full = || inflight.stream(&somebody, &info).is_err();
    let connection = egress.connect(Purpose::Cluster, user(&inflight), &local(listening(&gate).await), soon()).await;
    assert!(full());
    drop(connection.unwrap());
    assert!(!full());
    assert!(egress.connect(Purpose::Cluster, user(&inflight), &local(closed().await), soon()).await.is_err());
    assert!(!full());
    let pipe = Egress::local(Box::new(tokio::io::duplex(1).0), inflight.stream(&somebody, &info).unwrap());
    assert!(full());
    drop(pipe);
    assert!(!full());
}

#[tokio::test]
async fn only_the_purpose_that_is_set_goes_through_the_tunnel() {
    let gate = Gate::new("test");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("proxy.sock");
    let mut requests = tunnel_server(&gate, &path, "HTTP/1.1 200 OK\r\n\r\n");
    let egress = through(&path);
    // The host has an address only for the agent at the other end.
    let to = Destination::new("n1.inside", 10250, None);
    let mut io = egress.for_control_plane(Purpose::Cluster, &to, soon()).await.unwrap();
    let request = wait::step("the request", requests.recv()).await.unwrap();
    assert!(request.starts_with("CONNECT n1.inside:10250 HTTP/1.1\r\n"), "{request}");
    io.write_all(b"hello").await.unwrap();
    let mut echoed = [0; 5];
    wait::step("the echo", io.read_exact(&mut echoed)).await.unwrap();
    assert_eq!(&echoed, b"hello");
    let port = closed().await;
    for purpose in [Purpose::Etcd, Purpose::ControlPlane] {
        let error = refused(&egress, purpose, &local(port)).await;
        assert!(error.starts_with(&format!("dial tcp 127.0.0.1:{port}: Connection refused")), "{error}");
    }
    assert!(requests.try_recv().is_err(), "nothing else went through the tunnel");
}

#[tokio::test]
async fn checked_addresses_go_through_the_tunnel_in_place_of_the_name() {
    let gate = Gate::new("test");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("proxy.sock");
    let mut requests = tunnel_server(&gate, &path, "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 4\r\n\r\nwhy\n");
    let at: [IpAddr; 2] = [[10, 0, 0, 1].into(), "fd00::1".parse().unwrap()];
    let to = Destination::new("n1.inside", 8080, Some(&at));
    let error = refused(&through(&path), Purpose::Cluster, &to).await;
    let path = path.display();
    assert_eq!(
        error,
        format!("proxy error from {path} while dialing [fd00::1]:8080, code 502: 502 Bad Gateway: why"),
        "upstream's words, and the tunnel server's"
    );
    for address in ["10.0.0.1:8080", "[fd00::1]:8080"] {
        let request = wait::step("a request", requests.recv()).await.unwrap();
        assert!(request.starts_with(&format!("CONNECT {address} ")), "{request}");
    }
}

#[tokio::test]
async fn a_tunnel_server_that_is_away_or_silent_is_named_within_the_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("proxy.sock");
    let grpc = Route::Tunnel(Tunnel::grpc(&path).unwrap());
    let grpc = Egress::new(Routes::default().with(Purpose::Cluster, grpc));
    for egress in [&grpc, &through(&path)] {
        let error = refused(egress, Purpose::Cluster, &local(1)).await;
        assert!(error.starts_with(&format!("dial unix {}: ", path.display())), "{error}");
        assert!(error.contains("No such file or directory"), "{error}");
    }
    let _silent = UnixListener::bind(&path).unwrap();
    for egress in [&grpc, &through(&path)] {
        let deadline = clock::after(Duration::from_millis(100));
        let Err(error) = egress.for_control_plane(Purpose::Cluster, &local(1), deadline).await else {
            panic!("connected")
        };
        let error = error.to_string();
        assert!(error.contains("i/o timeout") || error.contains("did not answer in time"), "{error}");
    }
    let text = oarlock_telemetry::registry().encode_with(Format::Plain, &Registry::default());
    for line in [
        "apiserver_egress_dialer_dial_start_total{protocol=\"grpc\",transport=\"uds\"}",
        "apiserver_egress_dialer_dial_start_total{protocol=\"http_connect\",transport=\"uds\"}",
        "apiserver_egress_dialer_dial_failure_count{protocol=\"grpc\",transport=\"uds\",stage=\"connect\"}",
        "apiserver_egress_dialer_dial_failure_count{protocol=\"http_connect\",transport=\"uds\",stage=\"connect\"}",
        "apiserver_egress_dialer_dial_failure_count{protocol=\"http_connect\",transport=\"uds\",stage=\"proxy\"}",
        "oarlock_apiserver_egress_dial_failures_total{cause=\"control-plane\"}",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}
