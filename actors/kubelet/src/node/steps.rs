//! Performs a pod's steps: calls the runtime's verbs in order, and writes Events on the way.

use std::net::IpAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use oarlock_informer::Item;
use oarlock_schema::Str;

use super::host_resources::HostResources;
use crate::cri::{self, ContainerStatus, PodSandboxConfig, Recall, RecalledContainer, Runtime, SandboxState};
use crate::event_sender::{EventSender, WarningEvent};
use crate::pod::model::PodEvent;
use crate::pod::{Pod, Recalled, StartReport, State, Step, specs};
use crate::pod_error::PodError;
use crate::template::PodView;
use crate::trace::{self, Life};

mod image;
mod start;
mod stop;

use start::Start;
use stop::Stop;

/// Outcome of a step.
#[derive(Debug)]
pub(super) enum Outcome {
    Recalled(Result<Recalled, cri::Error>),
    /// New sandbox and its addresses, with the containers of the sandboxes removed before it.
    Sandbox(Result<(Str, Vec<IpAddr>), Vec<WarningEvent>>, Vec<ContainerStatus>),
    Started(StartReport),
    Killed(usize, Result<ContainerStatus, cri::Error>),
    Stopped(Result<Vec<ContainerStatus>, cri::Error>),
    Cleaned(Result<(), cri::Error>),
}

/// Dependencies of steps.
#[derive(Clone, Debug)]
pub(super) struct Tools {
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) event_sender: EventSender,
    /// Name of the node, for spans.
    pub(super) node: Arc<str>,
    /// Host resources of pods; `None` on simulated nodes.
    pub(super) host_resources: Option<Arc<HostResources>>,
}

/// A pod as its steps need it.
#[derive(Clone, Debug)]
struct Subject {
    tools: Tools,
    item: Arc<Item<PodView>>,
    config: PodSandboxConfig,
    /// The pod's change, for spans; `None` when tracing is off.
    life: Option<Life>,
}

/// Performs a step of `pod`. The needed state is copied now; the future borrows nothing.
pub(super) fn perform(pod: &Pod, step: &Step, tools: &Tools) -> BoxFuture<'static, Outcome> {
    let life = Life::of(pod, &tools.node);
    let subject = Subject { tools: tools.clone(), item: pod.item.clone(), config: sandbox_config(pod), life };
    match step {
        Step::Recall => {
            let known = remembered(pod);
            Box::pin(async move { Outcome::Recalled(subject.recall(known).await) })
        }
        Step::Sandbox => Box::pin(async move {
            let mut before = Vec::new();
            let result = subject.sandbox(&mut before).await;
            Outcome::Sandbox(result, before)
        }),
        Step::Start(index) => {
            let start = Start::of(pod, *index, subject);
            Box::pin(async move { Outcome::Started(start.run().await) })
        }
        Step::Kill(index) => {
            let (index, stop) = (*index, Stop::of(pod, pod.template().grace, subject));
            let doomed = pod.doomed(index);
            Box::pin(async move { Outcome::Killed(index, stop.kill(index, doomed).await) })
        }
        Step::Stop(grace) => {
            let stop = Stop::of(pod, *grace, subject);
            Box::pin(async move { Outcome::Stopped(stop.run().await) })
        }
        Step::Clean => Box::pin(async move { Outcome::Cleaned(subject.clean().await) }),
    }
}

fn sandbox_config(pod: &Pod) -> PodSandboxConfig {
    let meta = &pod.item.meta;
    let template = pod.template();
    PodSandboxConfig {
        name: meta.key.name.clone(),
        namespace: meta.key.namespace.clone(),
        uid: meta.uid.0.clone(),
        attempt: pod.sandbox_attempt(),
        annotations: template.annotations.clone(),
        host_network: template.host_network,
        full: None,
    }
}

/// Returns the pod's address, and its containers that run according to the API.
fn remembered(pod: &Pod) -> (Option<IpAddr>, Vec<RecalledContainer>) {
    let running = specs(pod.template()).zip(&pod.containers).filter_map(|(spec, container)| {
        let State::Running(started_at) = container.state else { return None };
        Some(RecalledContainer {
            id: container.id.clone(),
            name: spec.name.clone(),
            attempt: container.restarts,
            started_at,
            ready: container.ready,
            first_probe: spec.first_probe,
        })
    });
    (pod.ip.parse().ok(), running.collect())
}

