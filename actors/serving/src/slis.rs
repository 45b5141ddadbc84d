//! `/metrics/slis`: the results of health checks (upstream KEP-3466), apart from the other metrics so that they can be scraped often.

use std::sync::LazyLock;

use http::HeaderMap;
use oarlock_telemetry::metrics::{Format, encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::answer::{self, Answer};
use crate::check::Finding;
use crate::metrics;

type Label = (&'static str, &'static str);

struct Slis {
    registry: Registry,
    latest: Family<[Label; 2], Gauge>,
    total: Family<[Label; 3], Counter>,
}

/// The process-wide registry of health check results.
static PROCESS: LazyLock<Slis> = LazyLock::new(Slis::new);

impl Slis {
    fn new() -> Self {
        let (latest, total) = (Family::<[Label; 2], Gauge>::default(), Family::<[Label; 3], Counter>::default());
        let mut registry = Registry::default();
        registry.register("kubernetes_healthcheck", "Latest result of a health check", latest.clone());
        registry.register("kubernetes_healthchecks", "Results of health checks", total.clone());
        Self { registry, latest, total }
    }

    fn observe<'a>(&self, endpoint: &str, findings: impl Iterator<Item = &'a Finding>) {
        // Unknown paths make no labels, so that clients cannot add any number of them.
        let Some(endpoint) = ["healthz", "livez", "readyz"].into_iter().find(|known| *known == endpoint) else {
            return;
        };
        for finding in findings {
            let (name, kind) = (("name", finding.name), ("type", endpoint));
            let well = finding.wrong.is_none();
            self.latest.get_or_create(&[name, kind]).set(well.into());
            let status = if well { "success" } else { "error" };
            self.total.get_or_create(&[name, kind, ("status", status)]).inc();
        }
    }

    fn text(&self, format: Format) -> String {
        encode(format, [&self.registry])
    }
}

/// Records the results of an endpoint's checks when the whole endpoint was requested.
pub(crate) fn observe<'a>(endpoint: &str, findings: impl Iterator<Item = &'a Finding>) {
    PROCESS.observe(endpoint, findings);
}

/// Returns all results of the process.
#[must_use]
pub fn text(format: Format) -> String {
    PROCESS.text(format)
}

/// Returns the results as an HTTP answer, in the format that the request asks for.
#[must_use]
pub fn answer(headers: &HeaderMap) -> Answer {
    let format = metrics::format(headers);
    answer::whole(200, format.media_type(), text(format))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_has_its_latest_result_and_the_sum_of_all() {
        let slis = Slis::new();
        let found = |wrong: Option<&str>| Finding { name: "ping", wrong: wrong.map(str::to_owned), informs: false };
        for wrong in [Some("it is away"), Some("it is away"), None] {
            slis.observe("readyz", [found(wrong)].iter());
        }
        slis.observe("made-up", [found(None)].iter());
        let text = slis.text(Format::Plain);
        for line in [
            "kubernetes_healthcheck{name=\"ping\",type=\"readyz\"} 1",
            "kubernetes_healthchecks_total{name=\"ping\",type=\"readyz\",status=\"error\"} 2",
            "kubernetes_healthchecks_total{name=\"ping\",type=\"readyz\",status=\"success\"} 1",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
        assert!(!text.contains("made-up"), "{text}");
    }
}
