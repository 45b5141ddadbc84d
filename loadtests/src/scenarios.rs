//! The scenarios: one TOML file each in `loadtests/scenarios`, or the user's own.

use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::kinds::{
    append, compose_kill, create, failover, hostile, idle, kept, list, memory, reopen, rollout, schedule, shards,
    snapshot, start, takeover, tracing, tunnel, tunnel_users, watch, write_path,
};
use crate::report::Figure;
use crate::subject::{Bench, Setting, Subject};

/// The built-in scenarios, in the order in which they run.
const OWN: &[(&str, &str)] = &[
    ("start", include_str!("../scenarios/start.toml")),
    ("idle", include_str!("../scenarios/idle.toml")),
    ("create-1", include_str!("../scenarios/create-1.toml")),
    ("create-64", include_str!("../scenarios/create-64.toml")),
    ("create-64-bound", include_str!("../scenarios/create-64-bound.toml")),
    ("create-64-etcd-1", include_str!("../scenarios/create-64-etcd-1.toml")),
    ("append-etcd-1", include_str!("../scenarios/append-etcd-1.toml")),
    ("create-64-etcd-3", include_str!("../scenarios/create-64-etcd-3.toml")),
    ("append-etcd-3", include_str!("../scenarios/append-etcd-3.toml")),
    ("kept-etcd-1", include_str!("../scenarios/kept-etcd-1.toml")),
    ("kept-etcd-3", include_str!("../scenarios/kept-etcd-3.toml")),
    ("memory-resident-10k", include_str!("../scenarios/memory-resident-10k.toml")),
    ("memory-cold-10k", include_str!("../scenarios/memory-cold-10k.toml")),
    ("memory-resident-50k", include_str!("../scenarios/memory-resident-50k.toml")),
    ("memory-cold-50k", include_str!("../scenarios/memory-cold-50k.toml")),
    ("reopen-50mb", include_str!("../scenarios/reopen-50mb.toml")),
    ("reopen-500mb", include_str!("../scenarios/reopen-500mb.toml")),
    ("reopen-2gb", include_str!("../scenarios/reopen-2gb.toml")),
    ("failover-api-server", include_str!("../scenarios/failover-api-server.toml")),
    ("failover-etcd-leader", include_str!("../scenarios/failover-etcd-leader.toml")),
    ("takeover-controllers-kill", include_str!("../scenarios/takeover-controllers-kill.toml")),
    ("takeover-controllers-sleep", include_str!("../scenarios/takeover-controllers-sleep.toml")),
    ("takeover-controllers-terminate", include_str!("../scenarios/takeover-controllers-terminate.toml")),
    ("takeover-scheduler-kill", include_str!("../scenarios/takeover-scheduler-kill.toml")),
    ("takeover-scheduler-sleep", include_str!("../scenarios/takeover-scheduler-sleep.toml")),
    ("takeover-scheduler-terminate", include_str!("../scenarios/takeover-scheduler-terminate.toml")),
    ("compose-kill", include_str!("../scenarios/compose-kill.toml")),
    ("snapshot-10k", include_str!("../scenarios/snapshot-10k.toml")),
    ("list", include_str!("../scenarios/list.toml")),
    ("list-gzip", include_str!("../scenarios/list-gzip.toml")),
    ("watch", include_str!("../scenarios/watch.toml")),
    ("schedule-basic-1k", include_str!("../scenarios/schedule-basic-1k.toml")),
    ("schedule-spread-1k", include_str!("../scenarios/schedule-spread-1k.toml")),
    ("schedule-affinity-1k", include_str!("../scenarios/schedule-affinity-1k.toml")),
    ("schedule-anti-affinity-1k", include_str!("../scenarios/schedule-anti-affinity-1k.toml")),
    ("schedule-basic-5k", include_str!("../scenarios/schedule-basic-5k.toml")),
    ("schedule-spread-5k", include_str!("../scenarios/schedule-spread-5k.toml")),
    ("schedule-affinity-5k", include_str!("../scenarios/schedule-affinity-5k.toml")),
    ("schedule-anti-affinity-5k", include_str!("../scenarios/schedule-anti-affinity-5k.toml")),
    ("shards-1k-2", include_str!("../scenarios/shards-1k-2.toml")),
    ("shards-1k-4", include_str!("../scenarios/shards-1k-4.toml")),
    ("shards-5k-2", include_str!("../scenarios/shards-5k-2.toml")),
    ("shards-5k-4", include_str!("../scenarios/shards-5k-4.toml")),
    ("write-path", include_str!("../scenarios/write-path.toml")),
    ("rollout", include_str!("../scenarios/rollout.toml")),
    ("hostile", include_str!("../scenarios/hostile.toml")),
    ("tracing", include_str!("../scenarios/tracing.toml")),
    ("tracing-off", include_str!("../scenarios/tracing-off.toml")),
    ("tunnel", include_str!("../scenarios/tunnel.toml")),
    ("tunnel-users", include_str!("../scenarios/tunnel-users.toml")),
];

