//! LIST of all pods, plain and gzip.

use http::Method;

use super::{API_ONLY, create};
use crate::args::Args;
use crate::cluster::{Cluster, now};
use crate::connection::Connection;
use crate::report::Figure;

const ROUNDS: usize = 9;

/// Measures.
pub(crate) async fn run(args: Args) -> anyhow::Result<Vec<Figure>> {
    let cluster = Cluster::start(&args, &API_ONLY).await?;
    create::account(&cluster).await?;
    create::fill(&cluster, "list", args.objects).await?;
    let mut connection = Connection::open(&cluster.kubeconfig()).await?;
    let mut figures = Vec::new();
    for gzip in [false, true] {
        let (mut times, mut size) = (Vec::new(), 0);
        let before = cluster.usage()?;
        for _ in 0..ROUNDS {
            let begun = now();
            let (code, length) = connection.call(Method::GET, create::PODS, bytes::Bytes::new(), gzip).await?;
            anyhow::ensure!(code == 200, "list: {code}");
            times.push(begun.elapsed().as_secs_f64() * 1000.0);
            size = length;
        }
        let after = cluster.usage()?;
        times.sort_by(f64::total_cmp);
        let form = if gzip { "gzip" } else { "plain" };
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let (mib, cpu) = (size as f64 / f64::from(1 << 20), (after.cpu - before.cpu) * 1000.0 / ROUNDS as f64);
        figures.push(Figure::new(
            format!("{} pods, {form}, median", args.objects),
            create::percentile(&times, 50),
            "ms",
        ));
        figures.push(Figure::new(format!("{} pods, {form}, on the wire", args.objects), mib, "MiB"));
        figures.push(Figure::new(format!("{} pods, {form}, server processor time", args.objects), cpu, "ms"));
    }
    cluster.stop().await?;
    Ok(figures)
}
