//! Durable creates of pods.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use bytes::Bytes;
use http::Method;
use serde::Deserialize;

use crate::clock::now;
use crate::cluster::Cluster;
use crate::connection::Connection;
use crate::report::{Better, Figure, Times};
use crate::subject::{Bench, Parts, Subject};

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";

/// How many clients make how many pods, as whom.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Spec {
    clients: usize,
    connections: usize,
    pods: usize,
    #[serde(default, rename = "as")]
    identity: Identity,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Identity {
    /// The administrator, whose certificate names the group with all rights.
    #[default]
    Admin,
    /// A ServiceAccount with a Role that allows this and nothing else, by a bound token.
    Bound,
}

/// Measures.
pub(crate) async fn run(bench: &Bench, subject: Subject, spec: &Spec) -> anyhow::Result<Vec<Figure>> {
    let cluster = bench.start(subject, Parts::Api).await?;
    account(&cluster).await?;
    let token = match spec.identity {
        Identity::Admin => None,
        Identity::Bound => Some(bound_token(&cluster).await?),
    };
    let connections = open(&cluster, spec.connections, token.as_deref()).await?;
    let before = cluster.usage()?;
    let begun = now();
    let times = fill(&connections, spec.clients, spec.pods, &pod).await?;
    let rate = per_second(spec.pods, begun.elapsed());
    let after = cluster.usage()?;
    cluster.stop().await?;
    let mut figures = vec![
        Figure::new("creates", rate, "/s", Better::Higher).over_time(times.rates()),
        Figure::new("median", times.percentile(50), "ms", Better::Lower),
        Figure::new("99th percentile", times.percentile(99), "ms", Better::Lower),
        Figure::new("server processor time per create", after.micros_each(before, spec.pods), "µs", Better::Lower),
        Figure::new("memory per pod", after.kib_each(before, spec.pods), "KiB", Better::Lower),
    ];
    if bench.setting.etcd > 0 {
        let api = after.api_micros_each(before, spec.pods);
        figures.push(Figure::new("of the API server alone, per create", api, "µs", Better::Lower));
    }
    Ok(figures)
}

/// A pod with one container, a probe and resources, as a Deployment would make it.
pub(crate) fn pod(i: usize) -> Bytes {
    pod_with(i, "")
}

/// The same, with more in its spec: members of a JSON object that end with a comma.
pub(crate) fn pod_with(i: usize, more: &str) -> Bytes {
    Bytes::from(format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"load-{i}","labels":{{"app":"load"}}}},"spec":{{{more}"automountServiceAccountToken":false,"containers":[{{"name":"c","image":"registry.k8s.io/pause:3.10","resources":{{"requests":{{"cpu":"10m","memory":"16Mi"}},"limits":{{"cpu":"100m","memory":"64Mi"}}}},"readinessProbe":{{"httpGet":{{"path":"/","port":80}}}}}}]}}}}"#
    ))
}

/// Opens connections, as the administrator or with a token.
pub(crate) async fn open(cluster: &Cluster, count: usize, token: Option<&str>) -> anyhow::Result<Vec<Connection>> {
    futures::future::try_join_all((0..count).map(|_| Connection::open(&cluster.kubeconfig, token))).await
}

/// Makes pods with concurrent clients over some connections; returns every create's time.
pub(crate) async fn fill(
    connections: &[Connection],
    clients: usize,
    count: usize,
    pod: &(dyn Fn(usize) -> Bytes + Sync),
) -> anyhow::Result<Times> {
    fill_with(connections, clients, count, PODS, pod).await
}

/// As [`fill`], with objects of any kind.
pub(crate) async fn fill_with(
    connections: &[Connection],
    clients: usize,
    count: usize,
    path: &str,
    object: &(dyn Fn(usize) -> Bytes + Sync),
) -> anyhow::Result<Times> {
    let next = AtomicUsize::new(0);
    let next = &next;
    let work = connections.iter().cycle().take(clients).cloned().map(|mut connection| async move {
        let mut times = Times::default();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= count {
                return Ok::<_, anyhow::Error>(times);
            }
            let begun = now();
            connection.create(path, object(i)).await?;
            times.add(begun.elapsed());
        }
    });
    Ok(futures::future::try_join_all(work).await?.into_iter().fold(Times::default(), Times::and))
}

/// The account that pods need, made here unless a controller was first.
pub(crate) async fn account(cluster: &Cluster) -> anyhow::Result<()> {
    let body = Bytes::from_static(br#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}"#);
    let mut connection = Connection::open(&cluster.kubeconfig, None).await?;
    let (code, _) = connection.call(Method::POST, ACCOUNTS, body, false).await?;
    anyhow::ensure!(code == 201 || code == 409, "POST {ACCOUNTS}: {code}");
    Ok(())
}

/// Creates an account that may create pods, and returns a token of the account.
async fn bound_token(cluster: &Cluster) -> anyhow::Result<String> {
    let mut admin = Connection::open(&cluster.kubeconfig, None).await?;
    let group = "rbac.authorization.k8s.io";
    let objects = [
        (ACCOUNTS.to_owned(), r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"loader"}}"#.to_owned()),
        (
            format!("{RBAC}/roles"),
            format!(
                r#"{{"apiVersion":"{group}/v1","kind":"Role","metadata":{{"name":"loader"}},"rules":[{{"apiGroups":[""],"resources":["pods"],"verbs":["create"]}}]}}"#
            ),
        ),
        (
            format!("{RBAC}/rolebindings"),
            format!(
                r#"{{"apiVersion":"{group}/v1","kind":"RoleBinding","metadata":{{"name":"loader"}},"roleRef":{{"apiGroup":"{group}","kind":"Role","name":"loader"}},"subjects":[{{"kind":"ServiceAccount","name":"loader","namespace":"default"}}]}}"#
            ),
        ),
    ];
    for (path, body) in objects {
        admin.create(&path, body.into()).await?;
    }
    let ask = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":3600}}"#;
    let answer = admin.send(Method::POST, &format!("{ACCOUNTS}/loader/token"), Bytes::from(ask)).await?;
    let answer: serde_json::Value = serde_json::from_slice(&answer)?;
    answer.pointer("/status/token").and_then(|token| token.as_str()).map(str::to_owned).context("no token")
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub(crate) fn per_second(count: usize, took: std::time::Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}
