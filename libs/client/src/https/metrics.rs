//! Requests by server, under upstream's names (`rest_client_*`). Each attempt counts. The label `host` is the server's address as the kubeconfig names it.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use http::{Method, StatusCode};
use oarlock_telemetry::metrics::Histogram;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Bounds of `rest_client_request_duration_seconds`.
const DURATIONS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// Methods with labels of their own: all that the client sends. Others count as the first.
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
/// The first code that a server can answer with.
const FIRST_CODE: u16 = 100;
/// Number of codes with a label of their own.
const CODES: usize = 500;
/// Label of an attempt without an answer, and of a code beyond [`CODES`].
const NO_CODE: &str = "<error>";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    code: String,
    method: &'static str,
    host: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabels {
    verb: &'static str,
    host: Arc<str>,
}

type Histograms = Family<DurationLabels, Histogram, fn() -> Histogram>;

/// The metrics of all servers of a process. All clients of a server share its metrics.
struct Families {
    requests: Family<RequestLabels, Counter>,
    durations: Histograms,
    hosts: Mutex<BTreeMap<Arc<str>, Arc<HostMetrics>>>,
}

static FAMILIES: LazyLock<Families> = LazyLock::new(|| {
    let families = Families::new();
    oarlock_telemetry::registry().declare(|registry| families.register(registry));
    families
});

impl Families {
    fn new() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(DURATIONS);
        Self {
            requests: Family::default(),
            durations: Histograms::new_with_constructor(histogram),
            hosts: Mutex::default(),
        }
    }

    fn register(&self, registry: &mut Registry) {
        registry.register("rest_client_requests", "Attempts of requests to API servers", self.requests.clone());
        let help = "Time from an attempt to the head of its answer";
        registry.register("rest_client_request_duration_seconds", help, self.durations.clone());
    }

    fn host(&self, host: &str) -> Arc<HostMetrics> {
        let mut hosts = self.hosts.lock();
        if let Some(known) = hosts.get(host) {
            return Arc::clone(known);
        }
        let host: Arc<str> = host.into();
        let new = Arc::new(HostMetrics {
            host: Arc::clone(&host),
            requests: self.requests.clone(),
            durations: self.durations.clone(),
            methods: std::array::from_fn(|_| OnceLock::new()),
        });
        hosts.insert(host, Arc::clone(&new));
        new
    }
}

/// The series of one method at one server, found by index.
struct MethodMetrics {
    duration: Histogram,
    /// Counters by code, from [`FIRST_CODE`] on; the last is that of [`NO_CODE`].
    codes: Box<[OnceLock<Counter>]>,
}

/// The metrics of one server.
pub(super) struct HostMetrics {
    host: Arc<str>,
    requests: Family<RequestLabels, Counter>,
    durations: Histograms,
    methods: [OnceLock<MethodMetrics>; METHODS.len()],
}

impl HostMetrics {
    /// Returns the metrics of a server, by its address.
    pub(super) fn of(host: &str) -> Arc<Self> {
        FAMILIES.host(host)
    }

    /// Counts an attempt and its answer's code, if there was an answer.
    pub(super) fn count(&self, method: &Method, code: Option<StatusCode>, took: Duration) {
        let method = METHODS.iter().position(|known| *known == method.as_str()).unwrap_or_default();
        let Some((name, place)) = METHODS.get(method).zip(self.methods.get(method)) else { return };
        let series = place.get_or_init(|| MethodMetrics {
            duration: self.durations.get_or_create_owned(&DurationLabels { verb: name, host: Arc::clone(&self.host) }),
            codes: (0..=CODES).map(|_| OnceLock::new()).collect(),
        });
        series.duration.observe(took.as_secs_f64());
        let code = code.map(|code| code.as_u16()).filter(|code| usize::from(code - FIRST_CODE) < CODES);
        let Some(counter) = series.codes.get(code.map_or(CODES, |code| usize::from(code - FIRST_CODE))) else { return };
        let counter = counter.get_or_init(|| {
            let code = code.map_or_else(|| NO_CODE.to_owned(), |code| code.to_string());
            self.requests.get_or_create_owned(&RequestLabels { code, method: name, host: Arc::clone(&self.host) })
        });
        counter.inc();
    }
}

#[cfg(test)]
mod tests {
    use oarlock_telemetry::metrics::{Format, encode};

    use super::*;

    #[test]
    fn attempts_count_by_server_method_and_code() {
        let (families, mut registry) = (Families::new(), Registry::default());
        families.register(&mut registry);
        let second = Duration::from_secs(1);
        families.host("a:6443").count(&Method::GET, Some(StatusCode::OK), second);
        families.host("a:6443").count(&Method::GET, Some(StatusCode::OK), second);
        families.host("b:6443").count(&Method::PATCH, Some(StatusCode::CONFLICT), second);
        families.host("b:6443").count(&Method::POST, None, second);
        families.host("b:6443").count(&Method::POST, StatusCode::from_u16(999).ok(), second);
        let text = encode(Format::OpenMetrics, [&registry]);
        oarlock_testkit::metrics::has(
            &text,
            [
                "rest_client_requests_total{code=\"200\",method=\"GET\",host=\"a:6443\"} 2",
                "rest_client_requests_total{code=\"409\",method=\"PATCH\",host=\"b:6443\"} 1",
                "rest_client_requests_total{code=\"<error>\",method=\"POST\",host=\"b:6443\"} 2",
                "rest_client_request_duration_seconds_bucket{le=\"1.0\",verb=\"GET\",host=\"a:6443\"} 2",
            ],
        );
        oarlock_testkit::metrics::check(&text, &["rest_client_requests_total", "rest_client_request_duration_seconds"]);
    }
}
