//! Both ends of one SPDY connection: streams in both directions, ends, resets, slow readers.

#![cfg(test)]

use std::time::Duration;

use bytes::Bytes;
use oarlock_streams::spdy::{Connection, Error, Receiver, Role, Stream, start};
use oarlock_testkit::wait::STEP_TIMEOUT;

async fn pair<F>(test: impl FnOnce(Connection, Connection) -> F)
where
    F: Future<Output = ()>,
{
    let (one, other) = tokio::io::duplex(4096);
    let (client, carry_client) = start(one, Role::Client);
    let (server, carry_server) = start(other, Role::Server);
    let carried = async {
        let (client, server) = tokio::join!(carry_client, carry_server);
        // The side that ends first may leave the other one writing.
        for ended in [client, server] {
            assert!(matches!(ended, Ok(()) | Err(Error::Io(_))), "{ended:?}");
        }
    };
    let both = async { tokio::join!(carried, test(client, server)) };
    tokio::time::timeout(STEP_TIMEOUT, both).await.expect("in time");
}

async fn all(mut from: Receiver) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(part) = from.next().await {
        whole.extend_from_slice(&part);
    }
    whole
}

fn named(name: &str) -> Vec<(String, String)> {
    vec![("streamtype".to_owned(), name.to_owned())]
}

#[tokio::test]
async fn a_stream_carries_bytes_both_ways_and_their_ends() {
    pair(|client, mut server| async move {
        let serve = async {
            let stream = server.accept().await.unwrap();
            assert_eq!((stream.id(), stream.header("streamtype")), (1, Some("stdin")));
            let (receiver, sender) = stream.split();
            let said = all(receiver).await;
            sender.send(said.into()).await.unwrap();
            sender.finish().await.unwrap();
            server
        };
        let ask = async {
            let (receiver, sender) = client.open(named("stdin")).await.unwrap().split();
            let data: Vec<u8> = (0..300_000_u32).map(|n| n.to_le_bytes()[0]).collect();
            sender.send(data.clone().into()).await.unwrap();
            sender.finish().await.unwrap();
            assert_eq!(all(receiver).await, data);
            client
        };
        tokio::join!(serve, ask);
    })
    .await;
}

#[tokio::test]
async fn many_streams_share_a_connection() {
    pair(|client, mut server| async move {
        let serve = async {
            let echo = |stream: Stream| async move {
                let (mut receiver, sender) = stream.split();
                while let Some(part) = receiver.next().await {
                    sender.send(part).await.unwrap();
                }
                sender.finish().await.unwrap();
            };
            let mut echoes = Vec::new();
            for _ in 0..50 {
                echoes.push(echo(server.accept().await.unwrap()));
            }
            futures::future::join_all(echoes).await;
            server
        };
        let ask = async {
            let client = &client;
            let one = |n: u8| async move {
                let (receiver, sender) = client.open(named("data")).await.unwrap().split();
                let data = vec![n; 2000];
                let send = async {
                    sender.send(data.clone().into()).await.unwrap();
                    sender.finish().await.unwrap();
                };
                let (back, ()) = tokio::join!(all(receiver), send);
                assert_eq!(back, data);
            };
            futures::future::join_all((0..50).map(one)).await;
        };
        tokio::join!(serve, ask);
        drop(client);
    })
    .await;
}

#[tokio::test]
async fn a_reader_that_does_not_read_stops_the_sender() {
    pair(|client, mut server| async move {
        let (_receiver, sender) = {
            let (opened, accepted) = tokio::join!(client.open(named("stdout")), server.accept());
            let held = accepted.unwrap();
            let (receiver, sender) = opened.unwrap().split();
            let mut sent = 0_usize;
            let flood = async {
                loop {
                    sender.send(Bytes::from(vec![0; 32 << 10])).await.unwrap();
                    sent += 32 << 10;
                }
            };
            assert!(tokio::time::timeout(Duration::from_millis(300), flood).await.is_err());
            assert!(sent < 1 << 20, "{sent} bytes went into a stream that nobody reads");
            // Discarded data lets the connection flow again.
            drop(held);
            (receiver, sender)
        };
        tokio::time::timeout(STEP_TIMEOUT, async {
            for _ in 0..100 {
                if sender.send(Bytes::from(vec![0; 32 << 10])).await.is_err() {
                    return;
                }
            }
        })
        .await
        .expect("flows again");
    })
    .await;
}

#[tokio::test]
async fn a_dropped_stream_is_reset_and_a_dropped_connection_ends_all() {
    pair(|client, mut server| async move {
        let (opened, accepted) = tokio::join!(client.open(named("a")), server.accept());
        let (receiver, _sender) = opened.unwrap().split();
        drop(accepted.unwrap());
        assert!(all(receiver).await.is_empty());
        let (opened, accepted) = tokio::join!(client.open(named("b")), server.accept());
        let ((receiver, sender), _held) = (opened.unwrap().split(), accepted.unwrap());
        drop((server, _held));
        assert!(all(receiver).await.is_empty());
        // The writer notices at the latest when its queue is full.
        let refused = async { while sender.send(Bytes::from_static(b"x")).await.is_ok() {} };
        tokio::time::timeout(STEP_TIMEOUT, refused).await.expect("refused");
        assert!(matches!(client.open(named("c")).await, Err(Error::Closed)));
    })
    .await;
}

#[tokio::test]
async fn damaged_conversations_end() {
    use tokio::io::AsyncWriteExt;
    // The bytes of a client that opens a stream and writes to the stream.
    let (one, mut other) = tokio::io::duplex(1 << 16);
    let (client, carry) = start(one, Role::Client);
    let said = async {
        let mut said = vec![0; 1 << 12];
        let n = tokio::io::AsyncReadExt::read(&mut other, &mut said).await.unwrap();
        said.truncate(n);
        said
    };
    let whole = tokio::select! {
        said = said => said,
        _ = client.open(named("stdin")) => unreachable!("nobody answers"),
        _ = carry => unreachable!("nobody hangs up"),
    };
    for bytes in oarlock_testkit::damaged(3, &whole.repeat(2), 1000) {
        let (mut one, other) = tokio::io::duplex(1 << 16);
        let (mut server, carry) = start(other, Role::Server);
        one.write_all(&bytes).await.unwrap();
        one.shutdown().await.unwrap();
        let accept = async { while server.accept().await.is_some() {} };
        let run = async { tokio::join!(carry, accept) };
        let _ = tokio::time::timeout(STEP_TIMEOUT, run).await.expect("it ends");
    }
}

#[tokio::test]
async fn what_is_said_last_is_heard_over_unread_data() {
    use tokio::net::{TcpListener, TcpStream};
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (near, far) = tokio::join!(TcpStream::connect(socket.local_addr().unwrap()), socket.accept());
    let (client, carry_client) = start(near.unwrap(), Role::Client);
    let (mut server, carry_server) = start(far.unwrap().0, Role::Server);
    let serve = async {
        // The server ends the stream without reading.
        let (_unread, sender) = server.accept().await.unwrap().split();
        sender.send(Bytes::from_static(b"exit code 3")).await.unwrap();
        drop(server);
    };
    let ask = async {
        let (receiver, sender) = client.open(named("both")).await.unwrap().split();
        let flood = async { while sender.send(Bytes::from(vec![0; 32 << 10])).await.is_ok() {} };
        let (said, ()) = tokio::join!(all(receiver), flood);
        assert_eq!(said, b"exit code 3");
        drop((sender, client));
    };
    let run = async { tokio::join!(carry_client, carry_server, serve, ask) };
    let _ = tokio::time::timeout(STEP_TIMEOUT, run).await.expect("in time");
}
