//! Two processes of a role that share the work, of which one is stopped or killed repeatedly.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use oarlock_client::https::TokioSpawn;
use oarlock_client::{Client, Endpoint, Https, ListOptions};
use oarlock_config::Kubeconfig;
use oarlock_mesh::Scope;
use oarlock_meta::{LabelSelector, MicroTime};
use oarlock_schema::views::{coordination_v1, oarlock_v1};
use oarlock_schema::{Resource, resource};
use oarlock_testkit::nats::Nats;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::process::{Child, Command};

use crate::cluster::{Cluster, Usage};
use crate::subject::{Bench, Parts, Subject, upstream};

/// The time between two checks of a condition.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Ours: units that have just come are not moved again for a while, so a run waits that long between two losses.
const SETTLED: Duration = Duration::from_secs(11);
/// Upstream's stand-by has begun to stand by.
const STANDS_BY: Duration = Duration::from_secs(5);
const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);

/// What is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    Controllers,
    Scheduler,
}

impl Role {
    /// The program's name, which is the same for ours and upstream's.
    const fn program(self) -> &'static str {
        match self {
            Self::Controllers => "controller-manager",
            Self::Scheduler => "scheduler",
        }
    }

    /// How our members' Leases are labelled.
    const fn label(self) -> &'static str {
        match self {
            Self::Controllers => "controllers",
            Self::Scheduler => "scheduler",
        }
    }
}

/// A process of the crew.
struct Member {
    child: Child,
    /// The process's identity; upstream's stand-by reports none.
    name: Option<String>,
}

/// An API server, and the processes of one role.
pub(crate) struct Crew {
    subject: Subject,
    role: Role,
    cluster: Cluster,
    /// The administrator's.
    pub(crate) client: Client,
    command: Vec<String>,
    members: Vec<Member>,
    /// The bus between our processes.
    nats: Option<Nats>,
}

impl Crew {
    /// Starts everything, `count` processes of the role.
    ///
    /// # Errors
    /// When something does not start.
    pub(crate) async fn start(bench: &Bench, subject: Subject, role: Role, count: usize) -> anyhow::Result<Self> {
        let (cluster, command, nats) = match subject {
            Subject::Oarlock => {
                let nats = tokio::task::spawn_blocking(|| Nats::start("")).await?.map_err(anyhow::Error::msg)?;
                let cluster = bench.with(&["--nats-servers", &nats.url()]).start(subject, Parts::Api).await?;
                let kubeconfig = oarlock_config::DataDir::new(cluster.folder()).component_kubeconfig(role.program());
                let command = [
                    &bench.oarlock.display().to_string(),
                    role.program(),
                    "--kubeconfig",
                    &kubeconfig.display().to_string(),
                    "--secure-port",
                    "0",
                    "--log",
                    "warn",
                    "--nats-servers",
                    &nats.url(),
                ];
                let command = command.into_iter().map(str::to_owned).collect();
                (cluster, command, Some(nats))
            }
            Subject::Upstream => {
                let program = format!("kube-{}", role.program());
                let (cluster, said) = upstream(Parts::Api, 1, 1, Some(&program)).await?;
                let command = said.pointer(&format!("/commands/{program}")).context("no command")?;
                (cluster, serde_json::from_value(command.clone())?, None)
            }
        };
        let admin = Kubeconfig::read(&cluster.kubeconfig)?.resolve(None)?;
        let client =
            Client::new(Arc::new(Https::new(Endpoint::new(&admin, "oarlock-loadtests")?, Arc::new(TokioSpawn))?));
        let mut crew = Self { subject, role, cluster, client, command, members: Vec::new(), nats };
        for _ in 0..count {
            crew.join().await?;
        }
        crew.settle().await?;
        Ok(crew)
    }

    /// Where state and keys are.
    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// What the servers have used so far, and what the members.
    ///
    /// # Errors
    /// When one has ended.
    pub(crate) fn usage(&self) -> anyhow::Result<(Usage, Usage)> {
        let mut servers = self.cluster.usage()?;
        if let Some(nats) = self.nats.as_ref().and_then(Nats::id) {
            servers.cpu += Usage::of(nats)?.cpu;
        }
        let mut members = Usage::default();
        for member in &self.members {
            let used = Usage::of(member.child.id().context("a member has ended")?)?;
            members.cpu += used.cpu;
            members.rss += used.rss;
        }
        Ok((servers, members))
    }

