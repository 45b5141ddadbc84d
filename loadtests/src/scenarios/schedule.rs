//! A backlog of pods scheduled and bound. The nodes exist only as objects, as in upstream's scheduler_perf.
//!
//! Pods and nodes are made without a scheduler; the time runs from the exec of the server that has one to the last pod's
//! binding, so its start counts too.

use std::time::Duration;

use bytes::Bytes;
use http::Method;

use super::{API_ONLY, create};
use crate::args::Args;
use crate::cluster::{Cluster, now};
use crate::connection::Connection;
use crate::report::Figure;

const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const NODES: &str = "/api/v1/nodes";
const UNBOUND: &str = "/api/v1/namespaces/default/pods?fieldSelector=spec.nodeName%3D&limit=1";

/// Measures.
pub(crate) async fn run(args: Args) -> anyhow::Result<Vec<Figure>> {
    let cluster = Cluster::start(&args, &API_ONLY).await?;
    create::account(&cluster).await?;
    make_nodes(&mut Connection::open(&cluster.kubeconfig()).await?, args.nodes).await?;
    create::fill(&cluster, "sched", args.pods).await?;
    let directory = cluster.stop().await?;
    let begun = now();
    let cluster = Cluster::resume(&args, &["--disable", "controller-manager,kubelet"], directory).await?;
    until_bound(&mut Connection::open(&cluster.kubeconfig()).await?).await?;
    let bound = begun.elapsed();
    let used = cluster.usage()?;
    cluster.stop().await?;
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let cpu = used.cpu * 1e6 / args.pods as f64;
    Ok(vec![
        Figure::new(
            format!("{} nodes: backlog scheduled and bound", args.nodes),
            create::per_second(args.pods, bound),
            "pods/s",
        ),
        Figure::new(format!("{} nodes: processor time of server and scheduler", args.nodes), cpu, "µs/pod"),
    ])
}

/// Makes nodes that are ready and never change. Admission taints a new node until its kubelet reports; here the update
/// after the create takes the taint off.
async fn make_nodes(connection: &mut Connection, count: usize) -> anyhow::Result<()> {
    for i in 0..count {
        let node = Bytes::from(format!(
            r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"node-{i}","labels":{{"kubernetes.io/hostname":"node-{i}","topology.kubernetes.io/zone":"zone-{zone}"}}}},"status":{{"capacity":{RESOURCES},"allocatable":{RESOURCES},"conditions":[{{"type":"Ready","status":"True","reason":"KubeletReady"}}]}}}}"#,
            zone = i % 3,
        ));
        connection.create(NODES, node.clone()).await?;
        let (code, _) = connection.call(Method::PUT, &format!("{NODES}/node-{i}"), node, false).await?;
        anyhow::ensure!(code == 200, "PUT of node-{i}: {code}");
    }
    Ok(())
}

const RESOURCES: &str = r#"{"cpu":"8","memory":"32Gi","pods":"110"}"#;

/// Waits until every pod has a node.
pub(crate) async fn until_bound(connection: &mut Connection) -> anyhow::Result<()> {
    let begun = now();
    while begun.elapsed() < PATIENCE {
        let list: serde_json::Value = serde_json::from_slice(&connection.read(UNBOUND).await?)?;
        if list.get("items").and_then(|i| i.as_array()).is_none_or(Vec::is_empty) {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    anyhow::bail!("some pods were never bound")
}
