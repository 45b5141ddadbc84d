//! Measures how long the keys of a lost process wait until the other process of the role handles them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use oarlock_client::{Client, DeleteOptions, Event, ListOptions, PatchType, WriteOptions, decode};
use oarlock_mesh::Scope;
use oarlock_meta::Revision;
use oarlock_schema::Obj;
use oarlock_schema::views::{apps_v1, core_v1};
use rustix::process::Signal;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch;

use super::{create, schedule};
use crate::clock::now;
use crate::crew::{Crew, Role, kind};
use crate::report::{Better, Figure, Times};
use crate::subject::{Bench, Subject};

const NAMESPACE: &str = "default";
/// The time between two changes of one key.
const CHANGE_INTERVAL: Duration = Duration::from_millis(250);
/// What a pod with a node has reached.
const BOUND: i64 = 1;
/// The number of nodes, with room for all pods.
const NODES: usize = 100;
/// The limit until a change of a key is handled; upstream's Leases take 15 s.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);

/// The process that is lost, the way, and the number of losses.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    role: Role,
    lose: Loss,
    processes: usize,
    /// Objects that are worked for all the time.
    keys: usize,
    times: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Loss {
    Kill,
    Sleep,
    Terminate,
}

impl Loss {
    const fn signal(self) -> Signal {
        match self {
            Self::Kill => Signal::KILL,
            Self::Sleep => Signal::STOP,
            Self::Terminate => Signal::TERM,
        }
    }

    /// In milliseconds: of the median, the 99th percentile, the longest.
    const fn aims(self) -> (Option<f64>, Option<f64>, Option<f64>) {
        match self {
            Self::Kill => (Some(1000.0), Some(2000.0), None),
            Self::Sleep => (None, Some(3000.0), None),
            Self::Terminate => (None, None, Some(200.0)),
        }
    }
}

/// The progress of each object, from a watch: the observed generation, or whether a pod has its node.
type Done = watch::Sender<BTreeMap<String, i64>>;

/// Changes a key's object, and waits until the role has handled the change.
struct Work {
    client: Client,
    role: Role,
    done: Done,
    number: AtomicUsize,
    /// The shard of a pod depends on the pod's name.
    shards: Scope,
}

/// Measures.
pub(crate) async fn run(bench: &Bench, subject: Subject, spec: &Spec) -> anyhow::Result<Vec<Figure>> {
    let mut crew = Crew::start(bench, subject, spec.role, spec.processes).await?;
    create::account(crew.cluster()).await?;
    if spec.role == Role::Scheduler {
        schedule::make_nodes(&create::open(crew.cluster(), 1, None).await?, NODES, schedule::ROOM).await?;
    }
    let work = Arc::new(Work {
        client: crew.client.clone(),
        role: spec.role,
        done: Done::new(BTreeMap::new()),
        number: AtomicUsize::new(0),
        shards: Scope::parts("shards"),
    });
    let keys: Vec<String> = (0..spec.keys).map(|number| format!("key-{number}")).collect();
    work.prepare(&keys).await?;
    let times = {
        let load = futures::future::try_join_all(keys.iter().map(|key| work.go_on(key)));
        let losses = lose(&mut crew, &work, &keys, spec);
        tokio::select! {
            biased;
            told = work.follow() => return Err(told.err().context("the watch has ended")?),
            loaded = load => return Err(loaded.err().context("the load has ended")?),
            times = losses => times?,
        }
    };
    crew.stop().await?;
    let lower = |name, value| Figure::new(name, value, "ms", Better::Lower);
    let mut figures = Vec::new();
    // A scheduler that is lost either decided for all, or looked for nodes for some.
    if let (Role::Scheduler, [_, shards]) = (spec.role, times.as_slice()) {
        figures.push(lower("median, where another decided", shards.percentile(50)));
        figures.push(lower("longest, where another decided", shards.percentile(100)));
    }
    let times = times.into_iter().fold(Times::default(), Times::and);
    let (median, most, longest) = spec.lose.aims();
    figures.push(Figure { aim: median, ..lower("median", times.percentile(50)) });
    figures.push(Figure { aim: most, ..lower("99th percentile", times.percentile(99)) });
    figures.push(Figure { aim: longest, ..lower("longest", times.percentile(100)) });
    figures.push(Figure::new("keys that waited", times.count(), "", Better::Neither));
    Ok(figures)
}

/// Loses them one after the other; how long keys waited, by how many others of the processes are needed for more keys than the lost one was.
async fn lose(crew: &mut Crew, work: &Work, keys: &[String], spec: &Spec) -> anyhow::Result<Vec<Times>> {
    let mut times: Vec<Times> = Vec::new();
    for number in 0..spec.times {
        let named: Vec<_> = keys.iter().map(|key| (NAMESPACE.to_owned(), key.clone())).collect();
        let owners = crew.owners(&named).await?;
        let mut needed: BTreeMap<&String, usize> = BTreeMap::new();
        owners.iter().flatten().for_each(|owner| *needed.entry(owner).or_default() += 1);
        let mut ranks: Vec<_> = needed.into_iter().collect();
        ranks.sort_by_key(|(_, keys)| Reverse(*keys));
        // Each rank in its turn: names change with every start.
        let rank = number.checked_rem(ranks.len()).context("nobody works")?;
        let victim = ranks.get(rank).context("nobody works")?.0.clone();
        let begun = now();
        crew.signal(&victim, spec.lose.signal())?;
        let theirs = keys.iter().zip(&owners).filter(|(_, owners)| owners.contains(&victim));
        let waits = theirs.map(async |(key, _)| {
            work.once(key).await?;
            anyhow::Ok(begun.elapsed())
        });
        let waited = futures::future::try_join_all(waits).await?;
        times.resize_with(times.len().max(rank + 1), Times::default);
        times.iter_mut().skip(rank).take(1).for_each(|times| waited.iter().for_each(|took| times.add(*took)));
        crew.restore(&victim, spec.lose == Loss::Sleep).await?;
    }
    Ok(times)
}

