//! port-forward and proxies.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use oarlock_runtime::Phase;
use oarlock_testkit::Kubectl;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::Streams;

/// Echoes received bytes until the sender is done.
pub(super) async fn echo(streams: &Streams) -> u16 {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = socket.local_addr().unwrap().port();
    let gate = streams.cluster.system.gate("echo", Phase::Ingress);
    let inner = gate.clone();
    let accept = async move {
        while let Ok((mut stream, _)) = socket.accept().await {
            let one = async move {
                let (mut read, mut write) = stream.split();
                // Clients may close the connection.
                let _ = tokio::io::copy(&mut read, &mut write).await;
                let _ = write.shutdown().await;
            };
            inner.spawn("echo", one).unwrap();
        }
    };
    gate.spawn("accept", accept).unwrap();
    port
}

fn repeated(to: SocketAddr, text: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(to).unwrap();
    let mut write = stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            write.write_all(text).unwrap();
            write.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        back
    })
}

pub(super) fn forwards(kubectl: &Kubectl, port: u16) {
    let following = kubectl.follow(&format!("port-forward pod/web :{port}"));
    let said = following.until("an address", |out| out.contains("Forwarding from 127.0.0.1"));
    let at = said.split(" -> ").next().unwrap().rsplit("from ").next().unwrap();
    let at: SocketAddr = at.parse().unwrap();
    assert_eq!(repeated(at, b"once"), b"once");
    let large: Vec<u8> = (0..2_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    assert!(repeated(at, &large) == large, "a large text came back changed");
    // Many forwarded connections share one connection to the API server.
    std::thread::scope(|scope| {
        for n in 0..40_u8 {
            scope.spawn(move || assert_eq!(repeated(at, &[n; 5000]), [n; 5000]));
        }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ports_are_forwarded_over_websocket_and_spdy() {
    let streams = Streams::start().await;
    let port = echo(&streams).await;
    streams
        .kubectl(move |kubectl| {
            forwards(&kubectl, port);
            forwards(&kubectl.with_env("KUBECTL_PORT_FORWARD_WEBSOCKETS", "false"), port);
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn proxies_reach_no_address_of_the_servers_own() {
    let streams = Streams::start().await;
    streams
        .kubectl(|kubectl| {
            // The node of this test has the loopback address, which the proxy refuses, as it refuses the link-local addresses of metadata services.
            kubectl.run("get --raw /api/v1/nodes/n1/proxy/healthz").fails("address not allowed");
            kubectl.run("get --raw /api/v1/nodes/nobody/proxy/healthz").fails("nodes \"nobody\" not found");
            kubectl.run("get --raw /api/v1/namespaces/default/pods/nobody/proxy/").fails("pods \"nobody\" not found");
            kubectl
                .run("get --raw /api/v1/namespaces/default/pods/ftp:web:1/proxy/")
                .fails("invalid pod request \"ftp:web:1\"");
            kubectl
                .run("get --raw /api/v1/namespaces/default/services/nobody:80/proxy/")
                .fails("services \"nobody\" not found");
            kubectl
                .run("get --raw /api/v1/namespaces/default/services/kubernetes/proxy/")
                .fails("no endpoints available for service \"kubernetes\"");
        })
        .await;
}
