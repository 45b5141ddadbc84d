//! Measures appends to the log alone, without an API: the reference for creates over etcd.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, ensure};
use bytes::Bytes;
use oarlock_storage::etcd::{EtcdLog, Options, PREFIX};
use oarlock_storage::{Append, Key, Log, Outcome};
use serde::Deserialize;

use super::create::per_second;
use crate::clock::now;
use crate::report::{Better, Figure, Times};
use crate::subject::{Bench, Subject};

const PODS: &str = "/registry/pods/";

/// How many writers make how many values, of how many bytes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    writers: usize,
    values: usize,
    bytes: usize,
}

/// Measures.
pub(crate) async fn run(bench: &Bench, _: Subject, spec: &Spec) -> anyhow::Result<Vec<Figure>> {
    let members = bench.etcd().await?.context("this measures an etcd, and the scenario has none")?;
    let options = Options {
        endpoints: members.etcd.endpoints(),
        prefix: PREFIX.to_owned(),
        resources: vec![PODS.to_owned()],
        authorities: None,
        identity: None,
        credentials: None,
        dial: None,
    };
    let log = Arc::new(EtcdLog::open(&options).await?);
    let (next, value) = (AtomicUsize::new(0), Bytes::from(vec![b' '; spec.bytes]));
    let write = |_| async {
        let mut times = Times::default();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= spec.values {
                return anyhow::Ok(times);
            }
            let begun = now();
            let key = Key::namespaced(PODS, "default", &format!("load-{n}"));
            let outcome = log.append(Append::create(key, value.clone())).await?;
            ensure!(matches!(outcome, Outcome::Committed(_)), "a create was answered with {outcome:?}");
            times.add(begun.elapsed());
        }
    };
    let begun = now();
    let times = futures::future::try_join_all((0..spec.writers).map(write)).await?;
    let rate = per_second(spec.values, begun.elapsed());
    let times = times.into_iter().fold(Times::default(), Times::and);
    Ok(vec![
        Figure::new("appends", rate, "/s", Better::Higher).over_time(times.rates()),
        Figure::new("append, median", times.percentile(50), "ms", Better::Lower),
        Figure::new("append, 99th percentile", times.percentile(99), "ms", Better::Lower),
    ])
}
