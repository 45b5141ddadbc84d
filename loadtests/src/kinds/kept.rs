//! Measures the rate of etcd itself, and the share of it that creates reach, on etcds that are started alike.

use anyhow::Context;
use serde::Deserialize;

use super::{append, create};
use crate::report::{Better, Figure};
use crate::subject::{Bench, Subject};

/// What is done to each; the sizes of both should be the same.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    append: append::Spec,
    create: create::Spec,
}

/// Measures.
pub(crate) async fn run(bench: &Bench, subject: Subject, spec: &Spec) -> anyhow::Result<Vec<Figure>> {
    let own = append::run(bench, subject, &spec.append).await?;
    let mut figures = create::run(bench, subject, &spec.create).await?;
    let kept = rate(&figures).context("creates have no rate")? / rate(&own).context("etcd has no rate")? * 100.0;
    figures.extend(own);
    figures.push(Figure::new("kept of etcd's own rate", kept, "%", Better::Higher).aim(80.0));
    Ok(figures)
}

fn rate(figures: &[Figure]) -> Option<f64> {
    figures.iter().find(|figure| figure.unit == "/s").map(|figure| figure.value)
}
