//! Measures scheduling by several processes: shards that propose, and one arbiter that decides.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use oarlock_client::ListOptions;
use oarlock_schema::views::core_v1;
use serde::Deserialize;

use super::{create, schedule};
use crate::connection::Connection;
use crate::crew::{Crew, Role, kind};
use crate::following::Following;
use crate::report::{self, Better, Figure};
use crate::subject::{Bench, Subject};

/// How many pods by how many processes, beside one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    nodes: usize,
    /// Pods that a node takes.
    room: usize,
    pods: usize,
    processes: usize,
    /// The number of parts of the pods. The subjects take turns, because a machine's speed changes from second to second.
    parts: usize,
    /// How often the whole measurement is repeated.
    rounds: usize,
}

/// What the pods of one part took.
#[derive(Clone, Copy)]
struct Part {
    bound: f64,
    /// Processor time per pod: of API server and bus, of all schedulers.
    servers: f64,
    members: f64,
}

impl Part {
    fn total(self) -> f64 {
        self.servers + self.members
    }
}

/// What is known when all pods have a node.
struct End {
    finding: f64,
    judging: f64,
    conflicts: f64,
    /// Of the last part, when nodes are as full as they get.
    last_conflicts: f64,
    evenness: f64,
}

/// The state that a scheduler shows in `/debug/actors` (`docs/operations/crew.md`).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SchedulerState {
    decides: bool,
    accepted: u64,
    refused: BTreeMap<String, u64>,
    micros_per_decision: f64,
    micros_per_judgement: f64,
}

/// What an arbiter has said so far.
#[derive(Clone, Copy, Default)]
struct Verdicts {
    accepted: u64,
    refused: u64,
}

impl Verdicts {
    fn of(told: &SchedulerState) -> Self {
        Self { accepted: told.accepted, refused: told.refused.values().sum() }
    }

    /// In a hundred proposals since then.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    fn conflicts_since(self, before: Self) -> f64 {
        let (accepted, refused) =
            (self.accepted.saturating_sub(before.accepted), self.refused.saturating_sub(before.refused));
        refused as f64 / (accepted + refused).max(1) as f64 * 100.0
    }
}

/// Measures.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub(crate) async fn run(bench: &Bench, subject: Subject, spec: &Spec) -> anyhow::Result<Vec<Figure>> {
    let (mut alone, mut together, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..spec.rounds {
        let mut one = Side::start(bench, subject, spec, 1).await?;
        let mut many = Side::start(bench, subject, spec, spec.processes).await?;
        for number in 0..spec.parts {
            // Neither is always the first.
            pairs.push(if number % 2 == 0 {
                let part = one.fill(spec, number).await?;
                (part, many.fill(spec, number).await?)
            } else {
                let part = many.fill(spec, number).await?;
                (one.fill(spec, number).await?, part)
            });
        }
        alone.push(one.end(spec).await?);
        together.push(many.end(spec).await?);
    }
    let more = spec.processes as f64 - 1.0;
    let one = |figure: fn(Part) -> f64| median(pairs.iter().map(|(one, _)| figure(*one)));
    let many = |figure: fn(Part) -> f64| median(pairs.iter().map(|(_, many)| figure(*many)));
    let last = |ends: &[End], figure: fn(&End) -> f64| median(ends.iter().map(figure));
    let of_one = last(&alone, |end| end.finding);
    let lower = |name, value, unit| Figure::new(name, value, unit, Better::Lower);
    Ok(vec![
        Figure::new("pods bound", many(|part| part.bound), "/s", Better::Higher),
        Figure::new("by one process", one(|part| part.bound), "/s", Better::Higher),
        lower("processor time of all processes per pod", many(Part::total), "µs"),
        lower("with one scheduler", one(Part::total), "µs"),
        lower("to that", median(pairs.iter().map(|(one, many)| many.total() / one.total())), "").aim(1.25),
        lower("of API server and bus", many(|part| part.servers), "µs"),
        lower("of these with one scheduler", one(|part| part.servers), "µs"),
        lower("of schedulers", many(|part| part.members), "µs"),
        lower("of the one", one(|part| part.members), "µs"),
        lower(
            "of each more: its share, and to follow all pods",
            median(pairs.iter().map(|(one, many)| (many.members - one.members) / more)),
            "µs",
        ),
        lower("to find a node", last(&together, |end| end.finding), "µs"),
        lower("for the one", of_one, "µs"),
        lower("of the one to read pods and bind them", one(|part| part.members) - of_one, "µs"),
        lower("to judge what another found", last(&together, |end| end.judging), "µs"),
        lower("conflicts", last(&together, |end| end.conflicts), "%"),
        lower("conflicts in the last part", last(&together, |end| end.last_conflicts), "%").aim(1.0),
        lower("unevenness of nodes", last(&together, |end| end.evenness), ""),
        lower("unevenness with one", last(&alone, |end| end.evenness), ""),
    ])
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    report::median(values.collect()).unwrap_or(f64::NAN)
}

