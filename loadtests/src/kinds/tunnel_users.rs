//! Measures whether users' streams through a tunnel slow the control plane down: heartbeats of kubelets and writes, alone and beside streams at full speed.
//!
//! The tunnel's programs are held to a share of a processor, as if they had hosts of their own. The streams then saturate the users' way and leave the machine, which the API server and
//! this program use as well, room for everything else.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use tempfile::NamedTempFile;

use super::tunnel::destinations::Destinations;
use super::tunnel::programs::{Maker, Running, Way};
use super::tunnel::traffic;
use crate::clock::now;
use crate::cluster::Cluster;
use crate::connection::Connection;
use crate::report::{Better, Figure, Times};
use crate::subject::{Bench, Parts, Subject};

const CORE: &str = "/api/v1/namespaces/default";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
/// The control plane's requests come with a pause.
const REQUEST_INTERVAL: Duration = Duration::from_millis(5);
/// The time of the streams before anything is measured beside them.
const WARM_UP: Duration = Duration::from_secs(3);
/// The pause before a condition is checked again.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The longest time until the pod runs.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest time of either half.
const HALF_TIMEOUT: Duration = Duration::from_secs(600);
/// The control plane may be this many times slower beside the streams.
const AIM: f64 = 1.1;

/// How many streams on how many connections, how many lines each reads at a time, how often the control plane is measured, and the share of a processor of each of
/// the tunnel's programs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    streams: usize,
    connections: usize,
    lines: usize,
    samples: usize,
    share: Option<f64>,
}

/// Measures.
pub(crate) async fn run(bench: &Bench, subject: Subject, spec: &Spec) -> anyhow::Result<Vec<Figure>> {
    traffic::allow_sockets()?;
    let destinations = Destinations::start().await?;
    let running = Running::start(&Maker::Oarlock(bench.oarlock.clone()), Way::Grpc, &destinations).await?;
    let _shares = spec.share.map(|share| running.bound(share)).transpose()?;
    let egress = NamedTempFile::new()?;
    let content = format!(
        "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n- name: cluster\n  connection:\n    proxyProtocol: GRPC\n    transport: {{uds: {{udsName: {}}}}}\n",
        running.socket().display()
    );
    std::fs::write(egress.path(), content)?;
    let path = egress.path().to_str().context("the temporary folder has no name in UTF-8")?;
    let cluster = bench.with(&["--egress-selector-config-file", path]).start(subject, Parts::Crew).await?;
    let _nodes = bench.nodes(&cluster, 1)?;
    tokio::time::timeout(START_TIMEOUT, pod(&cluster, spec.lines)).await.context("the pod does not run")??;

    // The first round warms up caches.
    measure(&cluster, "warm-up", spec.samples / 10).await?;
    let alone = measure(&cluster, "alone", spec.samples).await?;
    let (ends, bytes) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut connections = Vec::new();
    for _ in 0..spec.connections {
        connections.push(Connection::open(&cluster.kubeconfig, None).await?);
    }
    let streams = connections.iter().cycle().take(spec.streams).cloned();
    let streams = futures::future::try_join_all(streams.map(|connection| read(connection, &ends, &bytes)));
    let measured = async {
        tokio::time::sleep(WARM_UP).await;
        let (before, begun) = (bytes.load(Ordering::Relaxed), now());
        let beside = measure(&cluster, "beside", spec.samples).await;
        let carried = (bytes.load(Ordering::Relaxed) - before, begun.elapsed());
        ends.store(true, Ordering::Relaxed);
        anyhow::Ok((beside?, carried))
    };
    let both = futures::future::try_join(measured, streams);
    let ((beside, (carried, took)), _) =
        tokio::time::timeout(HALF_TIMEOUT, both).await.context("not done in time")??;
    cluster.usage().context("a server has ended")?;
    cluster.stop().await?;
    running.stop().await?;
    ensure!(carried > 0, "the streams carry nothing");

    let mut figures = Vec::new();
    for (what, before, after) in
        [("heartbeats", &alone.heartbeats, &beside.heartbeats), ("writes", &alone.writes, &beside.writes)]
    {
        for (name, percent) in [("median", 50), ("99th percentile", 99)] {
            let (before, after) = (before.percentile(percent), after.percentile(percent));
            figures.push(Figure::new(format!("{what}, {name}, alone"), before, "ms", Better::Lower));
            figures.push(Figure::new(format!("{what}, {name}, beside"), after, "ms", Better::Lower));
            figures.push(Figure::new(format!("{what}, {name}, ratio"), after / before, "×", Better::Lower).aim(AIM));
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let rate = carried as f64 / f64::from(1 << 20) / took.as_secs_f64();
    figures.push(Figure::new("logs through the tunnel", rate, "MiB/s", Better::Higher));
    Ok(figures)
}

/// Creates a pod with so many lines of logs, and waits until it runs.
async fn pod(cluster: &Cluster, lines: usize) -> anyhow::Result<()> {
    let mut admin = Connection::open(&cluster.kubeconfig, None).await?;
    let pod = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"web","annotations":{{"sim.oarlock.dev/log-lines":"{lines}"}}}},"spec":{{"containers":[{{"name":"main","image":"nginx:1"}}]}}}}"#
    );
    // Refused until the controllers have made the account of the namespace.
    while admin.call(Method::POST, &format!("{CORE}/pods"), pod.clone().into(), false).await?.0 != 201 {
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
    loop {
        let pod = admin.send(Method::GET, &format!("{CORE}/pods/web"), Bytes::new()).await?;
        let pod: serde_json::Value = serde_json::from_slice(&pod)?;
        if pod.pointer("/status/phase").is_some_and(|phase| phase == "Running") {
            return Ok(());
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

/// Reads the log again and again until the streams end.
async fn read(mut connection: Connection, ends: &AtomicBool, bytes: &AtomicU64) -> anyhow::Result<()> {
    while !ends.load(Ordering::Relaxed) {
        let mut log = connection.stream(&format!("{CORE}/pods/web/log")).await?;
        while let Some(part) = log.next().await? {
            bytes.fetch_add(u64::try_from(part.len()).unwrap_or_default(), Ordering::Relaxed);
            if ends.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    Ok(())
}

/// The durations of heartbeats and writes.
struct Measured {
    heartbeats: Times,
    writes: Times,
}

/// Renews a Lease as a kubelet does, and creates a ConfigMap, so many times.
async fn measure(cluster: &Cluster, name: &str, samples: usize) -> anyhow::Result<Measured> {
    let mut connection = Connection::open(&cluster.kubeconfig, None).await?;
    let mut measured = Measured { heartbeats: Times::default(), writes: Times::default() };
    let lease = format!(
        r#"{{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{{"name":"{name}"}},"spec":{{"holderIdentity":"{name}"}}}}"#
    );
    connection.create(LEASES, lease.into()).await?;
    for n in 0..samples {
        let renewal = format!(r#"{{"spec":{{"leaseTransitions":{n}}}}}"#);
        let begun = now();
        connection.send(Method::PATCH, &format!("{LEASES}/{name}"), renewal.into()).await?;
        measured.heartbeats.add(begun.elapsed());
        tokio::time::sleep(REQUEST_INTERVAL).await;
        let map = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}-{n}"}},"data":{{"a":"b"}}}}"#
        );
        let begun = now();
        connection.create(&format!("{CORE}/configmaps"), map.into()).await?;
        measured.writes.add(begun.elapsed());
        tokio::time::sleep(REQUEST_INTERVAL).await;
    }
    Ok(measured)
}
