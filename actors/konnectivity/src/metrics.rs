//! Metrics, with upstream's names where upstream has one.

use std::sync::LazyLock;

use oarlock_contracts::konnectivity::Packet;
use oarlock_telemetry::metrics::Histogram;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::error::{Reason, Refused};
use crate::packet;

/// Direction of packets, the label `segment`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    name: &'static str,
    side: Side,
}

/// Which part of the tunnel counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client,
    Server,
    Agent,
}

impl Segment {
    pub(crate) const FROM_CLIENT: Self = Self { name: "from_client", side: Side::Server };
    pub(crate) const TO_CLIENT: Self = Self { name: "to_client", side: Side::Server };
    pub(crate) const TO_AGENT: Self = Self { name: "to_agent", side: Side::Server };
    pub(crate) const FROM_AGENT: Self = Self { name: "from_agent", side: Side::Server };
    pub(crate) const AGENT_SENDS: Self = Self { name: "from_agent", side: Side::Agent };
    pub(crate) const AGENT_RECEIVES: Self = Self { name: "to_agent", side: Side::Agent };
    pub(crate) const CLIENT_SENDS: Self = Self { name: "from_client", side: Side::Client };
    pub(crate) const CLIENT_RECEIVES: Self = Self { name: "to_client", side: Side::Client };