    /// What actors of a kind tell of themselves, in all processes.
    ///
    /// # Errors
    /// When the API is unreachable, or a process reports something unexpected.
    pub(crate) async fn told<T: DeserializeOwned>(&self, actor: &str) -> anyhow::Result<Vec<T>> {
        let actors = self.client.list(kind("oarlock.dev", "actors")?, "", ListOptions::default()).await?;
        let mut told = Vec::new();
        for object in &actors.items {
            let obj = object.obj()?;
            let Some(status) = obj.view::<oarlock_v1::Actor<'_>>().map(|actor| actor.status()) else { continue };
            if status.actor_kind() == actor {
                told.push(serde_json::from_str(status.state())?);
            }
        }
        Ok(told)
    }

    /// Another process joins.
    async fn join(&mut self) -> anyhow::Result<()> {
        let known = self.names().await?;
        let mut words = self.command.iter();
        let mut command = Command::new(words.next().context("no program")?);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let name = match self.subject {
            Subject::Upstream if !known.is_empty() => {
                tokio::time::sleep(STANDS_BY).await;
                None
            }
            _ => Some(until("it joins", async || Ok(self.names().await?.difference(&known).next().cloned())).await?),
        };
        ensure!(child.try_wait()?.is_none(), "{} has ended", self.command.join(" "));
        self.members.push(Member { child, name });
        Ok(())
    }

    /// Ours: all members. Upstream's: the leader.
    async fn names(&self) -> anyhow::Result<BTreeSet<String>> {
        let leases = kind("coordination.k8s.io", "leases")?;
        if self.subject == Subject::Upstream {
            let lease = self.client.find(leases, "kube-system", &format!("kube-{}", self.role.program())).await?;
            let Some(lease) = lease else { return Ok(BTreeSet::new()) };
            let lease = lease.obj()?;
            let holder = lease.view::<coordination_v1::Lease<'_>>().and_then(|lease| lease.spec().holder_identity());
            return Ok(holder.filter(|holder| !holder.is_empty()).map(str::to_owned).into_iter().collect());
        }
        let label_selector = LabelSelector::from_labels([("oarlock.dev/role", self.role.label())]);
        let options = ListOptions { label_selector, ..ListOptions::default() };
        let list = self.client.list(leases, "kube-system", options).await?;
        list.items.iter().map(|lease| Ok(lease.obj()?.meta().name().to_owned())).collect()
    }

    /// The processes that the keys `namespace/name` need, in the order of the keys.
    ///
    /// # Errors
    /// When no process handles a key.
    pub(crate) async fn owners(&self, keys: &[(String, String)]) -> anyhow::Result<Vec<BTreeSet<String>>> {
        if self.subject == Subject::Upstream {
            return Ok(vec![BTreeSet::from([self.names().await?.pop_first().context("nobody leads")?]); keys.len()]);
        }
        let held = self.held().await?;
        let scopes: &[Scope] = match self.role {
            Role::Controllers => &[Scope::parts("controllers")],
            Role::Scheduler => &[Scope::parts("shards"), Scope::One(oarlock_mesh::Unit::named("arbiter"))],
        };
        let owner = |scope: &Scope, (namespace, name): &(String, String)| {
            let unit = scope.unit(namespace, name)?;
            held.iter().find(|(held, _, _)| held == unit.as_str()).map(|(_, holder, _)| holder.clone())
        };
        let owners = |key| scopes.iter().map(|scope| owner(scope, key)).collect::<Option<_>>();
        keys.iter().map(|key| owners(key).with_context(|| format!("nobody has {key:?}"))).collect()
    }

    /// The units, with holder and time of assignment.
    async fn held(&self) -> anyhow::Result<Vec<(String, String, MicroTime)>> {
        let list = self.client.list(kind("oarlock.dev", "assignments")?, "", ListOptions::default()).await?;
        let each = list.items.iter().map(|unit| {
            let obj = unit.obj()?;
            let spec = obj.view::<oarlock_v1::Assignment<'_>>().context("no Assignment")?.spec();
            let since = spec.acquire_time().context("no time")?.parse().map_err(anyhow::Error::msg)?;
            Ok((obj.meta().name().to_owned(), spec.holder_identity().to_owned(), since))
        });
        each.collect()
    }

