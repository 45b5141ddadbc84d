//! Measures pods created, scheduled and bound by a running scheduler. The nodes exist only as objects, as in upstream's scheduler_perf.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::Method;
use serde::Deserialize;

use super::create;
use crate::clock::now;
use crate::cluster::Cluster;
use crate::connection::Connection;
use crate::following::Following;
use crate::report::{Better, Figure};
use crate::subject::{Bench, Parts, Subject};

const BOUND_TIMEOUT: Duration = Duration::from_secs(300);
const NODES: &str = "/api/v1/nodes";
/// A watch that delivers a pod as added when the pod gets its node.
const BOUND: &str = "/api/v1/namespaces/default/pods?watch=1&fieldSelector=spec.nodeName%21%3D&timeoutSeconds=600";
const ADDED: &[u8] = br#""ADDED""#;
const CLIENTS: usize = 64;
pub(crate) const CONNECTIONS: usize = 8;
/// Pods that a node takes, as upstream's.
pub(crate) const ROOM: usize = 110;

/// How many pods of which shape on how many nodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    nodes: usize,
    pods: usize,
    shape: Shape,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Shape {
    Basic,
    Spread,
    Affinity,
    AntiAffinity,
}

impl Shape {
    /// What the pods' spec has for it.
    fn constraint(self) -> String {
        let term = |kind: &str, key: &str| {
            format!(
                r#""affinity":{{"{kind}":{{"requiredDuringSchedulingIgnoredDuringExecution":[{{"topologyKey":"{key}","labelSelector":{{"matchLabels":{{"app":"load"}}}}}}]}}}},"#
            )
        };
        match self {
            Self::Basic => String::new(),
            Self::Spread => r#""topologySpreadConstraints":[{"maxSkew":5,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"DoNotSchedule","labelSelector":{"matchLabels":{"app":"load"}}}],"#.to_owned(),
            Self::Affinity => term("podAffinity", "topology.kubernetes.io/zone"),
            Self::AntiAffinity => term("podAntiAffinity", "kubernetes.io/hostname"),
        }
    }
}

/// Measures.
pub(crate) async fn run(bench: &Bench, subject: Subject, spec: &Spec) -> anyhow::Result<Vec<Figure>> {
    let cluster = bench.start(subject, Parts::Scheduler).await?;
    create::account(&cluster).await?;
    let connections = create::open(&cluster, CONNECTIONS, None).await?;
    make_nodes(&connections, spec.nodes, ROOM).await?;
    known(&cluster, &connections, spec.nodes).await?;
    let before = cluster.usage()?;
    let took = bind(&cluster, &connections, spec.pods, &spec.shape.constraint()).await?;
    let after = cluster.usage()?;
    cluster.stop().await?;
    Ok(vec![
        Figure::new("pods bound", create::per_second(spec.pods, took), "/s", Better::Higher),
        Figure::new("processor time of all servers per pod", after.micros_each(before, spec.pods), "µs", Better::Lower),
    ])
}

/// Creates pods with this spec, and returns the time until all are bound.
///
/// # Errors
/// When some never are.
pub(crate) async fn bind(
    cluster: &Cluster,
    connections: &[Connection],
    count: usize,
    constraint: &str,
) -> anyhow::Result<Duration> {
    bind_more(&mut bound(cluster).await?, connections, 0..count, constraint).await
}

/// Follows which pods get a node.
pub(crate) async fn bound(cluster: &Cluster) -> anyhow::Result<Following> {
    Following::open(Connection::open(&cluster.kubeconfig, None).await?, BOUND.to_owned(), String::new()).await
}

/// Like [`bind`], for the pods with these numbers.
pub(crate) async fn bind_more(
    bound: &mut Following,
    connections: &[Connection],
    numbers: Range<usize>,
    constraint: &str,
) -> anyhow::Result<Duration> {
    let pod = |i| create::pod_with(numbers.start + i, constraint);
    let begun = now();
    let wait = async {
        let added = memchr::memmem::Finder::new(ADDED);
        let mut seen = 0;
        while seen < numbers.len() {
            let frame = bound.next().await?;
            seen += added.find_iter(&frame).count();
        }
        Ok(begun.elapsed())
    };
    let work = futures::future::try_join(create::fill(connections, CLIENTS, numbers.len(), &pod), wait);
    let (_, took) = tokio::time::timeout(BOUND_TIMEOUT, work).await.context("some pods were never bound")??;
    Ok(took)
}

/// Waits until the scheduler knows the nodes, so that reading them is not measured: a pod that fits only the last node is bound, and deleted.
///
/// # Errors
/// When the pod is never bound.
pub(crate) async fn known(cluster: &Cluster, connections: &[Connection], nodes: usize) -> anyhow::Result<()> {
    let last = nodes.saturating_sub(1);
    bind(cluster, connections, 1, &format!(r#""nodeSelector":{{"kubernetes.io/hostname":"node-{last}"}},"#)).await?;
    let mut connection = connections.first().context("no connection")?.clone();
    let path = format!("{}/load-0?gracePeriodSeconds=0", create::PODS);
    let (code, _) = connection.call(Method::DELETE, &path, Bytes::new(), false).await?;
    ensure!(code == 200, "DELETE of load-0: {code}");
    Ok(())
}

/// Makes nodes that are ready and never change. Admission taints a new node until its kubelet reports; here the update after the create
/// takes the taint off. Each has room for so many pods.
pub(crate) async fn make_nodes(connections: &[Connection], count: usize, room: usize) -> anyhow::Result<()> {
    let resources = format!(r#"{{"cpu":"64","memory":"256Gi","pods":"{room}"}}"#);
    let resources = &resources;
    let work = connections.iter().cycle().take(CLIENTS).cloned().enumerate().map(|(first, mut connection)| async move {
        for i in (first..count).step_by(CLIENTS) {
            let node = Bytes::from(format!(
                r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"node-{i}","labels":{{"kubernetes.io/hostname":"node-{i}","topology.kubernetes.io/zone":"zone-{zone}"}}}},"status":{{"capacity":{resources},"allocatable":{resources},"conditions":[{{"type":"Ready","status":"True","reason":"KubeletReady"}}]}}}}"#,
                zone = i % 3,
            ));
            connection.create(NODES, node.clone()).await?;
            let (code, _) = connection.call(Method::PUT, &format!("{NODES}/node-{i}"), node, false).await?;
            ensure!(code == 200, "PUT of node-{i}: {code}");
        }
        Ok(())
    });
    futures::future::try_join_all(work).await.map(drop)
}