    /// Counts a packet.
    pub(crate) fn packet(self, packet: &Packet) {
        let families = match self.side {
            Side::Client => &FAMILIES.client_packets,
            Side::Server => &FAMILIES.server_packets,
            Side::Agent => &FAMILIES.agent_packets,
        };
        families.get_or_create(&Packets { segment: self.name, packet_type: packet::name(packet) }).inc();
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Packets {
    segment: &'static str,
    packet_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReason {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByMethod {
    service_method: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByResult {
    result: &'static str,
}

/// Faults of flow control at one side.
#[derive(Debug, Default)]
pub(crate) struct FlowFaults {
    /// Connections that were reset because their reader is too slow.
    pub(crate) slow: Counter,
    /// Connections that were reset because the peer exceeded a window.
    pub(crate) violations: Counter,
    /// Packets that gave credit to a connection that does not exist.
    pub(crate) unknown: Counter,
}

impl FlowFaults {
    fn register(&self, registry: &mut Registry) {
        registry.register("slow_connections", "Connections reset for a slow reader", self.slow.clone());
        let violations = self.violations.clone();
        registry.register("window_violations", "Connections reset because the peer exceeded their window", violations);
        registry.register("unknown_windows", "Packets with credit for an unknown connection", self.unknown.clone());
    }

    /// Counts a connection that a packet of the peer has broken.
    pub(crate) fn refused(&self, refused: Refused) {
        let counter = match refused {
            Refused::Full => &self.slow,
            Refused::BeyondWindow | Refused::ExcessCredit => &self.violations,
        };
        counter.inc();
    }
}

pub(crate) struct Families {
    server_packets: Family<Packets, Counter>,
    agent_packets: Family<Packets, Counter>,
    client_packets: Family<Packets, Counter>,
    /// A gauge in its type, because the name of a counter would end in `_total`, and upstream's does not.
    dial_failures: Family<ByReason, Gauge>,
    grpc_connections: Family<ByMethod, Gauge>,
    endpoint_failures: Family<ByReason, Counter>,
    forwarded_dials: Family<ByResult, Counter>,
    /// Connections through other servers.
    pub(crate) forwarded: Gauge,
    /// Time of successful dials at the server, in seconds.
    pub(crate) dial_seconds: Histogram,
    /// Time of successful dials at an agent, in seconds.
    pub(crate) endpoint_dial_seconds: Histogram,
    /// Streams of agents at this server.
    pub(crate) backends: Gauge,
    /// Dials that agents have not answered.
    pub(crate) pending_dials: Gauge,
    /// Connections through this server.
    pub(crate) established: Gauge,
    /// Open HTTP CONNECT connections.
    pub(crate) http_connections: Gauge,
    /// Memory that received data of agents holds until it is read, in bytes.
    pub(crate) server_buffered: Gauge,
    /// Memory that received data of servers holds until it is read, in bytes.
    pub(crate) agent_buffered: Gauge,
    /// Of the server: slow frontends, and faults of agents.
    pub(crate) server_flow: FlowFaults,
    /// Of the agent: slow destinations, and faults of servers.
    pub(crate) agent_flow: FlowFaults,
    /// Attempts of this agent to connect to a server that failed.
    pub(crate) server_failures: Counter,
    /// Servers to which this agent is connected.
    pub(crate) open_servers: Gauge,
    /// Servers to which this agent shall be connected.
    pub(crate) known_servers: Gauge,
    /// Connections of this agent to destinations.
    pub(crate) open_endpoints: Gauge,
}

/// The metrics of this process.
pub(crate) static FAMILIES: LazyLock<Families> = LazyLock::new(|| {
    let families = Families::new();
    oarlock_telemetry::registry().declare(|registry| families.register(registry));
    families
});

impl Families {
    fn new() -> Self {
        Self {
            server_packets: Family::default(),
            agent_packets: Family::default(),
            client_packets: Family::default(),
            dial_failures: Family::default(),
            grpc_connections: Family::default(),
            endpoint_failures: Family::default(),
            forwarded_dials: Family::default(),
            forwarded: Gauge::default(),
            dial_seconds: Histogram::new([0.000_001, 0.000_01, 0.000_1, 0.005, 0.025, 0.1, 0.5, 2.5, 12.5]),
            endpoint_dial_seconds: Histogram::new([0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 30.0]),
            backends: Gauge::default(),
            pending_dials: Gauge::default(),
            established: Gauge::default(),
            http_connections: Gauge::default(),
            server_buffered: Gauge::default(),
            agent_buffered: Gauge::default(),
            server_flow: FlowFaults::default(),
            agent_flow: FlowFaults::default(),
            server_failures: Counter::default(),
            open_servers: Gauge::default(),
            known_servers: Gauge::default(),
            open_endpoints: Gauge::default(),
        }
    }

    fn register(&self, registry: &mut Registry) {
        let server = registry.sub_registry_with_prefix("konnectivity_network_proxy_server");
        server.register("stream_packets", "Packets of streams, by segment and type", self.server_packets.clone());
        server.register("dial_failure_count", "Failed dials, by reason", self.dial_failures.clone());
        server.register("dial_duration_seconds", "Time of successful dials", self.dial_seconds.clone());
        server.register("ready_backend_connections", "Streams of agents", self.backends.clone());
        server.register("pending_backend_dials", "Dials without an answer yet", self.pending_dials.clone());
        server.register("established_connections", "Established connections", self.established.clone());
        server.register("http_connections", "Open HTTP CONNECT connections", self.http_connections.clone());
        server.register("grpc_connections", "Open gRPC streams, by method", self.grpc_connections.clone());
        let forwarded = self.forwarded_dials.clone();
        server.register("forwarded_dials", "Dials that other servers were asked for, by result", forwarded);
        server.register("forwarded_connections", "Connections through other servers", self.forwarded.clone());
        server.register("buffered_bytes", "Memory that unread data of agents holds", self.server_buffered.clone());
        self.server_flow.register(server);
        let agent = registry.sub_registry_with_prefix("konnectivity_network_proxy_agent");
        agent.register("stream_packets", "Packets of streams, by segment and type", self.agent_packets.clone());
        agent.register("endpoint_dial_failure", "Failed dials, by reason", self.endpoint_failures.clone());
        agent.register("dial_duration_seconds", "Time of successful dials", self.endpoint_dial_seconds.clone());
        agent.register("open_server_connections", "Servers that are connected", self.open_servers.clone());
        let failures = self.server_failures.clone();
        agent.register("server_connection_failures", "Failed attempts to connect to a server", failures);
        agent.register("known_server_count", "Servers that shall be connected", self.known_servers.clone());
        agent.register("open_endpoint_connections", "Connections to destinations", self.open_endpoints.clone());
        agent.register("buffered_bytes", "Memory that unread data of servers holds", self.agent_buffered.clone());
        self.agent_flow.register(agent);
        let client = registry.sub_registry_with_prefix("konnectivity_network_proxy_client");
        client.register("stream_packets", "Packets of streams, by segment and type", self.client_packets.clone());
    }

    /// Counts a gRPC stream of the server while the returned value lives.
    pub(crate) fn grpc_connection(&self, service_method: &'static str) -> Counted {
        Counted::new(&self.grpc_connections.get_or_create(&ByMethod { service_method }))
    }

    /// Counts a failed dial at the server.
    pub(crate) fn dial_failure(&self, reason: Reason) {
        let reason = match reason {
            Reason::NoAgent => "no_agent",
            Reason::Destination => "error_response",
            Reason::Timeout => "timeout",
            Reason::Lost => "backend_close",
            Reason::Busy => "busy",
            Reason::Invalid => "invalid",
            Reason::Unreachable => "unreachable",
        };
        self.dial_failures.get_or_create(&ByReason { reason }).inc();
    }

    /// Counts a dial that other servers were asked for.
    pub(crate) fn forwarded_dial(&self, result: &'static str) {
        self.forwarded_dials.get_or_create(&ByResult { result }).inc();
    }

    /// Counts a failed dial of an agent.
    pub(crate) fn endpoint_failure(&self, timeout: bool) {
        let reason = if timeout { "timeout" } else { "unknown" };
        self.endpoint_failures.get_or_create(&ByReason { reason }).inc();
    }
}

/// A gauge that counts this value while it lives.
#[derive(Debug)]
pub(crate) struct Counted(Gauge);

impl Counted {
    pub(crate) fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}
