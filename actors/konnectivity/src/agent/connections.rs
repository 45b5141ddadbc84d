//! The connections of one server's stream, as the side that answers: which packet means what, apart from any I/O.

use std::collections::BTreeMap;

use bytes::Bytes;
use oarlock_contracts::konnectivity::Packet;
use oarlock_contracts::konnectivity::packet::Payload;

use crate::packet;

/// The connections of a stream. `C` is the owner's handle of a connection.
#[derive(Debug)]
pub(crate) struct Connections<C> {
    dialling: BTreeMap<i64, C>,
    open: BTreeMap<i64, C>,
    /// The id of the last connection. Ids are never used again, so that late packets cannot meet another connection.
    last: i64,
    max: usize,
}

/// What follows from a received packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Effect<C> {
    /// An address is to be dialled, and the dial registered by [`Connections::begin`].
    Dial {
        /// Id of the dial.
        random: i64,
        /// `host:port`.
        address: String,
    },
    /// A dial is withdrawn.
    Withdrawn(C),
    /// Bytes for a destination.
    Data(C, i64, Bytes),
    /// Credit for the bytes of a destination.
    Window(C, i64, u64),
    /// Credit for a connection that does not exist, or has ended.
    UnknownWindow,
    /// The direction to the destination ends.
    Close(C),
    /// A packet is sent in answer.
    Answer(Packet),
    /// The packet is without effect.
    Ignored,
}

impl<C: Clone> Connections<C> {
    /// Creates the table of a new stream, for at most `max` connections.
    pub(crate) fn new(max: usize) -> Self {
        Self { dialling: BTreeMap::new(), open: BTreeMap::new(), last: 0, max }
    }

    /// Handles a packet from the server.
    pub(crate) fn receive(&mut self, received: Packet) -> Effect<C> {
        match packet::payload(received) {
            Some(Payload::DialRequest(request)) => {
                let random = request.random;
                if request.protocol != packet::TCP {
                    let text = format!("protocol {:?} is not supported", request.protocol);
                    return Effect::Answer(packet::dial_failed(random, text));
                }
                if self.dialling.contains_key(&random) {
                    return Effect::Answer(packet::dial_failed(random, "the dial id is in use"));
                }
                if self.count() >= self.max {
                    return Effect::Answer(packet::dial_failed(random, "the agent has too many connections"));
                }
                Effect::Dial { random, address: request.address }
            }
            Some(Payload::CloseDial(closed)) => {
                self.dialling.remove(&closed.random).map_or(Effect::Ignored, Effect::Withdrawn)
            }
            Some(Payload::Data(data)) => match self.open.get(&data.connect_id) {
                Some(connection) => Effect::Data(connection.clone(), data.connect_id, data.data),
                None if data.connect_id == 0 => Effect::Ignored,
                None => Effect::Answer(packet::closed(data.connect_id, "unrecognized connectID")),
            },
            Some(Payload::Window(window)) => match self.open.get(&window.connect_id) {
                Some(connection) => Effect::Window(connection.clone(), window.connect_id, window.bytes),
                None => Effect::UnknownWindow,
            },
            Some(Payload::CloseRequest(close)) => match self.open.get(&close.connect_id) {
                Some(connection) => Effect::Close(connection.clone()),
                None => Effect::Answer(packet::closed(close.connect_id, "Unknown connectID")),
            },
            // A server sends no answers. Unknown types come from newer servers.
            Some(Payload::DialResponse(_) | Payload::CloseResponse(_) | Payload::Drain(_)) | None => Effect::Ignored,
        }
    }

    /// Registers a dial.
    pub(crate) fn begin(&mut self, random: i64, connection: C) {
        self.dialling.insert(random, connection);
    }

    /// Ends a dial without a connection. Returns whether the server still waits for its answer.
    pub(crate) fn fail(&mut self, random: i64) -> bool {
        self.dialling.remove(&random).is_some()
    }

