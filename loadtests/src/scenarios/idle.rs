//! Memory and CPU of a cluster in which nothing happens.

use std::time::Duration;

use crate::args::Args;
use crate::cluster::Cluster;
use crate::report::Figure;

const SETTLE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_secs(20);

/// Measures.
pub(crate) async fn run(args: Args) -> anyhow::Result<Vec<Figure>> {
    let cluster = Cluster::start(&args, &[]).await?;
    tokio::time::sleep(SETTLE).await;
    let before = cluster.usage()?;
    tokio::time::sleep(LOOK).await;
    let after = cluster.usage()?;
    cluster.stop().await?;
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let rss = after.rss as f64 / f64::from(1 << 20);
    let cpu = (after.cpu - before.cpu) / LOOK.as_secs_f64() * 100.0;
    Ok(vec![Figure::new("resident memory", rss, "MiB"), Figure::new("processor", cpu, "% of a core")])
}
