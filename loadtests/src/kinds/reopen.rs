//! Measures the reopening of the embedded store after `kill -9`.

use std::path::Path;

use anyhow::ensure;
use bytes::Bytes;
use serde::Deserialize;

use super::create;
use crate::clock::now;
use crate::report::{Better, Figure};
use crate::subject::{Bench, Parts, Subject};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Bytes of one object.
const OBJECT: usize = 100_000;
const CLIENTS: usize = 8;

/// The size of the store then, in units of a million bytes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    megabytes: usize,
}

/// Measures.
pub(crate) async fn run(bench: &Bench, subject: Subject, spec: &Spec) -> anyhow::Result<Vec<Figure>> {
    let cluster = bench.start(subject, Parts::Api).await?;
    let data = "x".repeat(OBJECT);
    let map = move |n: usize| {
        Bytes::from(format!(
            r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"load-{n}"}},"data":{{"x":"{data}"}}}}"#
        ))
    };
    let count = spec.megabytes * 1_000_000 / OBJECT;
    create::fill_with(&create::open(&cluster, CLIENTS, None).await?, CLIENTS, count, MAPS, &map).await?;
    let directory = cluster.leave().await?;
    let file = directory.0.path().join("store/oarlock.redb");
    let size = size(&file)?;
    let begun = now();
    let again = bench.oarlock(Parts::Api, directory).await?;
    let ready = begun.elapsed();
    let mut connection = crate::connection::Connection::open(&again.kubeconfig, None).await?;
    let last = format!("{MAPS}/load-{}", count.saturating_sub(1));
    let (code, _) = connection.call(http::Method::GET, &last, Bytes::new(), false).await?;
    ensure!(code == 200, "{last}: {code} after the kill");
    again.stop().await?;
    Ok(vec![
        Figure::new("ready again", ready.as_secs_f64() * 1000.0, "ms", Better::Lower).aim(1000.0),
        Figure::new("size of the store", size, "MB", Better::Lower),
    ])
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn size(file: &Path) -> anyhow::Result<f64> {
    Ok(std::fs::metadata(file)?.len() as f64 / 1e6)
}
