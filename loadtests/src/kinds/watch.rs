//! Measures one writer and many watchers: rate, latency and cost of deliveries. Watchers read raw frames and count lines.

use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::Method;
use serde::Deserialize;

use super::create;
use crate::clock::now;
use crate::cluster::Cluster;
use crate::connection::Connection;
use crate::following::Following;
use crate::report::{Better, Figure, Times};
use crate::subject::{Bench, Parts, Subject};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// An object's own size, roughly.
const PADDING: usize = 1000;
/// Every so manieth watcher also reads when its events were written.
const SAMPLE: usize = 20;
/// The key under which an object holds the time of its write, in nanoseconds since the first write.
const MARK: &[u8] = br#""written":""#;
const RUN_TIMEOUT: Duration = Duration::from_secs(120);

/// How many watchers on how many connections, and how many write how often.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    watchers: usize,
    connections: usize,
    writers: usize,
    writes: usize,
}

/// Measures.
pub(crate) async fn run(bench: &Bench, subject: Subject, spec: &Spec) -> anyhow::Result<Vec<Figure>> {
    let cluster = bench.start(subject, Parts::Api).await?;
    let connections = create::open(&cluster, spec.connections, None).await?;
    let before = cluster.usage()?;
    let streams = watches(&connections, spec.watchers).await?;
    let open = cluster.usage()?;
    let epoch = now();
    let (times, ()) = tokio::time::timeout(RUN_TIMEOUT, async {
        let reading =
            streams.into_iter().enumerate().map(|(i, stream)| read(stream, spec.writes, i % SAMPLE == 0, epoch));
        futures::future::try_join(futures::future::try_join_all(reading), write(&cluster, spec, epoch)).await
    })
    .await
    .context("some watchers did not get every event")??;
    let took = epoch.elapsed();
    let after = cluster.usage()?;
    cluster.stop().await?;
    let deliveries = spec.watchers * spec.writes;
    let cut: usize = times.iter().map(|(_, cut)| cut).sum();
    let times = times.into_iter().fold(Times::default(), |sum, (times, _)| sum.and(times));
    Ok(vec![
        Figure::new("deliveries", create::per_second(deliveries, took), "/s", Better::Higher),
        Figure::new("write to delivery, median", times.percentile(50), "ms", Better::Lower),
        Figure::new("write to delivery, 99th percentile", times.percentile(99), "ms", Better::Lower),
        Figure::new("server processor time per delivery", after.micros_each(open, deliveries), "µs", Better::Lower),
        Figure::new("watches cut", f64::from(u32::try_from(cut).unwrap_or(u32::MAX)), "", Better::Lower),
        Figure::new("memory per watch", open.kib_each(before, spec.watchers), "KiB", Better::Lower),
    ])
}

/// Opens watches from the present on, spread over the connections.
async fn watches(connections: &[Connection], count: usize) -> anyhow::Result<Vec<Following>> {
    let mut first = connections.first().context("no connection")?.clone();
    let list = first.send(Method::GET, &format!("{CONFIG_MAPS}?limit=1"), Bytes::new()).await?;
    let list: serde_json::Value = serde_json::from_slice(&list)?;
    let revision = list.pointer("/metadata/resourceVersion").and_then(|r| r.as_str()).context("no revision")?;
    let path = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=600");
    let watch = |connection| Following::open(connection, path.clone(), revision.to_owned());
    let open = connections.iter().cycle().take(count).cloned().map(watch);
    futures::future::try_join_all(open).await
}

async fn write(cluster: &Cluster, spec: &Spec, epoch: std::time::Instant) -> anyhow::Result<()> {
    let connections = create::open(cluster, spec.writers, None).await?;
    let padding = "x".repeat(PADDING);
    let padding = &padding;
    let work = connections.into_iter().enumerate().map(|(first, mut connection)| async move {
        for i in (first..spec.writes).step_by(spec.writers) {
            let written = epoch.elapsed().as_nanos();
            let body = format!(
                r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"load-{i}"}},"data":{{"padding":"{padding}","written":"{written}"}}}}"#
            );
            connection.create(CONFIG_MAPS, body.into()).await?;
        }
        Ok::<_, anyhow::Error>(())
    });
    futures::future::try_join_all(work).await.map(drop)
}

/// Reads a watch until it has delivered the given number of events.
async fn read(
    mut watch: Following,
    events: usize,
    timed: bool,
    epoch: std::time::Instant,
) -> anyhow::Result<(Times, usize)> {
    let mut times = Times::default();
    let mark = memchr::memmem::Finder::new(MARK);
    let mut seen = 0;
    while seen < events {
        let frame = watch.next().await?;
        seen += memchr::memchr_iter(b'\n', &frame).count();
        if !timed {
            continue;
        }
        let present = epoch.elapsed();
        for at in mark.find_iter(&frame) {
            // A number that a frame's end cuts is left out.
            let digits = frame.get(at + MARK.len()..).unwrap_or_default();
            let number = memchr::memchr(b'"', digits).and_then(|end| std::str::from_utf8(digits.get(..end)?).ok());
            if let Some(written) = number.and_then(|number| number.parse().ok()) {
                times.add(present.saturating_sub(Duration::from_nanos(written)));
            }
        }
    }
    Ok((times, watch.cut()))
}
