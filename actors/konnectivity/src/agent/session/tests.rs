use bytes::Bytes;
use futures::StreamExt as _;
use oarlock_contracts::konnectivity::packet::Payload;
use oarlock_testkit::wait;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::link::{MANY_CONNECTIONS, Outbound, link};
use crate::window::{self, PACKET_COST};

const WINDOWS: Windows = Windows { own: 10_000, peer: 20_000 };

/// A session whose server is the test.
struct World {
    session: Arc<Session>,
    outbound: Outbound,
    listener: TcpListener,
}

impl World {
    async fn new() -> Self {
        let (link, outbound) = link(Segment::AGENT_SENDS, MANY_CONNECTIONS);
        let session = Session::new(link, Limits::AGENT, Some(WINDOWS), Gate::new("connections"));
        Self { session, outbound, listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    async fn next(&mut self) -> Payload {
        packet::payload(wait::step("a packet", self.outbound.next()).await.unwrap()).unwrap()
    }

    /// Dials. Returns the connection's id and the destination's end.
    async fn connection(&mut self) -> (i64, TcpStream) {
        self.session.handle(packet::dial(7, &self.listener.local_addr().unwrap().to_string()));
        let (socket, _) = wait::step("the dial", self.listener.accept()).await.unwrap();
        match self.next().await {
            Payload::DialResponse(response) => (response.connect_id, socket),
            other => panic!("{other:?}"),
        }
    }

    /// Waits for bytes of a connection. Returns what they take from its credit.
    async fn data(&mut self, id: i64) -> usize {
        match self.next().await {
            Payload::Data(data) if data.connect_id == id => window::cost(data.data.len()),
            other => panic!("{other:?}"),
        }
    }

    /// Waits for bytes until so much credit is used that nothing more may be sent. Returns the rest of the credit.
    async fn all_of(&mut self, id: i64, credit: usize) -> usize {
        let mut used = 0;
        while used + PACKET_COST < credit {
            used += self.data(id).await;
            assert!(used <= credit, "{used} of {credit}");
        }
        credit - used
    }

    async fn closed(&mut self, id: i64) -> String {
        match self.next().await {
            Payload::CloseResponse(closed) if closed.connect_id == id => closed.error,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_destination_is_read_as_far_as_the_connection_has_credit_and_holds_up_no_other() {
    let mut world = World::new().await;
    let (id, mut flood) = world.connection().await;
    flood.write_all(&[7; 60_000]).await.unwrap();
    let rest = world.all_of(id, WINDOWS.peer).await;
    let (other, mut socket) = world.connection().await;
    for _ in 0..10 {
        socket.write_all(b"x").await.unwrap();
        assert_eq!(world.data(other).await, 1 + PACKET_COST);
    }
    world.session.handle(packet::window(id, 15_000));
    world.all_of(id, rest + 15_000).await;
    world.session.handle(packet::window(id, 20_001));
    assert!(world.closed(id).await.contains("more credit than"));
    let end = wait::step("the destination's end", flood.read(&mut [0])).await;
    assert!(!matches!(end, Ok(1..)), "{end:?}");
    assert_eq!(world.session.count(), 1);
}

#[tokio::test]
async fn a_connection_without_credit_ends_when_the_dialler_leaves() {
    let mut world = World::new().await;
    let (id, mut flood) = world.connection().await;
    flood.write_all(&[7; 60_000]).await.unwrap();
    world.all_of(id, WINDOWS.peer).await;
    world.session.handle(packet::close(id));
    world.session.handle(packet::close(id));
    assert_eq!(world.closed(id).await, "");
    assert_eq!(world.session.count(), 0);
    wait::step("the end", world.session.idle()).await;
}

#[tokio::test]
async fn a_server_that_sends_beyond_its_credit_loses_the_connection() {
    let mut world = World::new().await;
    let (id, mut socket) = world.connection().await;
    // The destination reads on, so credit is given back for what it takes.
    let mut sent = 0;
    for _ in 0..20 {
        world.session.handle(packet::data(id, Bytes::from(vec![7; 2_500 - PACKET_COST])));
        socket.read_exact(&mut vec![0; 2_500 - PACKET_COST]).await.unwrap();
        sent += 2_500;
        if sent % 5_000 == 0 {
            match world.next().await {
                Payload::Window(window) => assert_eq!((window.connect_id, window.bytes), (id, 5_000)),
                other => panic!("{other:?}"),
            }
        }
    }
    let counted = FAMILIES.agent_flow.violations.get();
    world.session.handle(packet::data(id, Bytes::from(vec![7; 10_000])));
    assert!(world.closed(id).await.contains("more than the connection's window"));
    assert!(FAMILIES.agent_flow.violations.get() > counted);
    let unknown = FAMILIES.agent_flow.unknown.get();
    world.session.handle(packet::window(id, 1));
    assert!(FAMILIES.agent_flow.unknown.get() > unknown);
}
