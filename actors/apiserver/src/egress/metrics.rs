//! Metrics of connections to other servers: upstream's about dials through tunnels, and our own about all connections by cause.

use std::sync::LazyLock;
use std::time::Duration;

use oarlock_telemetry::metrics::Histogram;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

/// Bounds of the time of dials through tunnels, in seconds (upstream's).
const TUNNEL_DIALS: [f64; 6] = [0.005, 0.025, 0.1, 0.5, 2.5, 12.5];
/// Bounds of the time of all dials, in seconds: a connection inside a data centre takes less than a millisecond.
const DIALS: [f64; 8] = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 12.5, 30.0];

/// How a tunnel server is reached, as upstream's labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Way {
    /// `http_connect` or `grpc`.
    pub(super) protocol: &'static str,
    /// `tcp` or `uds`.
    pub(super) transport: &'static str,
}

/// The part of a dial that has failed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    /// The connection to the tunnel server.
    Connect,
    /// The connection from there to the destination.
    Proxy,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailedAt {
    protocol: &'static str,
    transport: &'static str,
    stage: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCause {
    cause: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByPurpose {
    purpose: &'static str,
    cause: &'static str,
}

struct Families {
    tunnel_starts: Family<Way, Counter>,
    tunnel_durations: Family<Way, Histogram, fn() -> Histogram>,
    tunnel_failures: Family<FailedAt, Gauge>,
    open: Family<ByPurpose, Gauge>,
    durations: Family<ByCause, Histogram, fn() -> Histogram>,
    failures: Family<ByCause, Counter>,
}

static FAMILIES: LazyLock<Families> = LazyLock::new(|| {
    let families = Families {
        tunnel_starts: Family::default(),
        tunnel_durations: Family::new_with_constructor(|| Histogram::new(TUNNEL_DIALS)),
        tunnel_failures: Family::default(),
        open: Family::default(),
        durations: Family::new_with_constructor(|| Histogram::new(DIALS)),
        failures: Family::default(),
    };
    oarlock_telemetry::registry().declare(|registry| {
        let tunnel = registry.sub_registry_with_prefix("apiserver_egress_dialer");
        tunnel.register("dial_start", "Dials through tunnels", families.tunnel_starts.clone());
        let help = "Time of successful dials through tunnels";
        tunnel.register("dial_duration_seconds", help, families.tunnel_durations.clone());
        // A gauge: the name of a counter would get a suffix that upstream's has not.
        let help = "Failed dials through tunnels, by the stage that failed";
        tunnel.register("dial_failure_count", help, families.tunnel_failures.clone());
        let all = registry.sub_registry_with_prefix("oarlock_apiserver_egress");
        all.register("connections", "Open connections to other servers, by purpose and cause", families.open.clone());
        let help = "Time of successful dials to other servers, by cause";
        all.register("dial_duration_seconds", help, families.durations.clone());
        all.register("dial_failures", "Failed dials to other servers, by cause", families.failures.clone());
    });
    families
});

impl Way {
    /// Counts the start of a dial.
    pub(super) fn started(self) {
        FAMILIES.tunnel_starts.get_or_create(&self).inc();
    }

    /// Counts a connection.
    pub(super) fn connected(self, took: Duration) {
        FAMILIES.tunnel_durations.get_or_create(&self).observe(took.as_secs_f64());
    }

    /// Counts a failure.
    pub(super) fn failed(self, stage: Stage) {
        let stage = match stage {
            Stage::Connect => "connect",
            Stage::Proxy => "proxy",
        };
        let Self { protocol, transport } = self;
        FAMILIES.tunnel_failures.get_or_create(&FailedAt { protocol, transport, stage }).inc();
    }
}

/// Counts a dial over any way; `took` is the time of a successful one.
pub(super) fn dialled(cause: &'static str, took: Option<Duration>) {
    let labels = ByCause { cause };
    match took {
        Some(took) => FAMILIES.durations.get_or_create(&labels).observe(took.as_secs_f64()),
        None => {
            FAMILIES.failures.get_or_create(&labels).inc();
        }
    }
}

/// A connection that counts as open until dropped.
#[derive(Debug)]
pub(super) struct Open(Gauge);

impl Open {
    pub(super) fn begin(purpose: &'static str, cause: &'static str) -> Self {
        let gauge = FAMILIES.open.get_or_create_owned(&ByPurpose { purpose, cause });
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}
