//! Measures what each state of traces costs creates of pods: off, in the ring, exported at 1 % of the requests and at all of them. The collector is part of this program and takes all spans.
//!
//! The states take turns, each run with a server and a folder of its own, and the order is reversed in every other round: a machine that becomes slower or faster affects all alike.

use std::time::Duration;

use anyhow::{Context, ensure};
use oarlock_testkit::otlp::{Answer, Collector};
use serde::Deserialize;
use tempfile::NamedTempFile;

use super::create;
use crate::clock::now;
use crate::report::{Better, Figure};
use crate::subject::{Bench, Parts, Subject};
use crate::verdict::{FEWEST, Verdict, judge, worse_by};

/// The longest time that a span waits for its export: a tenth of the default, so that each run has exports.
const EXPORT_DELAY: Duration = Duration::from_millis(500);
/// How long a server may work after the last create until its processor time is read: the export of the last spans counts.
const AFTER: Duration = Duration::from_millis(700);

/// How many clients make how many pods in each run, and the number of runs in each state.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    clients: usize,
    connections: usize,
    pods: usize,
    runs: usize,
}

/// A state of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// By the variable of OpenTelemetry, which builds from before traces ignore.
    Off,
    /// The default of `oarlock up`.
    Ring,
    /// So many of a million requests are sampled.
    Exported { per_million: u32 },
}

/// The states, with the name and with how much more than without traces the state may cost, as a share.
const STATES: [(State, &str, Option<f64>); 4] = [
    (State::Off, "off", None),
    (State::Ring, "ring", Some(0.02)),
    (State::Exported { per_million: 10_000 }, "exported at 1 %", Some(0.03)),
    (State::Exported { per_million: 1_000_000 }, "exported at 100 %", None),
];

/// The values of all runs in one state, in microseconds for each create.
#[derive(Clone, Debug, Default)]
struct Runs {
    cpu: Vec<f64>,
    wall: Vec<f64>,
}

/// Selects one of the measured values.
type Values = fn(&Runs) -> &Vec<f64>;

/// Measures.
pub(crate) async fn run(bench: &Bench, subject: Subject, spec: &Spec) -> anyhow::Result<Vec<Figure>> {
    ensure!(spec.runs >= FEWEST, "runs = {}: no verdict can be given on fewer than {FEWEST}", spec.runs);
    let mut all: [Runs; STATES.len()] = Default::default();
    for round in 0..spec.runs {
        let mut turn: Vec<_> = STATES.iter().zip(&mut all).collect();
        if !round.is_multiple_of(2) {
            turn.reverse();
        }
        for ((state, name, _), runs) in turn {
            let (cpu, wall) = once(bench, subject, spec, *state).await.with_context(|| (*name).to_owned())?;
            runs.cpu.push(cpu);
            runs.wall.push(wall);
        }
    }
    Ok(figures(&all))
}

/// Makes the pods once; returns the processor time and the wall time of a create.
async fn once(bench: &Bench, subject: Subject, spec: &Spec, state: State) -> anyhow::Result<(f64, f64)> {
    let collector = Collector::start(Answer::Discard).await;
    let file = NamedTempFile::new()?;
    let bench = match state {
        State::Off => bench.with_variable("OTEL_SDK_DISABLED", "true"),
        State::Ring => bench.clone(),
        State::Exported { per_million } => {
            let content = format!(
                "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: {}\nsamplingRatePerMillion: {per_million}\n",
                collector.address
            );
            std::fs::write(file.path(), content)?;
            let path = file.path().to_str().context("the temporary folder has no name in UTF-8")?;
            let delay = EXPORT_DELAY.as_millis().to_string();
            bench.with(&["--tracing-config-file", path]).with_variable("OTEL_BSP_SCHEDULE_DELAY", &delay)
        }
    };
    let cluster = bench.start(subject, Parts::Api).await?;
    create::account(&cluster).await?;
    let connections = create::open(&cluster, spec.connections, None).await?;
    let before = cluster.usage()?;
    let begun = now();
    create::fill(&connections, spec.clients, spec.pods, &create::pod).await?;
    let wall = begun.elapsed();
    // In every state, so that all have the same idle time.
    tokio::time::sleep(AFTER).await;
    let cpu = cluster.usage()?.micros_each(before, spec.pods);
    cluster.stop().await?;
    let exports = matches!(state, State::Exported { .. });
    let seen = collector.requests_seen();
    ensure!(exports == (seen > 0), "the collector has got {seen} requests");
    Ok((cpu, 1e6 / create::per_second(spec.pods, wall)))
}

