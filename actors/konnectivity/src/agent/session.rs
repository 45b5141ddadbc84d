//! The stream of an agent to one server.

use std::sync::Arc;

use oarlock_contracts::konnectivity::Packet;
use oarlock_runtime::gate::Gate;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tonic::Streaming;

use super::connections::{Connections, Effect};
use super::endpoint::{self, AgentStream};
use crate::error::Refused;
use crate::inbound::{Flow, Inbound};
use crate::limits::Limits;
use crate::link::Link;
use crate::metrics::{FAMILIES, Segment};
use crate::packet;
use crate::window::Windows;

/// The stream of an agent to one server.
#[derive(Debug)]
pub(super) struct Session {
    stream: Arc<AgentStream>,
    /// Gate of the tasks of connections.
    gate: Gate,
    /// A dial or connection has ended.
    ended: Notify,
}

impl Session {
    pub(super) fn new(link: Link, limits: Limits, windows: Option<Windows>, gate: Gate) -> Arc<Self> {
        let connections = Mutex::new(Connections::new(limits.connections));
        let stream = Arc::new(AgentStream { link, connections, limits, windows });
        Arc::new(Self { stream, gate, ended: Notify::new() })
    }

    /// Handles packets until the stream ends, then ends all connections. Returns why the stream ended.
    pub(super) async fn serve(self: &Arc<Self>, packets: Streaming<Packet>) -> String {
        let reason = tokio::select! {
            reason = self.receive(packets) => reason,
            () = self.stream.link.ended() => "ended by this agent".to_owned(),
        };
        self.end(&reason)
    }

    /// Asks the server to open no further connections on this stream.
    pub(super) fn drain(&self) {
        self.stream.link.control(packet::drain());
    }

    /// Ends the stream and all its connections. Returns the reason.
    pub(super) fn end(&self, reason: &str) -> String {
        self.stream.link.end();
        let ended = self.stream.connections.lock().end();
        for inbound in ended {
            inbound.end(Some(reason));
        }
        reason.to_owned()
    }

    /// Waits until there is neither a dial nor a connection. Has one caller.
    pub(super) async fn idle(&self) {
        while self.count() > 0 {
            self.ended.notified().await;
        }
    }

    async fn receive(self: &Arc<Self>, mut packets: Streaming<Packet>) -> String {
        loop {
            match packets.message().await {
                Ok(Some(packet)) => {
                    Segment::AGENT_RECEIVES.packet(&packet);
                    self.handle(packet);
                }
                Ok(None) => return "ended by the server".to_owned(),
                Err(status) => return status.message().to_owned(),
            }
        }
    }

    /// Handles a packet, without waiting.
    fn handle(self: &Arc<Self>, received: Packet) {
        let effect = self.stream.connections.lock().receive(received);
        match effect {
            Effect::Dial { random, address } => {
                let flow = self.stream.windows.map(|windows| Flow::new(windows, &self.stream.link));
                let inbound = Inbound::new(self.stream.limits.buffer, flow, &FAMILIES.agent_buffered);
                self.stream.connections.lock().begin(random, Arc::clone(&inbound));
                let session = Arc::clone(self);
                let serve = async move {
                    endpoint::serve(Arc::clone(&session.stream), random, address, inbound).await;
                    session.ended.notify_one();
                };
                if self.gate.spawn("connection", serve).is_err() && self.stream.connections.lock().fail(random) {
                    self.stream.link.control(packet::dial_failed(random, "the agent stops"));
                }
            }
            Effect::Withdrawn(inbound) => inbound.end(Some("withdrawn")),
            Effect::Data(inbound, id, data) => check(id, inbound.push(data)),
            Effect::Window(inbound, id, bytes) => check(id, inbound.grant(bytes)),
            Effect::UnknownWindow => {
                FAMILIES.agent_flow.unknown.inc();
            }
            Effect::Close(inbound) => inbound.end(None),
            Effect::Answer(answer) => self.stream.link.control(answer),
            Effect::Ignored => {}
        }
    }

    /// The number of dials and connections.
    pub(super) fn count(&self) -> usize {
        self.stream.connections.lock().count()
    }
}

/// Reports a connection that a packet of the server has broken, which its task ends.
fn check(id: i64, accepted: Result<(), Refused>) {
    if let Err(refused) = accepted {
        tracing::warn!(connection = id, "{refused}");
        FAMILIES.agent_flow.refused(refused);
    }
}

#[cfg(test)]
mod tests;