/// Several schedulers, and the cluster that measures them.
struct Side {
    crew: Crew,
    connections: Vec<Connection>,
    bound: Following,
    /// What had been said before the last part.
    before: Verdicts,
}

impl Side {
    async fn start(bench: &Bench, subject: Subject, spec: &Spec, processes: usize) -> anyhow::Result<Self> {
        let crew = Crew::start(bench, subject, Role::Scheduler, processes).await?;
        create::account(crew.cluster()).await?;
        let connections = create::open(crew.cluster(), schedule::CONNECTIONS, None).await?;
        schedule::make_nodes(&connections, spec.nodes, spec.room).await?;
        schedule::known(crew.cluster(), &connections, spec.nodes).await?;
        let bound = schedule::bound(crew.cluster()).await?;
        Ok(Self { crew, connections, bound, before: Verdicts::default() })
    }

    async fn told(&self) -> anyhow::Result<(Vec<SchedulerState>, Verdicts)> {
        let told: Vec<SchedulerState> = self.crew.told("scheduler.shard").await?;
        let arbiter = told.iter().find(|told| told.decides).context("nobody decides")?;
        let verdicts = Verdicts::of(arbiter);
        Ok((told, verdicts))
    }

    /// Has the pods of one part bound.
    async fn fill(&mut self, spec: &Spec, number: usize) -> anyhow::Result<Part> {
        let pods = spec.pods / spec.parts;
        if number + 1 == spec.parts {
            self.before = self.told().await?.1;
        }
        let before = self.crew.usage()?;
        let numbers = number * pods..(number + 1) * pods;
        let took = schedule::bind_more(&mut self.bound, &self.connections, numbers, "").await?;
        let after = self.crew.usage()?;
        Ok(Part {
            bound: create::per_second(pods, took),
            servers: after.0.micros_each(before.0, pods),
            members: after.1.micros_each(before.1, pods),
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    async fn end(self, spec: &Spec) -> anyhow::Result<End> {
        let evenness = evenness(&self.crew, spec).await?;
        let (told, verdicts) = self.told().await?;
        let arbiter = told.iter().find(|told| told.decides).context("nobody decides")?;
        let judging = arbiter.micros_per_judgement;
        self.crew.stop().await?;
        Ok(End {
            finding: told.iter().map(|told| told.micros_per_decision).sum::<f64>() / told.len() as f64,
            judging,
            conflicts: verdicts.conflicts_since(Verdicts::default()),
            last_conflicts: verdicts.conflicts_since(self.before),
            evenness,
        })
    }
}

/// How good the places are that were found, where equal nodes get equal pods: the mean of the squares of what nodes have, by the square of the mean. 1 is the
/// best there is.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
async fn evenness(crew: &Crew, spec: &Spec) -> anyhow::Result<f64> {
    let pods = crew.client.list(kind("", "pods")?, "default", ListOptions::default()).await?;
    let mut loads: BTreeMap<String, usize> = BTreeMap::new();
    for pod in &pods.items {
        let obj = pod.obj()?;
        if let Some(pod) = obj.view::<core_v1::Pod<'_>>() {
            *loads.entry(pod.spec().node_name().to_owned()).or_default() += 1;
        }
    }
    ensure!(loads.values().all(|load| *load <= spec.room), "a node has more than it takes");
    let squares: usize = loads.values().map(|load| load * load).sum();
    let mean = spec.pods as f64 / spec.nodes as f64;
    Ok(squares as f64 / spec.nodes as f64 / (mean * mean))
}
