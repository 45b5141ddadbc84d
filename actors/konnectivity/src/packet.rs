//! Packets: constructors, and the reading of received ones.

use bytes::Bytes;
use oarlock_contracts::konnectivity::packet::Payload;
use oarlock_contracts::konnectivity::{
    CloseDial, CloseRequest, CloseResponse, Data, DialRequest, DialResponse, Drain, Packet, PacketType, Window,
};

/// The one network that can be dialled.
pub(crate) const TCP: &str = "tcp";

fn packet(kind: PacketType, payload: Payload) -> Packet {
    Packet { r#type: kind as i32, payload: Some(payload) }
}

pub(crate) fn dial(random: i64, address: &str) -> Packet {
    let request = DialRequest { protocol: TCP.to_owned(), address: address.to_owned(), random };
    packet(PacketType::DialReq, Payload::DialRequest(request))
}

pub(crate) fn dialled(random: i64, connect_id: i64) -> Packet {
    let response = DialResponse { error: String::new(), connect_id, random };
    packet(PacketType::DialRsp, Payload::DialResponse(response))
}

pub(crate) fn dial_failed(random: i64, error: impl Into<String>) -> Packet {
    let response = DialResponse { error: error.into(), connect_id: 0, random };
    packet(PacketType::DialRsp, Payload::DialResponse(response))
}

pub(crate) fn close_dial(random: i64) -> Packet {
    packet(PacketType::DialCls, Payload::CloseDial(CloseDial { random }))
}

pub(crate) fn data(connect_id: i64, data: Bytes) -> Packet {
    packet(PacketType::Data, Payload::Data(Data { connect_id, error: String::new(), data }))
}

pub(crate) fn close(connect_id: i64) -> Packet {
    packet(PacketType::CloseReq, Payload::CloseRequest(CloseRequest { connect_id }))
}

pub(crate) fn closed(connect_id: i64, error: impl Into<String>) -> Packet {
    packet(PacketType::CloseRsp, Payload::CloseResponse(CloseResponse { error: error.into(), connect_id }))
}

pub(crate) fn drain() -> Packet {
    packet(PacketType::Drain, Payload::Drain(Drain {}))
}

pub(crate) fn window(connect_id: i64, bytes: usize) -> Packet {
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    packet(PacketType::Window, Payload::Window(Window { connect_id, bytes }))
}

/// Returns the name of a packet's type, as metrics have it.
pub(crate) fn name(packet: &Packet) -> &'static str {
    PacketType::try_from(packet.r#type).map_or("UNKNOWN", |kind| kind.as_str_name())
}

/// Returns the payload of a packet. `None` for a type that no version of the protocol known here has, and for a packet whose payload is of another type.
pub(crate) fn payload(packet: Packet) -> Option<Payload> {
    let kind = PacketType::try_from(packet.r#type).ok()?;
    let payload = packet.payload?;
    let of = match &payload {
        Payload::DialRequest(_) => PacketType::DialReq,
        Payload::DialResponse(_) => PacketType::DialRsp,
        Payload::Data(_) => PacketType::Data,
        Payload::CloseRequest(_) => PacketType::CloseReq,
        Payload::CloseResponse(_) => PacketType::CloseRsp,
        Payload::CloseDial(_) => PacketType::DialCls,
        Payload::Drain(_) => PacketType::Drain,
        Payload::Window(_) => PacketType::Window,
    };
    (of == kind).then_some(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_unknown_type_or_with_anothers_payload_have_none() {
        let unknown = Packet { r#type: 99, ..close(3) };
        assert_eq!((name(&unknown), payload(unknown)), ("UNKNOWN", None));
        let crossed = Packet { r#type: PacketType::Data as i32, ..close(3) };
        assert_eq!((name(&crossed), payload(crossed)), ("DATA", None));
        assert_eq!(payload(Packet::default()), None);
        assert_eq!(payload(close(3)), Some(Payload::CloseRequest(CloseRequest { connect_id: 3 })));
    }
}
