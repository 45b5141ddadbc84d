//! Stops a pod (its containers in order, then its sandbox), or one container after a failed liveness or startup probe.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use oarlock_runtime::clock;
use oarlock_schema::Str;

use super::Subject;
use crate::cri::{self, ContainerStatus};
use crate::downward;
use crate::hooks::{self, HookTarget, Hooks};
use crate::pod::{Doomed, Pod, specs};
use crate::template::ContainerSpec;

/// Shortest grace period of a container (upstream `minimumGracePeriodInSeconds`).
const LEAST_GRACE: Duration = Duration::from_secs(2);

pub(super) struct Stop {
    subject: Subject,
    /// Indexes and ids of the running containers other than sidecars.
    main: Vec<(usize, Str)>,
    sidecars: Vec<(usize, Str)>,
    grace: Duration,
    ip: Option<std::net::IpAddr>,
}

fn seconds(grace: i64) -> Duration {
    Duration::from_secs(u64::try_from(grace).unwrap_or(0)).max(LEAST_GRACE)
}

impl Stop {
    pub(super) fn of(pod: &Pod, grace: i64, subject: Subject) -> Self {
        let sidecar = |index: &usize| pod.template().init.get(*index).is_some_and(|spec| spec.sidecar);
        let running = pod.containers.iter().enumerate().filter(|(_, container)| container.running());
        let (sidecars, main) =
            running.map(|(index, container)| (index, container.id.clone())).partition(|(index, _)| sidecar(index));
        Self { subject, main, sidecars, grace: seconds(grace), ip: pod.ips().first().copied() }
    }

    /// Stops main containers together, then sidecars in reverse, then the sandbox with any remaining container (KEP-753).
    pub(super) async fn run(self) -> cri::Result<Vec<ContainerStatus>> {
        let stopping = |index: usize| format!("Stopping container {}", self.name(index));
        let all = self.main.iter().map(|(index, id)| self.end(*index, id, stopping(*index), self.grace));
        join_all(all).await.into_iter().collect::<cri::Result<()>>()?;
        for (index, id) in self.sidecars.iter().rev() {
            self.end(*index, id, stopping(*index), self.grace).await?;
        }
        let runtime = self.subject.runtime();
        let mut statuses = Vec::new();
        for sandbox in runtime.list_pod_sandbox(Some(&self.subject.config.uid)).await? {
            runtime.stop_pod_sandbox(&sandbox.id).await?;
            statuses.extend(runtime.list_containers(&sandbox.id).await?);
        }
        if let Some(host_resources) = &self.subject.tools.host_resources {
            let removed = host_resources.tear_down(&self.subject.config.uid).await;
            removed.map_err(|why| cri::Error::Failed(why.to_string()))?;
        }
        Ok(statuses)
    }

    /// Stops one container of a pod that keeps running.
    pub(super) async fn kill(self, index: usize, doomed: Option<Doomed>) -> cri::Result<ContainerStatus> {
        let mut running = self.main.iter().chain(&self.sidecars);
        let Some((_, id)) = running.find(|(of, _)| *of == index) else {
            return Err(cri::Error::NotFound("it does not run".to_owned()));
        };
        let grace = doomed.as_ref().and_then(|doomed| doomed.grace).map_or(self.grace, seconds);
        self.end(index, id, doomed.map_or_else(String::new, |doomed| doomed.message), grace).await?;
        self.subject.runtime().container_status(id).await
    }

    fn spec(&self, index: usize) -> Option<&Arc<ContainerSpec>> {
        specs(&self.subject.item.value.template).nth(index)
    }

    fn name(&self, index: usize) -> &str {
        self.spec(index).map_or("", |spec| spec.name.as_str())
    }

    /// Runs the preStop hook, then stops the container within the rest of `grace`.
    async fn end(&self, index: usize, id: &str, message: String, grace: Duration) -> cri::Result<()> {
        self.subject.send_event(Some(index), false, "Killing", message);
        let began = clock::now();
        if let Some(whole) = &self.subject.item.value.whole
            && let Some(spec) = downward::find(downward::pod(whole), self.name(index))
            && let Some(hook) = Hooks::of(spec).pre_stop
        {
            let target = self.subject.target(id, self.name(index), self.ip);
            match hooks::run(&hook, &target, grace, self.subject.runtime()).await {
                Ok(warning) => warning
                    .into_iter()
                    .for_each(|(reason, text)| self.subject.send_event(Some(index), true, reason, text)),
                Err(error) => {
                    tracing::debug!(pod = %self.subject.item.key(), %error, "preStop hook failed");
                    let (reason, text) = hooks::FAILED_PRE_STOP;
                    self.subject.send_event(Some(index), true, reason, text.to_owned());
                }
            }
        }
        let left = grace.saturating_sub(began.elapsed()).max(LEAST_GRACE);
        self.subject.runtime().stop_container(id, left).await
    }
}

impl Subject {
    /// Returns the container for a hook to run on.
    pub(super) fn target(&self, id: &str, container: &str, ip: Option<std::net::IpAddr>) -> HookTarget {
        let meta = &self.item.meta;
        let pod = format!("{}_{}({})", meta.name(), meta.namespace(), meta.uid.0);
        HookTarget { id: id.into(), container: container.into(), pod, ip }
    }
}
