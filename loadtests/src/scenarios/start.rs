//! From exec to readyz, fresh and with state.

use crate::args::Args;
use crate::cluster::Cluster;
use crate::report::Figure;

const ROUNDS: usize = 7;

/// Measures.
pub(crate) async fn run(args: Args) -> anyhow::Result<Vec<Figure>> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let cluster = Cluster::start(&args, &[]).await?;
        times.push(cluster.ready.as_secs_f64() * 1000.0);
        cluster.stop().await?;
    }
    times.sort_by(f64::total_cmp);
    let median = times.get(ROUNDS / 2).copied().unwrap_or_default();
    let worst = times.last().copied().unwrap_or_default();
    Ok(vec![
        Figure::new("exec to everything started, median", median, "ms"),
        Figure::new("exec to everything started, worst", worst, "ms"),
    ])
}
