//! Measures a tunnel under many streams at full speed: throughput, processor time for each gigabyte, memory, and the latency that the tunnel adds, alone and beside the streams.
//!
//! `--konnectivity FOLDER` measures upstream's server and agent beside ours, `--haproxy FILE` a plain TLS proxy, which says what the machine can do at most. All take turns, each run with
//! processes of its own, and the order is reversed in every other run.

pub(crate) mod destinations;
mod keys;
pub(crate) mod programs;
pub(crate) mod traffic;

use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::report::{Better, Figure, Times};
use crate::subject::{Bench, Subject};
use destinations::Destinations;
use programs::{Maker, Running, Way};
use traffic::Load;

/// The time of the streams before they are measured.
const WARM_UP: Duration = Duration::from_secs(2);
/// The longest time of one run.
const RUN_TIMEOUT: Duration = Duration::from_secs(600);
/// The least share of the plain proxy's throughput.
const AIM_OF_PROXY: f64 = 0.7;
/// The most processor time beside the plain proxy's.
const AIM_OF_PROXY_CPU: f64 = 2.0;
/// The least throughput for each second of processor time beside upstream's.
const AIM_OF_UPSTREAM: f64 = 2.0;
/// The most memory beside upstream's.
const AIM_OF_UPSTREAM_MEMORY: f64 = 0.25;

/// How many streams, and for how long.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Spec {
    way: Way,
    streams: usize,
    seconds: u64,
    round_trips: usize,
    runs: usize,
}

/// What one run has measured.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Bytes a second, in MiB.
    throughput: f64,
    /// Processor time of server and agent for each GiB, in seconds.
    cpu: f64,
    /// Resident memory of server and agent with all streams, in MiB.
    memory: f64,
    /// Of round trips on one connection without streams, beyond those without a tunnel: median and 99th percentile, in ms.
    alone: [f64; 2],
    /// The same beside the streams.
    beside: [f64; 2],
}

/// Selects a measured value.
type Value = fn(&Run) -> f64;

/// Names, units and directions of the measured values.
const VALUES: [(&str, &str, Better, Value); 7] = [
    ("throughput", "MiB/s", Better::Higher, |run| run.throughput),
    ("processor time per GiB", "s", Better::Lower, |run| run.cpu),
    ("memory", "MiB", Better::Lower, |run| run.memory),
    ("added latency, median", "ms", Better::Lower, |run| run.alone[0]),
    ("added latency, 99th percentile", "ms", Better::Lower, |run| run.alone[1]),
    ("added latency beside the streams, median", "ms", Better::Lower, |run| run.beside[0]),
    ("added latency beside the streams, 99th percentile", "ms", Better::Lower, |run| run.beside[1]),
];

/// Measures.
pub(crate) async fn run(bench: &Bench, _: Subject, spec: &Spec) -> anyhow::Result<Vec<Figure>> {
    ensure!(spec.runs > 0 && spec.streams > 0, "there is nothing to measure");
    traffic::allow_sockets()?;
    let makers = Maker::all(bench);
    let mut all: Vec<Vec<Run>> = vec![Vec::new(); makers.len()];
    for round in 0..spec.runs {
        let mut turn: Vec<_> = makers.iter().zip(&mut all).collect();
        if !round.is_multiple_of(2) {
            turn.reverse();
        }
        for (maker, runs) in turn {
            let run = tokio::time::timeout(RUN_TIMEOUT, once(maker, spec)).await;
            runs.push(run.context("not done in time").flatten().with_context(|| maker.name().to_owned())?);
        }
    }
    Ok(figures(&makers, &all))
}

