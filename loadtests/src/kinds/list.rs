//! LIST of all pods.

use http::Method;
use serde::Deserialize;

use super::create;
use crate::clock::now;
use crate::connection::Connection;
use crate::report::{Better, Figure, Times};
use crate::subject::{Bench, Parts, Subject};

/// How many pods, how often, in which form.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    pods: usize,
    reads: usize,
    #[serde(default)]
    gzip: bool,
}

/// Measures.
pub(crate) async fn run(bench: &Bench, subject: Subject, spec: &Spec) -> anyhow::Result<Vec<Figure>> {
    let cluster = bench.start(subject, Parts::Api).await?;
    create::account(&cluster).await?;
    create::fill(&create::open(&cluster, 8, None).await?, 64, spec.pods, &create::pod).await?;
    let mut connection = Connection::open(&cluster.kubeconfig, None).await?;
    let (mut times, mut size) = (Times::default(), 0);
    let before = cluster.usage()?;
    for _ in 0..spec.reads {
        let begun = now();
        let (code, length) = connection.call(Method::GET, create::PODS, bytes::Bytes::new(), spec.gzip).await?;
        anyhow::ensure!(code == 200, "list: {code}");
        times.add(begun.elapsed());
        size = length;
    }
    let cpu = cluster.usage()?.micros_each(before, spec.reads) / 1000.0;
    cluster.stop().await?;
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let mib = size as f64 / f64::from(1 << 20);
    Ok(vec![
        Figure::new("median", times.percentile(50), "ms", Better::Lower),
        Figure::new("server processor time", cpu, "ms", Better::Lower),
        Figure::new("on the wire", mib, "MiB", Better::Lower),
    ])
}
