//! Probes: whether containers have started, are ready, are alive (`pkg/kubelet/prober`, `pkg/probe`).
//!
//! Each probe of each running container is one task ([`run()`]) that the node's actor spawns in its gate when the container runs. It reports
//! through a bounded channel, and ends when the container's [`Gate`] closes. `worker.rs` decides when to look and what a look means; the
//! files beside it look.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oarlock_schema::Str;
use oarlock_schema::views::core_v1::Container;

use crate::cri::{self, ExecOutput, Runtime};

mod check;
pub(crate) mod dial;
mod grpc;
pub(crate) mod http;
mod run;
#[cfg(test)]
mod tests;
mod tls;
mod worker;

pub(crate) use check::Check;
pub(crate) use run::{Prober, run};
pub(crate) use tls::PLAIN as PLAIN_HTTP;

/// What probes and hooks ask of a runtime.
#[async_trait]
pub(crate) trait Exec: Send + Sync {
    /// See [`Runtime::exec_sync`].
    async fn run_in(&self, id: &str, command: &[Str], timeout: Duration) -> cri::Result<ExecOutput>;
}

#[async_trait]
impl<R: Runtime + ?Sized> Exec for R {
    async fn run_in(&self, id: &str, command: &[Str], timeout: Duration) -> cri::Result<ExecOutput> {
        self.exec_sync(id, command, timeout).await
    }
}

/// What a probe is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Whether the container has started; until then there are no other probes.
    Startup,
    /// Whether it takes requests.
    Readiness,
    /// Whether it has to be started again.
    Liveness,
}

impl Kind {
    /// The word with which events begin.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Readiness => "Readiness",
            Self::Liveness => "Liveness",
        }
    }

    /// What holds until the first report.
    pub(crate) const fn initial(self) -> Verdict {
        match self {
            Self::Startup => Verdict::Unknown,
            Self::Readiness => Verdict::Failure,
            Self::Liveness => Verdict::Success,
        }
    }

    /// The message of the event `Killing` when a container of this name has to be started again.
    pub(crate) fn killing(self, container: &str) -> String {
        format!("Container {container} failed {} probe, will be restarted", self.name().to_lowercase())
    }
}

/// What holds of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Success,
    Failure,
    Unknown,
}

/// A probe of a container's spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) kind: Kind,
    pub(crate) check: Check,
    /// Whole seconds after the container's start in which nothing is looked at.
    pub(crate) initial_delay: i64,
    pub(crate) period: Duration,
    pub(crate) timeout: Duration,
    /// Successes, and failures, in a row until they count.
    pub(crate) success_threshold: u32,
    pub(crate) failure_threshold: u32,
    /// Seconds that the container gets to end when this probe fails, if not those of its pod.
    pub(crate) grace: Option<i64>,
}

/// The container that is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    /// Uid of the pod.
    pub(crate) pod: Str,
    /// Index over init containers, then main ones.
    pub(crate) index: usize,
    /// The runtime's id.
    pub(crate) id: Str,
    /// When it started, Unix seconds.
    pub(crate) started: i64,
    /// The pod's address; the node's in the node's network.
    pub(crate) ip: Option<IpAddr>,
}

/// What a prober has to say of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// Uid of the pod.
    pub(crate) pod: Str,
    pub(crate) index: usize,
    /// The runtime's id: a report about another container than the present one is void.
    pub(crate) id: Str,
    pub(crate) kind: Kind,
    pub(crate) verdict: Verdict,
    /// See [`Probe::grace`].
    pub(crate) grace: Option<i64>,
}

/// What probers of one container are told of it, through a `watch` channel; they end when it closes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gate {
    /// It has passed its startup probe, or has none.
    pub(crate) started: bool,
    /// Its pod is being deleted: whether it lives is no question any more.
    pub(crate) stopping: bool,
}

/// The probes of a container.
pub(crate) fn of_container(container: Container<'_>) -> Vec<Arc<Probe>> {
    let probes = [
        (Kind::Startup, container.startup_probe()),
        (Kind::Readiness, container.readiness_probe()),
        (Kind::Liveness, container.liveness_probe()),
    ];
    let read = |(kind, probe): (Kind, Option<oarlock_schema::views::core_v1::Probe<'_>>)| {
        let probe = probe?;
        // The API's defaults; static pods have them, too.
        let or = |value: i64, default: u32| u32::try_from(value).ok().filter(|value| *value > 0).unwrap_or(default);
        Some(Arc::new(Probe {
            kind,
            check: Check::of_probe(probe, container),
            initial_delay: probe.initial_delay_seconds(),
            period: Duration::from_secs(or(probe.period_seconds(), 10).into()),
            timeout: Duration::from_secs(or(probe.timeout_seconds(), 1).into()),
            success_threshold: or(probe.success_threshold(), 1),
            failure_threshold: or(probe.failure_threshold(), 3),
            grace: probe.termination_grace_period_seconds(),
        }))
    };
    probes.into_iter().filter_map(read).collect()
}