async fn once(maker: &Maker, spec: &Spec) -> anyhow::Result<Run> {
    let destinations = Destinations::start().await?;
    let mut direct = destinations.direct().await?;
    let without = traffic::round_trips(&mut direct, spec.round_trips).await?;
    let running = Running::start(maker, spec.way, &destinations).await?;
    let mut echo = running.dial(destinations.echo).await?;
    // The first ones warm up caches.
    traffic::round_trips(&mut echo, spec.round_trips / 10).await?;
    let alone = traffic::round_trips(&mut echo, spec.round_trips).await?;
    let load = Load::start(&running, destinations.source, spec.streams).await?;
    tokio::time::sleep(WARM_UP).await;
    let (before, begun) = (running.usage()?, load.moved());
    let measured = async {
        tokio::time::sleep(Duration::from_secs(spec.seconds)).await;
        anyhow::Ok((running.usage()?, load.moved()))
    };
    let (after, beside) = futures::future::join(measured, traffic::round_trips(&mut echo, spec.round_trips)).await;
    let ((usage, moved), beside) = (after?, beside?);
    load.stop().await?;
    running.stop().await?;
    let (bytes, seconds) = moved.since(begun);
    ensure!(bytes > 0.0, "the streams carry nothing");
    Ok(Run {
        throughput: bytes / seconds / f64::from(1 << 20),
        cpu: (usage.cpu - before.cpu) / bytes * f64::from(1 << 30),
        memory: mebibytes(usage.rss),
        alone: added(&alone, &without),
        beside: added(&beside, &without),
    })
}

/// The median and the 99th percentile of what one sort of round trips takes longer than another.
fn added(times: &Times, without: &Times) -> [f64; 2] {
    [50, 99].map(|percent| times.percentile(percent) - without.percentile(percent))
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The medians of each maker, and ours beside the others'.
fn figures(makers: &[Maker], all: &[Vec<Run>]) -> Vec<Figure> {
    let values = |runs: &[Run], value: Value| runs.iter().map(value).collect::<Vec<f64>>();
    let mut figures = Vec::new();
    for (name, unit, better, value) in VALUES {
        for (maker, runs) in makers.iter().zip(all) {
            figures.push(Figure::of_runs(format!("{name}, {}", maker.name()), values(runs, value), unit, better));
        }
    }
    let [own, others @ ..] = all else { return figures };
    let median = |runs: &[Run], value: Value| Figure::of_runs("", values(runs, value), "", Better::Neither).value;
    for (maker, runs) in makers.iter().skip(1).zip(others) {
        let beside = |value: Value| median(own, value) / median(runs, value);
        let (throughput, memory) = (beside(|run| run.throughput), beside(|run| run.memory));
        let (cpu, efficiency) = (beside(|run| run.cpu), 1.0 / beside(|run| run.cpu));
        let ratio =
            |what: &str, ratio, better| Figure::new(format!("{what} beside {}", maker.name()), ratio, "×", better);
        figures.extend(match maker {
            Maker::Proxy(_) => [
                ratio("throughput", throughput, Better::Higher).aim(AIM_OF_PROXY),
                ratio("processor time per GiB", cpu, Better::Lower).aim(AIM_OF_PROXY_CPU),
            ],
            Maker::Oarlock(_) | Maker::Upstream(_) => [
                ratio("throughput per processor second", efficiency, Better::Higher).aim(AIM_OF_UPSTREAM),
                ratio("memory", memory, Better::Lower).aim(AIM_OF_UPSTREAM_MEMORY),
            ],
        });
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(throughput: f64, cpu: f64, memory: f64) -> Run {
        Run { throughput, cpu, memory, alone: [0.1, 0.2], beside: [1.0, 2.0] }
    }

    #[test]
    fn ours_is_compared_with_each_other_by_its_own_measure() {
        let makers = [Maker::Oarlock("a".into()), Maker::Upstream("b".into()), Maker::Proxy("c".into())];
        let all = [vec![run(500.0, 2.0, 100.0)], vec![run(200.0, 5.0, 800.0)], vec![run(1000.0, 1.0, 50.0)]];
        let figures = figures(&makers, &all);
        let of = |name: &str| figures.iter().find(|figure| figure.name == name).map(|figure| figure.value);
        assert_eq!(of("throughput, upstream"), Some(200.0));
        assert_eq!(of("throughput per processor second beside upstream"), Some(2.5));
        assert_eq!(of("memory beside upstream"), Some(0.125));
        assert_eq!(of("throughput beside haproxy"), Some(0.5));
        assert_eq!(of("processor time per GiB beside haproxy"), Some(2.0));
    }
}
