//! Measures memory and CPU of an idle cluster.

use std::time::Duration;

use serde::Deserialize;

use crate::report::{Better, Figure};
use crate::subject::{Bench, Parts, Subject};

/// How long to look.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Spec {
    settle_seconds: u64,
    look_seconds: u32,
}

/// Measures.
pub(crate) async fn run(bench: &Bench, subject: Subject, spec: &Spec) -> anyhow::Result<Vec<Figure>> {
    let cluster = bench.start(subject, Parts::Crew).await?;
    tokio::time::sleep(Duration::from_secs(spec.settle_seconds)).await;
    let before = cluster.usage()?;
    tokio::time::sleep(Duration::from_secs(spec.look_seconds.into())).await;
    let after = cluster.usage()?;
    cluster.stop().await?;
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let rss = after.rss as f64 / f64::from(1 << 20);
    let cpu = (after.cpu - before.cpu) / f64::from(spec.look_seconds) * 100.0;
    Ok(vec![
        Figure::new("resident memory", rss, "MiB", Better::Lower),
        Figure::new("processor", cpu, "% of a core", Better::Lower),
    ])
}
