//! Probes: check whether containers have started, are ready and are alive (`pkg/kubelet/prober`, `pkg/probe`).
//!
//! Each probe of each running container is a task ([`run()`]) that the node's actor spawns when the container runs. The task reports through a bounded channel,
//! and ends when the container's [`Gate`] closes. `worker.rs` decides when to check and what a result means; `check.rs` and the files beside it perform the
//! checks.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oarlock_schema::Str;
use oarlock_schema::views::core_v1::Container;

use crate::cri::{self, ExecOutput, Runtime};

mod check;
pub(crate) mod dial;
mod error;
mod grpc;
pub(crate) mod http;
mod port;
mod run;
#[cfg(test)]
mod tests;
mod tls;
mod worker;

pub(crate) use check::Check;
pub(crate) use error::RequestError;
pub(crate) use run::{Prober, run};

/// The part of a runtime that probes and hooks use.
#[async_trait]
pub(crate) trait Exec: Send + Sync {
    /// Runs a command in a container, see [`Runtime::exec_sync`].
    async fn run_in(&self, id: &str, command: &[Str], timeout: Duration) -> cri::Result<ExecOutput>;
}

#[async_trait]
impl<R: Runtime + ?Sized> Exec for R {
    async fn run_in(&self, id: &str, command: &[Str], timeout: Duration) -> cri::Result<ExecOutput> {
        self.exec_sync(id, command, timeout).await
    }
}

/// Purpose of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Whether the container has started; other probes wait for it.
    Startup,
    /// Whether the container can serve requests.
    Readiness,
    /// Whether the container must be restarted.
    Liveness,
}

impl Kind {
    /// Returns the first word of events about the probe.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Readiness => "Readiness",
            Self::Liveness => "Liveness",
        }
    }

    /// Returns the verdict before the first report.
    pub(crate) const fn initial(self) -> Verdict {
        match self {
            Self::Startup => Verdict::Unknown,
            Self::Readiness => Verdict::Failure,
            Self::Liveness => Verdict::Success,
        }
    }

    /// Returns the message of the event `Killing` when a container of this name must be restarted.
    pub(crate) fn killing(self, container: &str) -> String {
        format!("Container {container} failed {} probe, will be restarted", self.name().to_lowercase())
    }
}

/// Result of a probe over several checks.
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
    /// Seconds after the container's start before the first check.
    pub(crate) initial_delay: i64,
    pub(crate) period: Duration,
    pub(crate) timeout: Duration,
    /// Number of successes or failures in a row that change the verdict.
    pub(crate) success_threshold: u32,
    pub(crate) failure_threshold: u32,
    /// Grace period in seconds when this probe fails, if other than the pod's.
    pub(crate) grace: Option<i64>,
}

/// The probed container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    /// Uid of the pod.
    pub(crate) pod: Str,
    /// Index over init containers, then main ones.
    pub(crate) index: usize,
    /// The runtime's id.
    pub(crate) id: Str,
    /// Unix second of the container's start.
    pub(crate) started: i64,
    /// Address of the pod; the node's in the node's network.
    pub(crate) ip: Option<IpAddr>,
}

/// A change of a probe's verdict about a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// Uid of the pod.
    pub(crate) pod: Str,
    pub(crate) index: usize,
    /// The runtime's id of the container: a report about an earlier container is ignored.
    pub(crate) id: Str,
    pub(crate) kind: Kind,
    pub(crate) verdict: Verdict,
    /// Grace period, see [`Probe::grace`].
    pub(crate) grace: Option<i64>,
}

/// State of a container for its probe tasks, sent through a `watch` channel; the tasks end when the channel closes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gate {
    /// Whether the container has passed its startup probe, or has none.
    pub(crate) started: bool,
    /// Whether the pod is being deleted, so that liveness no longer matters.
    pub(crate) stopping: bool,
}

/// Returns the probes of a container.
pub(crate) fn of_container(container: Container<'_>) -> Vec<Arc<Probe>> {
    let probes = [
        (Kind::Startup, container.startup_probe()),
        (Kind::Readiness, container.readiness_probe()),
        (Kind::Liveness, container.liveness_probe()),
    ];
    let read = |(kind, probe): (Kind, Option<oarlock_schema::views::core_v1::Probe<'_>>)| {
        let probe = probe?;
        // The API's defaults, which apply to static pods too.
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
