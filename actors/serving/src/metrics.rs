//! `/metrics`: the metrics that the process's crates have registered, and those of its actors.

use std::collections::BTreeMap;
use std::fmt;

use http::{HeaderMap, header};
use oarlock_runtime::System;
use oarlock_schema::version::build_info;
use oarlock_telemetry::metrics::Format;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::actors::{self, OfKind};
use crate::answer::{self, Answer};

/// Returns the format of metrics that the `Accept` header of a request asks for.
#[must_use]
pub fn format(headers: &HeaderMap) -> Format {
    Format::accepted(headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()))
}

/// Returns the metrics of the process and of the actors of `system`.
#[must_use]
pub fn text(system: &System, format: Format) -> String {
    let mut more = Registry::default();
    more.register_collector(Box::new(Actors(actors::by_kind(system.snapshot()))));
    more.register_collector(Box::new(Build));
    oarlock_telemetry::registry().encode_with(format, &more)
}

/// Returns the metrics as an HTTP answer, in the format that the request asks for.
#[must_use]
pub fn answer(system: &System, headers: &HeaderMap) -> Answer {
    let format = format(headers);
    answer::whole(200, format.media_type(), text(system, format))
}

/// Collector of the version (upstream: `kubernetes_build_info`).
#[derive(Debug)]
struct Build;

impl Collector for Build {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let build = build_info();
        let labels = [
            ("major", build.major),
            ("minor", build.minor),
            ("git_version", &build.git_version),
            ("git_commit", build.git_commit),
            ("git_tree_state", build.git_tree_state),
            ("build_date", build.build_date),
            ("go_version", build.go_version),
            ("compiler", build.compiler),
            ("platform", &build.platform),
        ];
        encoder
            .encode_descriptor("kubernetes_build_info", "1, with the version as labels", None, MetricType::Gauge)?
            .encode_family(&labels)?
            .encode_gauge(&1_u64)
    }
}

type Figure = fn(&OfKind) -> u64;

/// A collector of the actors' figures at one moment.
#[derive(Debug)]
struct Actors(BTreeMap<String, OfKind>);

impl Collector for Actors {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut family = encoder.encode_descriptor("oarlock_actors", "Actors", None, MetricType::Gauge)?;
        for (kind, figures) in &self.0 {
            for (life, count) in &figures.lives {
                family.encode_family(&[("kind", kind), ("life", life)])?.encode_gauge(count)?;
            }
        }
        // Gauges, not counters: the sum falls when an actor ends.
        let of_kind: [(&str, &str, Figure); 2] = [
            ("oarlock_actor_restarts", "Restarts after a failure of the actors that are there", |kind| kind.restarts),
            ("oarlock_actor_queue_depth", "Messages that wait for an actor", |kind| kind.queued),
        ];
        for (name, help, figure) in of_kind {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (kind, figures) in &self.0 {
                family.encode_family(&[("kind", kind)])?.encode_gauge(&figure(figures))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_actors_are_labels() {
        let lives = BTreeMap::from([("BackingOff".to_owned(), 1), ("Running".to_owned(), 3)]);
        let kinds = BTreeMap::from([("a.b".to_owned(), OfKind { lives, restarts: 4, queued: 10 })]);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Actors(kinds)));
        let mut text = String::new();
        prometheus_client::encoding::text::encode_registry(&mut text, &registry).unwrap();
        for line in [
            "# TYPE oarlock_actors gauge",
            "oarlock_actors{kind=\"a.b\",life=\"BackingOff\"} 1",
            "oarlock_actors{kind=\"a.b\",life=\"Running\"} 3",
            "oarlock_actor_restarts{kind=\"a.b\"} 4",
            "oarlock_actor_queue_depth{kind=\"a.b\"} 10",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
    }
}