/// A scenario file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// The file's name without its ending.
    #[serde(skip)]
    pub(crate) name: String,
    /// What is measured, in a line.
    pub(crate) about: String,
    /// The number of repetitions; the command line may override it.
    #[serde(default = "once")]
    pub(crate) rounds: usize,
    /// The scenario takes minutes, so it runs only by name.
    #[serde(default)]
    pub(crate) long: bool,
    /// How much worse a figure may be beside another build, as a share, where the scenario has a limit of its own.
    #[serde(default)]
    pub(crate) limit: Option<f64>,
    /// The settings of our servers for this scenario.
    #[serde(default)]
    pub(crate) setting: Setting,
    work: Work,
    /// The file.
    #[serde(skip)]
    pub(crate) text: String,
}

/// The code that decides a scenario's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measures {
    /// That of the `oarlock` executable, which is driven from outside.
    Executable,
    /// Crates that are linked into this program too.
    Linked,
    /// That of container images.
    Images,
}

fn once() -> usize {
    1
}

/// What a scenario does, with its sizes.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Work {
    Start(start::Spec),
    Idle(idle::Spec),
    Create(create::Spec),
    List(list::Spec),
    Watch(watch::Spec),
    Schedule(schedule::Spec),
    Rollout(rollout::Spec),
    WritePath(write_path::Spec),
    Memory(memory::Spec),
    Append(append::Spec),
    Kept(kept::Spec),
    Reopen(reopen::Spec),
    Failover(failover::Spec),
    Takeover(takeover::Spec),
    Shards(shards::Spec),
    Snapshot(snapshot::Spec),
    ComposeKill(compose_kill::Spec),
    Hostile(hostile::Spec),
    Tracing(tracing::Spec),
    Tunnel(tunnel::Spec),
    TunnelUsers(tunnel_users::Spec),
}

impl Scenario {
    /// The scenarios that the command line names: built-in ones by name or prefix (`takeover-*`), files by path; all built-in ones when it names none.
    ///
    /// # Errors
    /// For a name that is none, and a file that cannot be read.
    pub(crate) fn wanted(words: &[String]) -> anyhow::Result<Vec<Self>> {
        if words.is_empty() {
            return OWN.iter().map(|(name, text)| Self::parse(name, text)).collect();
        }
        let found: anyhow::Result<Vec<Vec<Self>>> = words.iter().map(|word| Self::find(word)).collect();
        Ok(found?.concat())
    }

    fn find(word: &str) -> anyhow::Result<Vec<Self>> {
        let is = |name: &str| word.strip_suffix('*').map_or(name == word, |begin| name.starts_with(begin));
        let own: Vec<_> = OWN.iter().filter(|(name, _)| is(name)).collect();
        if !own.is_empty() {
            return own.into_iter().map(|(name, text)| Self::parse(name, text)).collect();
        }
        let path = Path::new(word);
        if path.extension().is_none_or(|ending| ending != "toml") {
            let names: Vec<&str> = OWN.iter().map(|(name, _)| *name).collect();
            bail!("{word}: neither a .toml file nor one of {}", names.join(", "));
        }
        let text = std::fs::read_to_string(path).with_context(|| word.to_owned())?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Ok(vec![Self::parse(&name, &text).with_context(|| word.to_owned())?])
    }

    fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        Ok(Self { name: name.to_owned(), text: text.to_owned(), ..toml::from_str(text)? })
    }

    /// Whether the scenario applies to this subject: some scenarios measure features that upstream lacks.
    pub(crate) fn is_for(&self, subject: Subject) -> bool {
        let own = matches!(
            self.work,
            Work::Memory(_)
                | Work::Append(_)
                | Work::Kept(_)
                | Work::Reopen(_)
                | Work::WritePath(_)
                | Work::Shards(_)
                | Work::Snapshot(_)
                | Work::ComposeKill(_)
                | Work::Tracing(_)
                | Work::Tunnel(_)
                | Work::TunnelUsers(_)
        );
        subject == Subject::Oarlock || !own
    }

    /// The code that decides the figures. For a failover, this is our client.
    pub(crate) fn measures(&self) -> Measures {
        match self.work {
            Work::WritePath(_) | Work::Append(_) | Work::Kept(_) | Work::Failover(_) => Measures::Linked,
            Work::ComposeKill(_) => Measures::Images,
            _ => Measures::Executable,
        }
    }

    /// Runs the scenario once.
    ///
    /// # Errors
    /// When the subject does not start, refuses a request, or does not get done in time.
    pub(crate) async fn run(&self, bench: &Bench, subject: Subject) -> anyhow::Result<Vec<Figure>> {
        match &self.work {
            Work::Start(spec) => start::run(bench, subject, spec).await,
            Work::Idle(spec) => idle::run(bench, subject, spec).await,
            Work::Create(spec) => create::run(bench, subject, spec).await,
            Work::List(spec) => list::run(bench, subject, spec).await,
            Work::Watch(spec) => watch::run(bench, subject, spec).await,
            Work::Schedule(spec) => schedule::run(bench, subject, spec).await,
            Work::Rollout(spec) => rollout::run(bench, subject, spec).await,
            Work::WritePath(spec) => write_path::run(bench, subject, spec).await,
            Work::Memory(spec) => memory::run(bench, subject, spec).await,
            Work::Append(spec) => append::run(bench, subject, spec).await,
            Work::Kept(spec) => kept::run(bench, subject, spec).await,
            Work::Reopen(spec) => reopen::run(bench, subject, spec).await,
            Work::Failover(spec) => failover::run(bench, subject, spec).await,
            Work::Takeover(spec) => takeover::run(bench, subject, spec).await,
            Work::Shards(spec) => shards::run(bench, subject, spec).await,
            Work::Snapshot(spec) => snapshot::run(bench, subject, spec).await,
            Work::ComposeKill(spec) => compose_kill::run(spec).await,
            Work::Hostile(spec) => hostile::run(bench, subject, spec).await,
            Work::Tracing(spec) => tracing::run(bench, subject, spec).await,
            Work::Tunnel(spec) => tunnel::run(bench, subject, spec).await,
            Work::TunnelUsers(spec) => tunnel_users::run(bench, subject, spec).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{OWN, Scenario};

    #[test]
    fn every_file_is_in_the_table_and_reads() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
        let files = std::fs::read_dir(folder).unwrap().count();
        assert_eq!((files, Scenario::wanted(&[]).unwrap().len()), (OWN.len(), OWN.len()));
    }

    #[test]
    fn several_are_named_by_how_they_begin() {
        let found = Scenario::wanted(&["list".to_owned(), "shards-*".to_owned()]).unwrap();
        let names: Vec<&str> = found.iter().map(|scenario| scenario.name.as_str()).collect();
        assert_eq!(names, ["list", "shards-1k-2", "shards-1k-4", "shards-5k-2", "shards-5k-4"]);
        assert!(Scenario::wanted(&["crate*".to_owned()]).is_err());
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        let error = Scenario::wanted(&["crate".to_owned()]).unwrap_err().to_string();
        assert!(error.starts_with("crate: neither a .toml file nor one of start, "), "{error}");
        let error = Scenario::parse("x", "about = \"\"\n[work.create]\nclients = 1\npots = 1").unwrap_err().to_string();
        assert!(error.contains("pots"), "{error}");
    }
}