impl Subject {
    fn runtime(&self) -> &dyn Runtime {
        &*self.tools.runtime
    }

    fn send_event(&self, container: Option<usize>, warning: bool, reason: &str, message: String) {
        self.tools.event_sender.send(&self.item, PodEvent { container, warning, reason: reason.into(), message });
    }

    /// Adds to the configuration the part for runtimes of real machines; returns Warning events.
    async fn complete(&mut self) -> Result<Vec<WarningEvent>, PodError> {
        let (Some(host_resources), Some(whole)) = (&self.tools.host_resources, &self.item.value.whole) else {
            return Ok(Vec::new());
        };
        let (full, told) = host_resources.sandbox(whole, self.config.attempt).await?;
        self.config.full = Some(Arc::new(full));
        Ok(told)
    }

    async fn recall(self, (ip, running): (Option<IpAddr>, Vec<RecalledContainer>)) -> cri::Result<Recalled> {
        let runtime = self.tools.runtime;
        let known = runtime.list_pod_sandbox(Some(&self.config.uid)).await?;
        let found = known.iter().find(|sandbox| sandbox.state == SandboxState::Ready).map(|found| found.id.clone());
        let found = match found {
            Some(id) => Some(id),
            None => runtime.recall(Recall { sandbox: self.config, ip, running }).await?,
        };
        let Some(id) = found else {
            // Containers of a sandbox that does not run have ended.
            let containers = match known.first() {
                Some(last) => runtime.list_containers(&last.id).await?,
                None => Vec::new(),
            };
            return Ok(Recalled {
                sandbox: None,
                attempts: known.first().map_or(0, |last| last.attempt + 1),
                containers,
            });
        };
        let status = runtime.pod_sandbox_status(&id).await?;
        let containers = runtime.list_containers(&id).await?;
        Ok(Recalled { sandbox: Some((id, status.ips)), attempts: status.attempt + 1, containers })
    }

    async fn sandbox(mut self, before: &mut Vec<ContainerStatus>) -> Result<(Str, Vec<IpAddr>), Vec<WarningEvent>> {
        let failed = |why: &dyn std::fmt::Display| {
            vec![("FailedCreatePodSandBox", format!("Failed to create pod sandbox: {why}"))]
        };
        // A sandbox from an interrupted call would otherwise be left behind.
        before.extend(self.remove_sandboxes().await.map_err(|error| failed(&error))?);
        if let (Some(host_resources), Some(whole)) = (&self.tools.host_resources, &self.item.value.whole) {
            trace::step(self.life.as_ref(), "volumes", Vec::new, host_resources.prepare(whole)).await?;
        }
        let life = self.life.clone();
        let run = async {
            for (reason, message) in self.complete().await.map_err(|why| failed(&why))? {
                self.send_event(None, true, reason, message);
            }
            let id = self.runtime().run_pod_sandbox(&self.config).await.map_err(|error| failed(&error))?;
            let status = self.runtime().pod_sandbox_status(&id).await.map_err(|error| failed(&error))?;
            Ok((id, status.ips))
        };
        trace::step(life.as_ref(), "sandbox", Vec::new, run).await
    }

    /// Removes the pod's sandboxes; returns the last states of their containers.
    async fn remove_sandboxes(&self) -> cri::Result<Vec<ContainerStatus>> {
        let mut statuses = Vec::new();
        for sandbox in self.runtime().list_pod_sandbox(Some(&self.config.uid)).await? {
            self.runtime().stop_pod_sandbox(&sandbox.id).await?;
            statuses.extend(self.runtime().list_containers(&sandbox.id).await?);
            self.runtime().remove_pod_sandbox(&sandbox.id).await?;
        }
        Ok(statuses)
    }

    async fn clean(self) -> cri::Result<()> {
        self.remove_sandboxes().await?;
        if let (Some(host_resources), Some(whole)) = (&self.tools.host_resources, &self.item.value.whole) {
            let cleared = host_resources.clear(&self.config.uid, Some(&HostResources::log_directory(whole))).await;
            cleared.map_err(|why| cri::Error::Failed(why.to_string()))?;
        }
        Ok(())
    }
}
