//! Measures how long a control plane takes from the start of its first process until it is ready.

use serde::Deserialize;

use crate::report::{Better, Figure};
use crate::subject::{Bench, Parts, Subject};

/// Parameters of a start scenario, which has none.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {}

/// Measures the start of one subject.
pub(crate) async fn run(bench: &Bench, subject: Subject, _: &Spec) -> anyhow::Result<Vec<Figure>> {
    let cluster = bench.start(subject, Parts::Crew).await?;
    let ready = cluster.ready.as_secs_f64() * 1000.0;
    cluster.stop().await?;
    Ok(vec![Figure::new("exec to all parts ready", ready, "ms", Better::Lower)])
}
