//! Exports the series of requests as upstream's metric families.

use std::fmt;
use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::endpoints;
use super::labels::{DryRun, Scope, Verb};
use super::series::{CODES, OTHER_CODE, Series, SeriesTable, TERMINATIONS};

type Label = (&'static str, &'static str);

/// Collector of the series of requests of a table.
#[derive(Debug)]
pub(super) struct Requests(pub(super) &'static SeriesTable);

/// Returns the labels that every family of requests has.
fn labels(series: &Series) -> Option<[Label; 7]> {
    let of = series.labels;
    let facts = endpoints::facts().get(of.endpoint.index())?;
    Some([
        ("verb", Verb::ALL.get(of.verb as usize)?.1),
        ("group", facts.group),
        ("version", facts.version),
        ("resource", facts.resource),
        ("subresource", facts.subresource),
        ("scope", Scope::ALL.get(of.scope as usize)?.1),
        ("component", facts.component),
    ])
}

/// Returns labels with one more.
fn with<const N: usize, const M: usize>(labels: [Label; N], more: Label) -> [Label; M] {
    let mut all = [more; M];
    all.iter_mut().zip(labels).for_each(|(place, label)| *place = label);
    all
}

fn dry_run(series: &Series) -> Label {
    ("dry_run", DryRun::ALL.get(series.labels.dry_run as usize).map_or("", |(_, text)| text))
}

impl Requests {
    fn used(&self) -> impl Iterator<Item = (&'static Series, [Label; 7])> {
        self.0.used().filter_map(|series| Some((series, labels(series)?)))
    }
}

impl Collector for Requests {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Answered requests";
        let mut family = encoder.encode_descriptor("apiserver_request", help, None, MetricType::Counter)?;
        for (series, labels) in self.used() {
            let labels: [Label; 8] = with(labels, dry_run(series));
            let names = CODES.iter().map(|(_, text)| *text).chain([OTHER_CODE]);
            for (text, count) in names.zip(&series.codes) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    let labels: [Label; 9] = with(labels, ("code", text));
                    family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
                }
            }
        }
        let name = "apiserver_request_duration_seconds";
        let help = "Time to answer; of a watch the time until its end";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (series, labels) in self.used() {
            let labels: [Label; 8] = with(labels, dry_run(series));
            series.durations.encode(family.encode_family(&labels)?)?;
        }
        let name = "apiserver_request_sli_duration_seconds";
        let mut family =
            encoder.encode_descriptor(name, "Time to answer, dry runs apart", None, MetricType::Histogram)?;
        for (series, labels) in self.used() {
            if let Some(sli) = &series.sli {
                sli.encode(family.encode_family(&labels)?)?;
            }
        }
        let help = "Bytes of the answers to reads";
        let mut family = encoder.encode_descriptor("apiserver_response_sizes", help, None, MetricType::Histogram)?;
        for (series, labels) in self.used() {
            if let Some(sizes) = &series.sizes {
                sizes.encode(family.encode_family(&labels)?)?;
            }
        }
        let help = "Requests that the server ended to protect itself";
        let mut family =
            encoder.encode_descriptor("apiserver_request_terminations", help, None, MetricType::Counter)?;
        for (series, labels) in self.used() {
            for ((_, text), count) in TERMINATIONS.iter().zip(&series.terminations) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    let labels: [Label; 8] = with(labels, ("code", text));
                    family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
                }
            }
        }
        let help = "Watches that are open";
        let mut family = encoder.encode_descriptor("apiserver_longrunning_requests", help, None, MetricType::Gauge)?;
        for (series, labels) in self.used().filter(|(series, _)| series.labels.is_watch()) {
            family.encode_family(&labels)?.encode_gauge(&series.open.load(Ordering::Relaxed))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