/// The medians in each state, and what a state costs beside none.
fn figures(all: &[Runs; STATES.len()]) -> Vec<Figure> {
    let values: [(&str, Values); 2] =
        [("server processor time per create", |runs| &runs.cpu), ("wall time per create", |runs| &runs.wall)];
    let mut figures = Vec::new();
    for (what, of) in values {
        let states = || STATES.iter().zip(all);
        figures.extend(states().map(|((_, name, _), runs)| {
            Figure::of_runs(format!("{what}, {name}"), of(runs).clone(), "µs", Better::Lower)
        }));
        let [off, ..] = all;
        figures.extend(states().skip(1).filter_map(|((_, name, limit), runs)| {
            let cost = worse_by(Better::Lower, of(off), of(runs))? * 100.0;
            let figure = Figure::new(format!("{what}, {name} beside off"), cost, "%", Better::Lower);
            Some(match limit {
                Some(limit) => {
                    let verdict = judge(Better::Lower, *limit, of(off), of(runs));
                    figure.aim(limit * 100.0).judged(verdict.name(), verdict == Verdict::Worse)
                }
                None => figure,
            })
        }));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs around a value, with noise of 1 %.
    fn runs(around: f64) -> Vec<f64> {
        (0..10).map(|run| around * (1.0 + f64::from(run % 5 - 2) / 200.0)).collect()
    }

    fn verdicts(costs: [f64; STATES.len()]) -> Vec<(String, Option<String>, bool)> {
        let all = costs.map(|cost| Runs { cpu: runs(100.0 * cost), wall: runs(50.0) });
        let figures = figures(&all).into_iter().filter(|figure| figure.name.ends_with("beside off"));
        figures.map(|figure| (figure.name.into_owned(), figure.verdict.map(Into::into), figure.exceeded)).collect()
    }

    #[test]
    fn a_state_over_its_limit_is_named_and_the_last_one_has_none() {
        let fine = verdicts([1.0, 1.015, 1.025, 3.0]);
        assert!(fine.iter().all(|(_, _, exceeded)| !exceeded), "{fine:?}");
        let worse = verdicts([1.0, 1.06, 1.025, 3.0]);
        let exceeded: Vec<&str> =
            worse.iter().filter(|(_, _, exceeded)| *exceeded).map(|(name, ..)| name.as_str()).collect();
        assert_eq!(exceeded, ["server processor time per create, ring beside off"]);
        assert_eq!(worse.iter().filter(|(_, verdict, _)| verdict.is_none()).count(), 2, "100 % is shown only");
    }

    #[test]
    fn a_cost_within_the_noise_exceeds_nothing() {
        let mut all: [Runs; STATES.len()] = Default::default();
        for (at, runs) in all.iter_mut().enumerate() {
            // Medians 4 % apart, values 60 % apart.
            runs.cpu = (0..10).map(|run| 100.0 + 4.0 * f64::from(at == 1) + 6.0 * f64::from(run)).collect();
            runs.wall.clone_from(&runs.cpu);
        }
        let ring = figures(&all).into_iter().find(|figure| figure.name.contains("ring beside")).unwrap();
        assert_eq!((ring.verdict.as_deref(), ring.exceeded), (Some("too noisy to say"), false));
        assert!(ring.value > 2.0, "{}", ring.value);
    }
}
