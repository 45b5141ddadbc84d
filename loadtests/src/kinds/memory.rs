//! Measures the memory of many idle pods.

use std::time::Duration;

use anyhow::ensure;
use http::Method;
use serde::Deserialize;

use super::create;
use crate::clock::now;
use crate::cluster::{Cluster, Usage};
use crate::connection::Connection;
use crate::report::{Better, Figure};
use crate::subject::{Bench, Parts, Subject};

/// How long memory may take to come to rest.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How many pods.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    pods: usize,
}

/// Measures.
pub(crate) async fn run(bench: &Bench, subject: Subject, spec: &Spec) -> anyhow::Result<Vec<Figure>> {
    let cluster = bench.start(subject, Parts::Api).await?;
    create::account(&cluster).await?;
    let before = rest(&cluster).await?;
    create::fill(&create::open(&cluster, 8, None).await?, 64, spec.pods, &create::pod).await?;
    let after = rest(&cluster).await?;
    // One more pass over all of them, as a controller that starts makes it.
    let mut connection = Connection::open(&cluster.kubeconfig, None).await?;
    let begun = now();
    let (code, _) = connection.call(Method::GET, create::PODS, bytes::Bytes::new(), false).await?;
    ensure!(code == 200, "list: {code}");
    let list = begun.elapsed();
    let listed = rest(&cluster).await?;
    cluster.stop().await?;
    Ok(vec![
        Figure::new("memory per pod", after.kib_each(before, spec.pods), "KiB", Better::Lower),
        Figure::new("memory per pod after a list", listed.kib_each(before, spec.pods), "KiB", Better::Lower),
        Figure::new("list", list.as_secs_f64() * 1000.0, "ms", Better::Lower),
    ])
}

/// Waits until memory changes no more.
async fn rest(cluster: &Cluster) -> anyhow::Result<Usage> {
    let begun = now();
    let mut last = cluster.usage()?;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let usage = cluster.usage()?;
        if usage.rss.abs_diff(last.rss) < usage.rss / 100 || begun.elapsed() > SETTLE_TIMEOUT {
            return Ok(usage);
        }
        last = usage;
    }
}
