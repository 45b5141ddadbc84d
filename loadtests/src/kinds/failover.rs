//! What clients of several API servers see when one of the servers, or the leader of etcd, is killed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use oarlock_client::{Client, Event, ListOptions};
use oarlock_meta::Revision;
use oarlock_schema::{Obj, Resource, resource};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::watch;

use crate::clock::now;
use crate::replicated::Replicated;
use crate::report::{Better, Figure};
use crate::subject::{Bench, Subject};

/// Watchers that share a client, and so its connections.
const SHARE: usize = 10;
/// Writes before the kill.
const BEFORE: usize = 300;
/// Writes of each writer that wait for an answer.
const OPEN: usize = 500;
/// The time between two attempts of a client that was refused.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
const RUN_TIMEOUT: Duration = Duration::from_secs(180);

/// The server that is killed, and the load.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    kill: Victim,
    servers: usize,
    watchers: usize,
    /// Clients that write, and how many writes all of them begin in a second.
    writers: u32,
    writes: u32,
    /// Each lists a few objects, again and again.
    readers: usize,
    /// How long the load continues after the kill.
    seconds: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Victim {
    ApiServer,
    EtcdLeader,
}

/// What clients have seen.
#[derive(Default)]
struct Observed {
    /// When writes were acknowledged.
    written: Mutex<Vec<Instant>>,
    calls: AtomicUsize,
    failed: AtomicUsize,
    /// Failed writes that may have been done.
    unknown: AtomicUsize,
    /// Watches that broke and went on.
    broken: AtomicUsize,
    /// Watches whose history was compacted, so that their clients had to list again.
    listed: AtomicUsize,
}