impl Work {
    async fn prepare(&self, keys: &[String]) -> anyhow::Result<()> {
        if self.role == Role::Scheduler {
            return Ok(());
        }
        let deployments = kind("apps", "deployments")?;
        for key in keys {
            let object = json!({
                "metadata": {"name": key, "namespace": NAMESPACE},
                "spec": {
                    "replicas": 0,
                    "selector": {"matchLabels": {"app": key}},
                    "template": {
                        "metadata": {"labels": {"app": key}},
                        "spec": {"containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10"}]},
                    },
                },
            });
            self.client.create(deployments, decode(deployments.ty, object.to_string().as_bytes())?).await?;
        }
        Ok(())
    }

    /// Something to do for a key, over and over.
    async fn go_on(&self, key: &str) -> anyhow::Result<()> {
        loop {
            self.once(key).await?;
            tokio::time::sleep(CHANGE_INTERVAL).await;
        }
    }

    async fn once(&self, key: &str) -> anyhow::Result<()> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let (name, level) = match self.role {
            Role::Controllers => (key.to_owned(), self.change(key, number).await?),
            Role::Scheduler => (self.create(key, number).await?, BOUND),
        };
        let mut done = self.done.subscribe();
        let wait = done.wait_for(|done| done.get(&name).is_some_and(|reached| *reached >= level));
        tokio::time::timeout(CHANGE_TIMEOUT, wait).await.with_context(|| format!("{name} is never done"))??;
        drop(done);
        if self.role == Role::Scheduler {
            self.take_away(&name).await?;
        }
        Ok(())
    }

    /// A pod that has its node makes room.
    async fn take_away(&self, name: &str) -> anyhow::Result<()> {
        let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        self.client.delete(kind("", "pods")?, NAMESPACE, name, options).await?;
        Ok(())
    }

    /// Changes a Deployment in a way that makes no pods; its generation.
    async fn change(&self, key: &str, number: usize) -> anyhow::Result<i64> {
        let body = json!({"spec": {"revisionHistoryLimit": number}}).to_string();
        let deployments = kind("apps", "deployments")?;
        let body = (PatchType::Merge, body);
        let changed = self.client.patch(deployments, "", (NAMESPACE, key), body, WriteOptions::default()).await?;
        Ok(changed.obj()?.meta().generation())
    }

    /// Another pod, in the shard of the key; its name.
    async fn create(&self, key: &str, number: usize) -> anyhow::Result<String> {
        let pods = kind("", "pods")?;
        let part = self.shards.part(NAMESPACE, key);
        let mut names = (0_u64..).map(|attempt| format!("{key}-{number}-{attempt}"));
        let name = names.find(|name| self.shards.part(NAMESPACE, name) == part).context("no name")?;
        let object = json!({
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "automountServiceAccountToken": false,
                "containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10"}],
            },
        });
        self.client.create(pods, decode(pods.ty, object.to_string().as_bytes())?).await?;
        Ok(name)
    }

    /// Follows what is done.
    async fn follow(&self) -> anyhow::Result<()> {
        let resource = match self.role {
            Role::Controllers => kind("apps", "deployments")?,
            Role::Scheduler => kind("", "pods")?,
        };
        let list = self.client.list(resource, NAMESPACE, ListOptions::default()).await?;
        for item in &list.items {
            self.see(&item.obj()?);
        }
        let mut position = list.revision;
        loop {
            let options = ListOptions { resource_version: Some(position), ..ListOptions::default() };
            let mut stream = self.client.watch(resource, NAMESPACE, options).await?;
            while let Some(events) = stream.next().await {
                for event in events {
                    position = event.revision().unwrap_or(position);
                    match event {
                        Event::Added(object) | Event::Modified(object) => self.see(&object.obj()?),
                        Event::Error(status) => return Err(status.into()),
                        Event::Deleted(object) => self.forget(object.obj()?.meta().name()),
                        Event::Bookmark { .. } => {}
                    }
                }
            }
            ensure!(position > Revision::ZERO, "the watch says nothing");
        }
    }

    fn forget(&self, name: &str) {
        self.done.send_modify(|done| {
            done.remove(name);
        });
    }

    fn see(&self, object: &Obj) {
        let level = match self.role {
            Role::Controllers => {
                object.view::<apps_v1::Deployment<'_>>().map_or(0, |it| it.status().observed_generation())
            }
            Role::Scheduler => {
                let bound = |pod: &core_v1::Pod<'_>| !pod.spec().node_name().is_empty();
                object.view::<core_v1::Pod<'_>>().filter(bound).map_or(0, |_| BOUND)
            }
        };
        self.done.send_modify(|done| {
            let reached = done.entry(object.meta().name().to_owned()).or_default();
            *reached = level.max(*reached);
        });
    }
}
