//! Measures `oarlock snapshot`: a save from a running server, and a restore into a new folder.

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use serde::Deserialize;
use tokio::process::Command;

use super::create;
use crate::clock::now;
use crate::report::{Better, Figure};
use crate::subject::{Bench, Parts, Subject};

/// How many pods there are.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    pods: usize,
}

/// Measures.
pub(crate) async fn run(bench: &Bench, subject: Subject, spec: &Spec) -> anyhow::Result<Vec<Figure>> {
    let cluster = bench.start(subject, Parts::Api).await?;
    create::account(&cluster).await?;
    create::fill(&create::open(&cluster, 8, None).await?, 64, spec.pods, &create::pod).await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("state.snap");
    let kubeconfig = cluster.kubeconfig.as_os_str();
    let save = time(bench, &["save".as_ref(), file.as_os_str(), "--kubeconfig".as_ref(), kubeconfig]).await?;
    cluster.stop().await?;
    let store = format!("embedded:{}", folder.path().join("store").display());
    let restore = time(bench, &["restore".as_ref(), file.as_os_str(), "--store".as_ref(), store.as_ref()]).await?;
    let ms = |took: Duration| took.as_secs_f64() * 1000.0;
    Ok(vec![
        Figure::new("save", ms(save), "ms", Better::Lower),
        Figure::new("restore, read back and compared", ms(restore), "ms", Better::Lower),
        Figure::new("size of the snapshot", size(&file)?, "MB", Better::Lower),
    ])
}

/// How long a command of `oarlock snapshot` takes.
async fn time(bench: &Bench, words: &[&std::ffi::OsStr]) -> anyhow::Result<Duration> {
    let begun = now();
    let output = Command::new(&bench.oarlock).arg("snapshot").args(words).kill_on_drop(true).output().await?;
    ensure!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(begun.elapsed())
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn size(file: &Path) -> anyhow::Result<f64> {
    Ok(std::fs::metadata(file)?.len() as f64 / 1e6)
}
