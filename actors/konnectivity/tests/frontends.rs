//! Connections through every frontend.

use std::io::ErrorKind;

use futures::future::join_all;
use oarlock_konnectivity::{Dialer, HttpConnect, Mode, Reason};
use oarlock_serving::listener::Socket;
use oarlock_testkit::wait;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use tonic::transport::Endpoint;

use crate::support::{soon, tunnel, until};

#[tokio::test]
async fn every_frontend_carries_bytes_both_ways_and_closes() {
    let tunnel = tunnel().await;
    let echo = tunnel.world.echo().await;
    for (name, dialer) in tunnel.served.dialers() {
        let mut stream = dialer.dial(&echo, soon()).await.unwrap();
        let sent: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
        let (mut read, mut write) = tokio::io::split(&mut stream);
        let mut received = vec![0; sent.len()];
        let write = async { write.write_all(&sent).await };
        let both = async { futures::try_join!(write, read.read_exact(&mut received)) };
        wait::step(name, both).await.unwrap();
        assert_eq!(received, sent, "{name}");
        stream.shutdown().await.unwrap();
        assert_eq!(wait::step(name, stream.read(&mut [0; 8])).await.unwrap(), 0, "{name}");
        drop(stream);
        until("nothing is left", || tunnel.served.server.connections() + tunnel.agent.connections() == 0).await;
        until("the destination is left", || tunnel.world.open() == 0).await;
    }
}

#[tokio::test]
async fn what_comes_after_a_half_close_is_received() {
    let tunnel = tunnel().await;
    let counting = tunnel.world.counting().await;
    for (name, dialer) in tunnel.served.dialers() {
        let mut stream = dialer.dial(&counting, soon()).await.unwrap();
        stream.write_all(&[7; 100_000]).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        wait::step(name, stream.read_to_string(&mut answer)).await.unwrap();
        assert_eq!(answer, "100000", "{name}");
    }
}

#[tokio::test]
async fn what_was_written_before_a_drop_arrives() {
    let tunnel = tunnel().await;
    let (tell, mut told) = tokio::sync::mpsc::channel(8);
    let destination = tunnel.world.destination(move |mut socket| {
        let tell = tell.clone();
        async move {
            let mut all = Vec::new();
            socket.read_to_end(&mut all).await?;
            tell.send(all.len()).await.map_err(std::io::Error::other)
        }
    });
    let destination = destination.await;
    for (name, dialer) in tunnel.served.dialers() {
        let mut stream = dialer.dial(&destination, soon()).await.unwrap();
        stream.write_all(&[7; 50_000]).await.unwrap();
        drop(stream);
        assert_eq!(wait::step(name, told.recv()).await, Some(50_000), "{name}");
    }
}

#[tokio::test]
async fn two_hundred_streams_at_once_do_not_mix() {
    let tunnel = tunnel().await;
    let echo = tunnel.world.echo().await;
    for (name, dialer) in tunnel.served.dialers() {
        let one = async |n: u32| {
            let mut stream = dialer.dial(&echo, soon()).await.unwrap();
            let sent = n.to_be_bytes().repeat(1000);
            for part in sent.chunks(300) {
                stream.write_all(part).await.unwrap();
            }
            let mut received = vec![0; sent.len()];
            stream.read_exact(&mut received).await.unwrap();
            assert!(received == sent, "{name}: stream {n} got the bytes of another one");
        };
        wait::step(name, join_all((0..200).map(one))).await;
        until("nothing is left", || tunnel.served.server.connections() + tunnel.agent.connections() == 0).await;
        until("the destination is left", || tunnel.world.open() == 0).await;
    }
}

#[tokio::test]
async fn a_failed_dial_says_why() {
    let tunnel = tunnel().await;
    let closed = crate::support::socket().await;
    let refused = closed.local_addr().unwrap().to_string();
    drop(closed);
    for (name, dialer) in tunnel.served.dialers() {
        let error = dialer.dial(&refused, soon()).await.err().unwrap();
        assert_eq!(error.reason(), Reason::Destination, "{name}: {error}");
        assert!(error.to_string().contains(&format!("dial tcp {refused}: Connection refused")), "{name}: {error}");
        assert_eq!(std::io::Error::from(error).kind(), ErrorKind::ConnectionRefused);
        let error = dialer.dial("no-port", soon()).await.err().unwrap();
        assert!(error.to_string().contains("no-port"), "{name}: {error}");
    }
    assert_eq!(tunnel.served.server.connections() + tunnel.agent.connections(), 0);
}

#[tokio::test]
async fn without_an_agent_nothing_can_be_dialled() {
    let system = crate::support::system().await;
    let served = crate::support::serve(&system, crate::support::server_options("s")).await;
    for (name, dialer) in served.dialers() {
        let error = dialer.dial("10.0.0.1:10250", soon()).await.err().unwrap();
        assert!(error.to_string().contains("no agent is available for 10.0.0.1:10250"), "{name}: {error}");
    }
}

#[tokio::test]
async fn a_unix_socket_carries_the_protocol_of_its_mode_and_no_other() {
    let tunnel = tunnel().await;
    let echo = tunnel.world.echo().await;
    let folder = tempfile::tempdir().unwrap();
    for mode in [Mode::Grpc, Mode::HttpConnect] {
        let path = folder.path().join(format!("{mode:?}"));
        let socket = Socket::Unix(tokio::net::UnixListener::bind(&path).unwrap());
        tunnel.served.server.listen_frontends_on(socket, mode).await.unwrap();
        let endpoint = Endpoint::from_shared(format!("unix://{}", path.display())).unwrap();
        let grpc = Dialer::Grpc(Box::new(endpoint));
        let connect = Dialer::HttpConnect(HttpConnect::Unix(path));
        let (own, other) = if mode == Mode::Grpc { (grpc, connect) } else { (connect, grpc) };
        let mut stream = own.dial(&echo, soon()).await.unwrap();
        stream.write_all(b"x").await.unwrap();
        let mut read = [0];
        wait::step("the echo", stream.read_exact(&mut read)).await.unwrap();
        assert_eq!(&read, b"x", "{mode:?}");
        let error = other.dial(&echo, soon()).await.err().unwrap();
        let named = if mode == Mode::Grpc { "this port speaks gRPC" } else { "unknown method" };
        assert!(error.to_string().contains(named), "{mode:?}: {error}");
    }
}