    /// Makes a connection of a dial and returns its id; `None` if the dial was withdrawn.
    pub(crate) fn establish(&mut self, random: i64) -> Option<i64> {
        let connection = self.dialling.remove(&random)?;
        self.last += 1;
        self.open.insert(self.last, connection);
        Some(self.last)
    }

    /// Removes a connection that has ended.
    pub(crate) fn remove(&mut self, id: i64) {
        self.open.remove(&id);
    }

    /// Removes and returns all dials and connections.
    pub(crate) fn end(&mut self) -> Vec<C> {
        let open = std::mem::take(&mut self.open).into_values();
        std::mem::take(&mut self.dialling).into_values().chain(open).collect()
    }

    /// The number of dials and connections.
    pub(crate) fn count(&self) -> usize {
        self.dialling.len() + self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use oarlock_contracts::konnectivity::{DialRequest, PacketType};

    use super::*;

    fn address<'a>(effect: &'a Effect<&'static str>) -> &'a str {
        match effect {
            Effect::Dial { address, .. } => address,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_connection_lives_from_its_dial_to_its_removal() {
        let mut table = Connections::new(10);
        assert_eq!(address(&table.receive(packet::dial(7, "a:1"))), "a:1");
        table.begin(7, "c");
        assert_eq!(table.establish(7), Some(1));
        let data = Bytes::from_static(b"x");
        assert_eq!(table.receive(packet::data(1, data.clone())), Effect::Data("c", 1, data.clone()));
        assert_eq!(table.receive(packet::window(1, 500)), Effect::Window("c", 1, 500));
        assert_eq!(table.receive(packet::close(1)), Effect::Close("c"));
        assert_eq!(table.receive(packet::window(1, 500)), Effect::Window("c", 1, 500), "the other direction is open");
        table.remove(1);
        assert_eq!(table.receive(packet::window(1, 500)), Effect::UnknownWindow);
        let unknown = Effect::Answer(packet::closed(1, "unrecognized connectID"));
        assert_eq!(table.receive(packet::data(1, data.clone())), unknown);
        assert_eq!(table.receive(packet::data(0, data)), Effect::Ignored);
        assert_eq!(table.receive(packet::close(1)), Effect::Answer(packet::closed(1, "Unknown connectID")));
        table.begin(8, "d");
        assert_eq!((table.establish(8), table.count()), (Some(2), 1), "an id is not used again");
    }

    #[test]
    fn a_withdrawn_dial_has_no_connection() {
        let mut table = Connections::new(10);
        table.begin(7, "c");
        assert_eq!(table.receive(packet::close_dial(7)), Effect::Withdrawn("c"));
        assert_eq!(table.receive(packet::close_dial(7)), Effect::Ignored);
        assert_eq!((table.establish(7), table.fail(7)), (None, false));
    }

    #[test]
    fn what_cannot_be_dialled_is_answered() {
        let mut table = Connections::new(1);
        let udp = DialRequest { protocol: "udp".to_owned(), address: "a:1".to_owned(), random: 6 };
        let udp = Packet { payload: Some(Payload::DialRequest(udp)), ..Packet::default() };
        let refused = packet::dial_failed(6, "protocol \"udp\" is not supported");
        assert_eq!(table.receive(udp), Effect::Answer(refused));
        table.begin(7, "c");
        let twice = packet::dial_failed(7, "the dial id is in use");
        assert_eq!(table.receive(packet::dial(7, "a:1")), Effect::Answer(twice));
        let many = packet::dial_failed(8, "the agent has too many connections");
        assert_eq!(table.receive(packet::dial(8, "a:1")), Effect::Answer(many));
    }

    #[test]
    fn packets_that_no_server_sends_are_ignored() {
        let mut table = Connections::new(1);
        table.begin(7, "c");
        table.establish(7);
        let unknown = Packet { r#type: 64, payload: None };
        let crossed = Packet { r#type: PacketType::Drain as i32, ..packet::close(1) };
        for packet in [packet::closed(1, ""), packet::dialled(7, 1), packet::drain(), unknown, crossed] {
            assert_eq!(table.receive(packet), Effect::Ignored);
        }
        assert_eq!(table.end(), ["c"]);
    }
}
