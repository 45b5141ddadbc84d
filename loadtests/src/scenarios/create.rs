//! Durable creates of pods: one client in sequence, then 64 over 8 connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use super::API_ONLY;
use crate::args::Args;
use crate::cluster::{Cluster, now};
use crate::connection::Connection;
use crate::report::Figure;

const CLIENTS: usize = 64;
const CONNECTIONS: usize = 8;
const SEQUENTIAL: usize = 2_000;
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// A pod with one container, a probe and resources, as a Deployment would make it.
pub(crate) fn pod(name: &str) -> Bytes {
    Bytes::from(format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","labels":{{"app":"load"}}}},"spec":{{"automountServiceAccountToken":false,"containers":[{{"name":"c","image":"registry.k8s.io/pause:3.10","resources":{{"requests":{{"cpu":"10m","memory":"16Mi"}},"limits":{{"cpu":"100m","memory":"64Mi"}}}},"readinessProbe":{{"httpGet":{{"path":"/","port":80}}}}}}]}}}}"#
    ))
}

/// Makes `count` pods with 64 clients over 8 connections; returns every create's time in milliseconds, sorted.
pub(crate) async fn fill(cluster: &Cluster, prefix: &'static str, count: usize) -> anyhow::Result<Vec<f64>> {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(Connection::open(&cluster.kubeconfig()).await?);
    }
    let next = Arc::new(AtomicUsize::new(0));
    let clients = (0..CLIENTS).map(|i| {
        let connection = connections.get(i % CONNECTIONS).cloned();
        let next = Arc::clone(&next);
        async move {
            let Some(mut connection) = connection else { return Ok(Vec::new()) };
            let mut times = Vec::new();
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= count {
                    return Ok::<_, anyhow::Error>(times);
                }
                let begun = now();
                connection.create(PODS, pod(&format!("{prefix}-{i}"))).await?;
                times.push(begun.elapsed().as_secs_f64() * 1000.0);
            }
        }
    });
    let mut times: Vec<f64> = futures::future::try_join_all(clients).await?.concat();
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// The account that pods need, made here when no controller does.
pub(crate) async fn account(cluster: &Cluster) -> anyhow::Result<()> {
    let mut connection = Connection::open(&cluster.kubeconfig()).await?;
    let body = Bytes::from_static(br#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}"#);
    connection.create("/api/v1/namespaces/default/serviceaccounts", body).await
}

/// Measures.
pub(crate) async fn run(args: Args) -> anyhow::Result<Vec<Figure>> {
    let cluster = Cluster::start(&args, &API_ONLY).await?;
    account(&cluster).await?;
    let mut one = Connection::open(&cluster.kubeconfig()).await?;
    let sequential = SEQUENTIAL.min(args.objects);
    let mut times = Vec::with_capacity(sequential);
    let begun = now();
    for i in 0..sequential {
        let started = now();
        one.create(PODS, pod(&format!("one-{i}"))).await?;
        times.push(started.elapsed().as_secs_f64() * 1000.0);
    }
    let rate_one = per_second(sequential, begun.elapsed());
    times.sort_by(f64::total_cmp);
    let before = cluster.usage()?;
    let begun = now();
    let many = fill(&cluster, "many", args.objects).await?;
    let rate_many = per_second(args.objects, begun.elapsed());
    let after = cluster.usage()?;
    cluster.stop().await?;
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let (cpu, memory) = (
        (after.cpu - before.cpu) * 1e6 / args.objects as f64,
        after.rss.saturating_sub(before.rss) as f64 / args.objects as f64 / 1024.0,
    );
    Ok(vec![
        Figure::new("1 client", rate_one, "creates/s"),
        Figure::new("1 client, median", percentile(&times, 50), "ms"),
        Figure::new("1 client, 99th percentile", percentile(&times, 99), "ms"),
        Figure::new("64 clients on 8 connections", rate_many, "creates/s"),
        Figure::new("64 clients, median", percentile(&many, 50), "ms"),
        Figure::new("64 clients, 99th percentile", percentile(&many, 99), "ms"),
        Figure::new("server processor time per create", cpu, "µs"),
        Figure::new("memory per pod", memory, "KiB"),
    ])
}

pub(crate) fn per_second(count: usize, took: std::time::Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let count = count as f64;
    count / took.as_secs_f64()
}

pub(crate) fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}
