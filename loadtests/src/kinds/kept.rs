//! What creates keep of the rate of etcd itself: both are measured one after the other, over etcds that are started alike.

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
    let own = rate(append::run(bench, subject, &spec.append).await?).context("etcd has no rate")?;
    let mut figures = create::run(bench, subject, &spec.create).await?;
    let kept = rate(figures.clone()).context("creates have no rate")?.value / own.value * 100.0;
    figures.extend([own, Figure::new("kept of etcd's own rate", kept, "%", Better::Higher).aim(80.0)]);
    Ok(figures)
}

fn rate(figures: Vec<Figure>) -> Option<Figure> {
    figures.into_iter().find(|figure| figure.unit == "/s")
}