    /// Removes a member in the given way, and returns the member.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn signal(&mut self, name: &str, signal: Signal) -> anyhow::Result<()> {
        let at = self.members.iter().position(|member| member.name.as_deref() == Some(name));
        let member = at.and_then(|at| self.members.get_mut(at)).context("whom to lose?")?;
        let pid = member.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        Ok(kill_process(pid.context("it has ended")?, signal)?)
    }

    /// The lost one comes back: a new process, or the one that slept.
    ///
    /// # Errors
    /// When the process does not end.
    pub(crate) async fn restore(&mut self, name: &str, slept: bool) -> anyhow::Result<()> {
        if slept {
            self.signal(name, Signal::CONT)?;
        }
        // Upstream's, who slept through its loss, ends itself.
        if self.subject == Subject::Upstream || !slept {
            let at = self.members.iter().position(|member| member.name.as_deref() == Some(name));
            let mut gone = self.members.remove(at.context("who was it?")?);
            tokio::time::timeout(CHANGE_TIMEOUT, gone.child.wait()).await.context("it does not end")??;
        }
        if self.subject == Subject::Upstream {
            let other = async || Ok(self.names().await?.pop_first().filter(|leader| leader != name));
            let leader = Some(until("another leads", other).await?);
            for other in &mut self.members {
                other.name.clone_from(&leader);
            }
        }
        if self.subject == Subject::Upstream || !slept {
            self.join().await?;
        }
        self.settle().await
    }

    /// Waits until the work is shared evenly again and has been so for a while.
    async fn settle(&self) -> anyhow::Result<()> {
        if self.subject == Subject::Upstream {
            return Ok(());
        }
        let names: BTreeSet<_> = self.members.iter().filter_map(|member| member.name.clone()).collect();
        until("the work is shared", async || {
            let held = self.held().await?;
            #[expect(clippy::disallowed_methods, reason = "compared with what the servers on this machine wrote")]
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_micros();
            let young = |since: &MicroTime| {
                now.saturating_sub(u128::try_from(since.unix_micros()).unwrap_or(0)) < SETTLED.as_micros()
            };
            let loads =
                names.iter().map(|name| held.iter().filter(|(unit, by, _)| by == name && !is_post(unit)).count());
            let (least, most) = loads.fold((usize::MAX, 0), |(least, most), load| (least.min(load), most.max(load)));
            let lost = held.iter().any(|(unit, holder, _)| self.is_ours(unit) && !names.contains(holder));
            let restless = held.iter().any(|(_, holder, since)| names.contains(holder) && young(since));
            Ok((least > 0 && most - least <= 1 && !lost && !restless).then_some(()))
        })
        .await
    }

    /// Whether the role has this unit.
    fn is_ours(&self, unit: &str) -> bool {
        let scheduling = ["arbiter", "coordinator-scheduler"].contains(&unit) || unit.starts_with("shards-");
        scheduling == (self.role == Role::Scheduler)
    }

    /// Ends all.
    ///
    /// # Errors
    /// When the processes do not end.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        for member in &mut self.members {
            member.child.kill().await?;
        }
        self.cluster.stop().await
    }
}

/// Whether a unit is a coordinator's post, which is not counted when work is shared.
fn is_post(unit: &str) -> bool {
    unit.starts_with("coordinator-")
}

/// A kind of the schema.
pub(crate) fn kind(group: &str, plural: &str) -> anyhow::Result<&'static Resource> {
    resource(group, "v1", plural).with_context(|| format!("no {plural}"))
}

/// Asks again and again.
async fn until<T>(what: &str, ask: impl AsyncFn() -> anyhow::Result<Option<T>>) -> anyhow::Result<T> {
    let answered = async {
        loop {
            if let Some(answer) = ask().await? {
                return Ok(answer);
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    };
    tokio::time::timeout(CHANGE_TIMEOUT, answered).await.with_context(|| format!("never: {what}"))?
}
