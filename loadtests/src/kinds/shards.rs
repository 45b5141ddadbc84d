//! What it costs to schedule in several processes: shards that propose, and one arbiter that decides.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use oarlock_client::ListOptions;
use oarlock_schema::views::core_v1;
use serde::Deserialize;

use super::{create, schedule};
use crate::crew::{Crew, Role, kind};
use crate::report::{Better, Figure};
use crate::subject::{Bench, Subject};

/// How many pods by how many processes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    nodes: usize,
    /// Pods that a node takes.
    room: usize,
    pods: usize,
    processes: usize,
}

/// What a scheduler tells of itself (`docs/operations/crew.md`).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    decides: bool,
    conflict_rate: f64,
    micros_per_decision: f64,
    micros_per_judgement: f64,
}

/// Measures.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub(crate) async fn run(bench: &Bench, subject: Subject, spec: &Spec) -> anyhow::Result<Vec<Figure>> {
    let crew = Crew::start(bench, subject, Role::Scheduler, spec.processes).await?;
    create::account(crew.cluster()).await?;
    let connections = create::open(crew.cluster(), schedule::CONNECTIONS, None).await?;
    schedule::make_nodes(&connections, spec.nodes, spec.room).await?;
    schedule::known(crew.cluster(), &connections, spec.nodes).await?;
    let before = crew.usage()?;
    let took = schedule::bind(crew.cluster(), &connections, spec.pods, "").await?;
    let after = crew.usage()?;
    let evenness = evenness(&crew, spec).await?;
    let told: Vec<Told> = crew.told("scheduler.shard").await?;
    crew.stop().await?;
    let (servers, members) = (after.0.micros_each(before.0, spec.pods), after.1.micros_each(before.1, spec.pods));
    let lower = |name, value, unit| Figure::new(name, value, unit, Better::Lower);
    let arbiter = told.iter().find(|told| told.decides).context("nobody decides")?;
    let deciding = told.iter().map(|told| told.micros_per_decision).sum::<f64>() / told.len() as f64;
    Ok(vec![
        Figure::new("pods bound", create::per_second(spec.pods, took), "/s", Better::Higher),
        lower("processor time of all processes per pod", servers + members, "µs"),
        lower("of API server and bus", servers, "µs"),
        lower("of schedulers", members, "µs"),
        lower("to find a node", deciding, "µs"),
        lower("to judge what another found", arbiter.micros_per_judgement, "µs"),
        lower("conflicts", arbiter.conflict_rate * 100.0, "%"),
        lower("unevenness of nodes", evenness, ""),
    ])
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
