//! Everything at once: pods created, scheduled, bound and run on simulated nodes, by one process.

use std::time::Duration;

use super::{create, schedule};
use crate::args::Args;
use crate::cluster::{Cluster, now};
use crate::connection::Connection;
use crate::report::Figure;

const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Measures.
pub(crate) async fn run(args: Args) -> anyhow::Result<Vec<Figure>> {
    let nodes = args.nodes.to_string();
    let cluster = Cluster::start(&args, &["--nodes", &nodes]).await?;
    let mut connection = Connection::open(&cluster.kubeconfig()).await?;
    until_ready(&mut connection, args.nodes).await?;
    let before = cluster.usage()?;
    let begun = now();
    create::fill(&cluster, "crew", args.pods).await?;
    let created = begun.elapsed();
    schedule::until_bound(&mut connection).await?;
    let bound = begun.elapsed();
    let after = cluster.usage()?;
    cluster.stop().await?;
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let cpu = (after.cpu - before.cpu) * 1e6 / args.pods as f64;
    Ok(vec![
        Figure::new(format!("{} nodes: created", args.nodes), create::per_second(args.pods, created), "pods/s"),
        Figure::new(
            format!("{} nodes: created, scheduled and bound", args.nodes),
            create::per_second(args.pods, bound),
            "pods/s",
        ),
        Figure::new(format!("{} nodes: processor time of everything", args.nodes), cpu, "µs/pod"),
    ])
}

/// Waits until `count` nodes are ready for pods.
async fn until_ready(connection: &mut Connection, count: usize) -> anyhow::Result<()> {
    let begun = now();
    while begun.elapsed() < PATIENCE {
        let nodes: serde_json::Value = serde_json::from_slice(&connection.read("/api/v1/nodes").await?)?;
        let ready = nodes
            .get("items")
            .and_then(|i| i.as_array())
            .map_or(0, |items| items.iter().filter(|n| is_ready(n)).count());
        if ready >= count {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    anyhow::bail!("not all nodes became ready")
}

fn is_ready(node: &serde_json::Value) -> bool {
    let conditions = node.pointer("/status/conditions").and_then(|c| c.as_array());
    let ready = conditions.is_some_and(|c| {
        c.iter().any(|c| c.get("type") == Some(&"Ready".into()) && c.get("status") == Some(&"True".into()))
    });
    ready && node.pointer("/spec/taints").is_none()
}
