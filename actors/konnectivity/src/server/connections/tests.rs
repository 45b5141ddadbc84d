use std::time::Duration;

use oarlock_contracts::konnectivity::{Data, PacketType};
use oarlock_runtime::clock;

use super::*;

type Table = Connections<&'static str>;

fn table() -> Table {
    Connections::new(100)
}

fn established(table: &mut Table, name: &'static str, random: i64, id: i64) {
    assert_eq!(table.dial(name, || random), Ok(random));
    assert_eq!(table.receive(packet::dialled(random, id), clock::now()), Effect::Established(name, id));
}

fn data() -> Bytes {
    Bytes::from_static(b"x")
}

#[tokio::test(start_paused = true)]
async fn a_connection_lives_from_its_dial_to_its_close() {
    let (mut table, now) = (table(), clock::now());
    established(&mut table, "c", 7, 1);
    assert_eq!(table.receive(packet::data(1, data()), now), Effect::Data("c", 1, data()));
    assert_eq!(table.receive(packet::window(1, 500), now), Effect::Window("c", 1, 500));
    assert_eq!(table.close_writing(1), Some(packet::close(1)));
    assert_eq!(table.close_writing(1), None, "said once");
    assert_eq!(
        table.receive(packet::data(1, data()), now),
        Effect::Data("c", 1, data()),
        "the other direction is open"
    );
    assert_eq!(table.receive(packet::closed(1, ""), now), Effect::Closed("c", String::new()));
    assert_eq!(table.close(1, now), []);
    assert_eq!(table.counts(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_dial_fails_by_an_error_a_close_and_an_invalid_id() {
    let (mut table, now) = (table(), clock::now());
    established(&mut table, "open", 1, 9);
    let failed = |table: &mut Table, answer| {
        table.dial("c", || 7).unwrap();
        match table.receive(answer, now) {
            Effect::Failed("c", error) => (error.reason(), error.to_string()),
            other => panic!("{other:?}"),
        }
    };
    let refused = failed(&mut table, packet::dial_failed(7, "refused"));
    assert_eq!(refused, (Reason::Destination, "refused".to_owned()));
    assert_eq!(failed(&mut table, packet::close_dial(7)).0, Reason::Lost);
    assert_eq!(failed(&mut table, packet::dialled(7, 0)).0, Reason::Lost);
    assert_eq!(failed(&mut table, packet::dialled(7, 9)).0, Reason::Lost, "an id of an open connection");
    assert_eq!(table.receive(packet::data(9, data()), now), Effect::Data("open", 9, data()), "which stays as it was");
    assert_eq!(table.close(9, now), [packet::close(9), packet::close(9)]);
    assert_eq!(failed(&mut table, packet::dialled(7, 9)).0, Reason::Lost, "an id of a connection that is closing");
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_to_a_withdrawn_dial_closes_the_connection_that_nobody_wants() {
    let (mut table, now) = (table(), clock::now());
    table.dial("c", || 7).unwrap();
    assert_eq!(table.withdraw(7), Some(packet::close_dial(7)));
    assert_eq!(table.withdraw(7), None);
    assert_eq!(table.receive(packet::dialled(7, 3), now), Effect::Answer(packet::close(3)));
    assert_eq!(table.receive(packet::dial_failed(7, "refused"), now), Effect::Ignored);
    established(&mut table, "d", 8, 4);
    assert_eq!(
        table.receive(packet::dialled(99, 4), now),
        Effect::Ignored,
        "a lie about an open connection closes nothing"
    );
    assert_eq!(table.counts(), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn packets_of_closed_and_unknown_connections_are_answered_once_and_forgotten_after_a_time() {
    let mut table = table();
    established(&mut table, "c", 7, 1);
    assert_eq!(table.close(1, clock::now()), [packet::close(1), packet::close(1)]);
    for _ in 0..3 {
        assert_eq!(table.receive(packet::data(1, data()), clock::now()), Effect::Ignored);
        assert_eq!(table.receive(packet::window(1, 500), clock::now()), Effect::Ignored);
        assert_eq!(table.receive(packet::window(50, 500), clock::now()), Effect::UnknownWindow);
    }
    assert_eq!(table.receive(packet::data(50, data()), clock::now()), Effect::Answer(packet::close(50)));
    assert_eq!(table.receive(packet::data(50, data()), clock::now()), Effect::Ignored);
    assert_eq!(table.receive(packet::data(0, data()), clock::now()), Effect::Ignored);
    assert_eq!(table.closing.len(), 2);
    // The CLOSE_RSP of either is lost.
    clock::sleep(2 * CLOSE_TIMEOUT + Duration::from_millis(1)).await;
    established(&mut table, "d", 8, 2);
    table.close(2, clock::now());
    assert_eq!(table.closing.len(), 1, "the lost ones are forgotten");
    assert_eq!(table.receive(packet::closed(2, ""), clock::now()), Effect::Ignored);
    assert_eq!(table.closing.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn limits_hold() {
    let now = clock::now();
    let mut table = Connections::new(2);
    established(&mut table, "a", 1, 1);
    table.dial("b", || 2).unwrap();
    assert_eq!(table.dial("c", || 3).unwrap_err().reason(), Reason::Busy);
    let mut table = Connections::new(usize::MAX);
    for random in 1..=i64::try_from(MAX_DIALS).unwrap() {
        table.dial("c", || random).unwrap();
    }
    assert_eq!(table.dial("c", || -1).unwrap_err().reason(), Reason::Busy);
    let mut ids = 1..;
    let flood = std::iter::from_fn(|| Some(table.receive(packet::data(ids.next()?, data()), now)));
    assert_eq!(flood.take_while(|effect| !matches!(effect, Effect::Violation(_))).count(), MAX_CLOSING);
}

#[tokio::test(start_paused = true)]
async fn an_ended_stream_returns_every_owner_and_takes_no_dial() {
    let mut table = table();
    established(&mut table, "open", 1, 1);
    let mut draws = [0, 2].into_iter();
    assert_eq!(table.dial("dialling", || draws.next().unwrap()), Ok(2), "0 is no id");
    assert_eq!(table.end(), ["dialling", "open"]);
    assert_eq!(table.dial("late", || 3).unwrap_err().reason(), Reason::Lost);
    assert_eq!(table.counts(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn packets_that_no_agent_sends_are_ignored() {
    let (mut table, now) = (table(), clock::now());
    established(&mut table, "c", 7, 1);
    let unknown = Packet { r#type: 64, payload: None };
    let crossed = Packet { r#type: PacketType::CloseRsp as i32, ..packet::data(1, data()) };
    let empty = Packet { payload: Some(Payload::Data(Data::default())), ..packet::data(1, data()) };
    for packet in [packet::dial(7, "a:1"), packet::close(1), unknown, crossed, empty] {
        assert_eq!(table.receive(packet, now), Effect::Ignored);
    }
    assert_eq!(table.receive(packet::drain(), now), Effect::Draining);
    assert_eq!(table.counts(), (0, 1));
}