fn add(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn read(counter: &AtomicUsize) -> f64 {
    counter.load(Ordering::Relaxed) as f64
}

/// Measures.
pub(crate) async fn run(bench: &Bench, subject: Subject, spec: &Spec) -> anyhow::Result<Vec<Figure>> {
    let servers = Replicated::start(bench, subject, spec.servers).await?;
    let clients = |count: usize| (0..count).map(|_| servers.client()).collect::<anyhow::Result<Vec<_>>>();
    let (maps, seen, (enough, over)) = (maps()?, Observed::default(), watch::channel(false));
    let begin = servers.client()?.list(maps, "default", ListOptions::default()).await?.revision;
    let every = Duration::from_secs(1) * spec.writers / spec.writes;
    let writers = clients(spec.writers as usize)?.into_iter().enumerate();
    let writers = writers.map(|(number, client)| write(client, maps, number, every, &seen, over.clone()));
    let readers = clients(spec.readers)?.into_iter().map(|client| look(client, maps, &seen, over.clone()));
    let sharers = clients(spec.watchers.div_ceil(SHARE))?;
    let watchers = sharers.iter().cycle().take(spec.watchers).cloned();
    let watchers = watchers.map(|client| follow(client, maps, begin, &seen, over.clone()));
    let kill = async {
        while seen.written.lock().len() < BEFORE {
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
        let victim = match spec.kill {
            Victim::ApiServer => servers.server()?,
            Victim::EtcdLeader => servers.leader().await?,
        };
        let killed = now();
        victim.kill()?;
        tokio::time::sleep(Duration::from_secs(spec.seconds)).await;
        // Err: nobody watches any more.
        let _ = enough.send(true);
        anyhow::Ok((killed, now()))
    };
    let (writers, readers) = (futures::future::try_join_all(writers), futures::future::try_join_all(readers));
    let all = futures::future::try_join4(kill, writers, readers, futures::future::try_join_all(watchers));
    let ((killed, end), _, _, told) = tokio::time::timeout(RUN_TIMEOUT, all).await.context("it does not go on")??;
    servers.stop().await?;
    let told = told.into_iter().map(|moments| longest(killed, end, moments)).max().unwrap_or_default();
    let written = longest(killed, end, seen.written.into_inner());
    // Without a mark nothing was shown.
    ensure!(spec.kill == Victim::EtcdLeader || read(&seen.broken) > 0.0, "no watch was broken");
    let ms = |gap: Duration| gap.as_secs_f64() * 1000.0;
    Ok(vec![
        Figure::new("longest gap in any watcher", ms(told), "ms", Better::Lower),
        Figure::new("longest write gap", ms(written), "ms", Better::Lower),
        Figure::new("failed requests after retry", read(&seen.failed), "", Better::Lower),
        Figure::new("of these, writes of unknown outcome", read(&seen.unknown), "", Better::Lower),
        Figure::new("requests", read(&seen.calls), "", Better::Higher),
        Figure::new("watches broken", read(&seen.broken), "", Better::Neither),
        Figure::new("watches that listed again", read(&seen.listed), "", Better::Lower),
    ])
}

fn maps() -> anyhow::Result<&'static Resource> {
    resource("", "v1", "configmaps").context("no ConfigMaps")
}

fn map(maps: &'static Resource, name: &str) -> anyhow::Result<Obj> {
    let text = format!(r#"{{"metadata":{{"name":"{name}","namespace":"default"}}}}"#);
    Ok(oarlock_client::decode(maps.ty, text.as_bytes())?)
}

/// Creates objects at a steady rate, however long others take. A loop that waited for each answer would stop with the server.
async fn write(
    client: Client,
    maps: &'static Resource,
    number: usize,
    every: Duration,
    seen: &Observed,
    mut over: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let (client, mut open) = (&client, FuturesUnordered::new());
    let mut due = tokio::time::interval(every);
    let mut name = (0_u64..).map(|n| map(maps, &format!("w{number}-{n}")));
    loop {
        tokio::select! {
            biased;
            // Err: the run is over too.
            _ = over.wait_for(|over| *over) => return Ok(()),
            Some(()) = open.next() => {}
            _ = due.tick(), if open.len() < OPEN => {
                if let Some(object) = name.next() {
                    open.push(create(client, maps, object?, seen));
                }
            }
        }
    }
}

/// A write of unknown outcome is left alone.
async fn create(client: &Client, maps: &'static Resource, object: Obj, seen: &Observed) {
    add(&seen.calls);
    match client.create(maps, object).await {
        Ok(_) => seen.written.lock().push(now()),
        Err(status) => {
            add(&seen.failed);
            // Upstream says 500 where its etcd did not answer in time.
            if status.code == 504 || status.code == 500 {
                add(&seen.unknown);
            }
        }
    }
}

/// Lists the first objects again and again, once there are some.
async fn look(
    client: Client,
    maps: &'static Resource,
    seen: &Observed,
    over: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    while !*over.borrow() {
        if seen.written.lock().is_empty() {
            tokio::time::sleep(RETRY_INTERVAL).await;
            continue;
        }
        add(&seen.calls);
        if client.list(maps, "default", ListOptions { limit: 5, ..ListOptions::default() }).await.is_err() {
            add(&seen.failed);
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }
    Ok(())
}

/// Watches through breaks, and returns the times at which events arrived.
async fn follow(
    client: Client,
    maps: &'static Resource,
    begin: Revision,
    seen: &Observed,
    mut over: watch::Receiver<bool>,
) -> anyhow::Result<Vec<Instant>> {
    let (mut position, mut told) = (begin, Vec::new());
    while !*over.borrow() {
        let options = ListOptions { resource_version: Some(position), allow_bookmarks: true, ..ListOptions::default() };
        add(&seen.calls);
        let mut stream = match client.watch(maps, "default", options).await {
            Ok(stream) => stream,
            Err(status) if status.code == 410 => {
                add(&seen.listed);
                position = client.list(maps, "default", ListOptions::default()).await?.revision;
                continue;
            }
            Err(_) => {
                add(&seen.failed);
                tokio::time::sleep(RETRY_INTERVAL).await;
                continue;
            }
        };
        loop {
            let events = tokio::select! {
                biased;
                // Err: the run is over too.
                _ = over.wait_for(|over| *over) => return Ok(told),
                events = stream.next() => events,
            };
            let Some(events) = events else { break };
            told.push(now());
            for event in events {
                match event {
                    Event::Error(status) if status.code == 410 => position = Revision::ZERO,
                    Event::Error(_) => {}
                    event => position = event.revision().unwrap_or(position),
                }
            }
        }
        if position == Revision::ZERO {
            add(&seen.listed);
            position = client.list(maps, "default", ListOptions::default()).await?.revision;
        }
        add(&seen.broken);
    }
    Ok(told)
}

/// The longest time without any of these moments.
fn longest(from: Instant, to: Instant, mut moments: Vec<Instant>) -> Duration {
    moments.retain(|at| (from..to).contains(at));
    moments.extend([from, to]);
    moments.sort_unstable();
    let gaps = moments.iter().zip(moments.iter().skip(1)).map(|(before, after)| *after - *before);
    gaps.max().unwrap_or_default()
}
