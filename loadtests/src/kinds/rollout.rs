//! Measures a Deployment until all its pods are Ready, on the same simulated nodes for every subject.

use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::Method;
use serde::Deserialize;

use super::create;
use crate::clock::now;
use crate::cluster::Cluster;
use crate::connection::Connection;
use crate::report::{Better, Figure};
use crate::subject::{Bench, Parts, Subject};

const ROLLOUT_TIMEOUT: Duration = Duration::from_secs(300);
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Size of a rollout scenario: replicas of the Deployment, and nodes for its pods.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    nodes: usize,
    replicas: usize,
}

/// Measures the rollout against one subject.
pub(crate) async fn run(bench: &Bench, subject: Subject, spec: &Spec) -> anyhow::Result<Vec<Figure>> {
    let cluster = bench.start(subject, Parts::Crew).await?;
    create::account(&cluster).await?;
    let mut kubelets = bench.nodes(&cluster, spec.nodes)?;
    let mut connection = Connection::open(&cluster.kubeconfig, None).await?;
    let took = tokio::time::timeout(ROLLOUT_TIMEOUT, measure(&cluster, &mut connection, spec)).await;
    kubelets.kill().await?;
    let (took, cpu) = took.context("it was not Ready in time")??;
    cluster.stop().await?;
    Ok(vec![
        Figure::new("create to all Ready", took.as_secs_f64(), "s", Better::Lower),
        Figure::new("processor time of all servers per pod", cpu, "µs", Better::Lower),
    ])
}

async fn measure(cluster: &Cluster, connection: &mut Connection, spec: &Spec) -> anyhow::Result<(Duration, f64)> {
    until(connection, "/api/v1/nodes", |nodes| {
        let nodes = nodes.pointer("/items").and_then(|items| items.as_array());
        nodes.is_some_and(|nodes| nodes.iter().filter(|node| is_ready(node)).count() == spec.nodes)
    })
    .await?;
    let before = cluster.usage()?;
    let begun = now();
    let body = format!(
        r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"load"}},"spec":{{"replicas":{},"selector":{{"matchLabels":{{"app":"load"}}}},"template":{{"metadata":{{"labels":{{"app":"load"}}}},"spec":{{"automountServiceAccountToken":false,"containers":[{{"name":"c","image":"registry.k8s.io/pause:3.10"}}]}}}}}}}}"#,
        spec.replicas
    );
    connection.create(DEPLOYMENTS, body.into()).await?;
    until(connection, &format!("{DEPLOYMENTS}/load"), |deployment| {
        deployment.pointer("/status/readyReplicas").and_then(serde_json::Value::as_u64) == Some(spec.replicas as u64)
    })
    .await?;
    Ok((begun.elapsed(), cluster.usage()?.micros_each(before, spec.replicas)))
}

/// Reads a path until a condition holds. The caller bounds the time.
async fn until(
    connection: &mut Connection,
    path: &str,
    done: impl Fn(&serde_json::Value) -> bool,
) -> anyhow::Result<()> {
    while !done(&serde_json::from_slice(&connection.send(Method::GET, path, Bytes::new()).await?)?) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

fn is_ready(node: &serde_json::Value) -> bool {
    let conditions = node.pointer("/status/conditions").and_then(|c| c.as_array());
    let ready = conditions.is_some_and(|c| {
        c.iter().any(|c| c.get("type") == Some(&"Ready".into()) && c.get("status") == Some(&"True".into()))
    });
    ready && node.pointer("/spec/taints").is_none()
}
