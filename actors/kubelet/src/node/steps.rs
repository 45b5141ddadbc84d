//! How a pod's steps are performed: verbs of the runtime in order, and Events on the way.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use oarlock_informer::Item;
use oarlock_meta::GoDuration;
use oarlock_runtime::clock;
use oarlock_schema::Str;

use crate::cri::{self, ContainerConfig, ContainerStatus, PodSandboxConfig, Recall, Runtime, SandboxState};
use crate::pod::{Pod, StartError, StartReport, State, Step, Tell, specs};
use crate::tell::Teller;
use crate::template::{ContainerSpec, PodView, PullPolicy};

/// What became of a step.
#[derive(Debug)]
pub(super) enum Outcome {
    Recalled(Result<Option<(Str, Vec<ContainerStatus>)>, cri::Error>),
    Sandbox(Result<(Str, Option<IpAddr>), cri::Error>),
    Started(StartReport),
    Stopped(Result<Vec<ContainerStatus>, cri::Error>),
    Cleaned(Result<(), cri::Error>),
}

/// Containers are asked to end for at least so long (upstream `minimumGracePeriodInSeconds`).
const LEAST_GRACE: i64 = 2;

/// Performs a step of `pod`. What it needs is taken now; the future borrows nothing.
pub(super) fn perform(
    pod: &Pod,
    step: &Step,
    runtime: &Arc<dyn Runtime>,
    teller: &Teller,
) -> BoxFuture<'static, Outcome> {
    let runtime = runtime.clone();
    let config = sandbox_config(pod);
    match step {
        Step::Recall => {
            let known = remembered(pod);
            Box::pin(async move { Outcome::Recalled(recall(&*runtime, config, known).await) })
        }
        Step::Sandbox => Box::pin(async move { Outcome::Sandbox(sandbox(&*runtime, &config).await) }),
        Step::Start(index) => {
            let start = Start::of(pod, *index, config, runtime, teller.clone());
            Box::pin(async move { Outcome::Started(start.run().await) })
        }
        Step::Stop(grace) => {
            let stop = Stop::of(pod, *grace, config, runtime, teller.clone());
            Box::pin(async move { Outcome::Stopped(stop.run().await) })
        }
        Step::Clean => Box::pin(async move { Outcome::Cleaned(clean(&*runtime, &config.uid).await) }),
    }
}

fn sandbox_config(pod: &Pod) -> PodSandboxConfig {
    let meta = &pod.item.meta;
    let template = pod.template();
    PodSandboxConfig {
        name: meta.key.name.clone(),
        namespace: meta.key.namespace.clone(),
        uid: meta.uid.0.clone(),
        attempt: 0,
        annotations: template.annotations.clone(),
        host_network: template.host_network,
    }
}

/// The containers that the API says run.
fn remembered(pod: &Pod) -> (Option<IpAddr>, Vec<(ContainerConfig, ContainerStatus)>) {
    let running = specs(pod.template()).zip(&pod.containers).filter_map(|(spec, container)| {
        let State::Running(started_at) = container.state else { return None };
        let config = ContainerConfig {
            spec: spec.clone(),
            attempt: container.restarts,
            image_ref: container.image_id.clone().unwrap_or_default(),
        };
        let status = ContainerStatus {
            id: container.id.clone(),
            name: spec.name.clone(),
            state: cri::ContainerState::Running,
            started_at,
            finished_at: 0,
            exit_code: 0,
            reason: Str::default(),
            message: Str::default(),
            ready: Some(container.ready),
        };
        Some((config, status))
    });
    (pod.ip.parse().ok(), running.collect())
}

async fn recall(
    runtime: &dyn Runtime,
    sandbox: PodSandboxConfig,
    (ip, running): (Option<IpAddr>, Vec<(ContainerConfig, ContainerStatus)>),
) -> cri::Result<Option<(Str, Vec<ContainerStatus>)>> {
    let known = runtime.list_pod_sandbox(Some(&sandbox.uid)).await?;
    let id = match known.into_iter().find(|sandbox| sandbox.state == SandboxState::Ready) {
        Some(sandbox) => Some(sandbox.id),
        None => runtime.recall(Recall { sandbox, ip, running }).await?,
    };
    let Some(id) = id else { return Ok(None) };
    let containers = runtime.list_containers(&id).await?;
    Ok(Some((id, containers)))
}

async fn sandbox(runtime: &dyn Runtime, config: &PodSandboxConfig) -> cri::Result<(Str, Option<IpAddr>)> {
    // One that was begun and not heard of again would be left behind.
    clean(runtime, &config.uid).await?;
    let id = runtime.run_pod_sandbox(config).await?;
    let status = runtime.pod_sandbox_status(&id).await?;
    Ok((id, status.ips.first().copied()))
}

async fn clean(runtime: &dyn Runtime, uid: &str) -> cri::Result<()> {
    for sandbox in runtime.list_pod_sandbox(Some(uid)).await? {
        runtime.remove_pod_sandbox(&sandbox.id).await?;
    }
    Ok(())
}

struct Start {
    index: usize,
    item: Arc<Item<PodView>>,
    spec: Option<Arc<ContainerSpec>>,
    sandbox: Str,
    attempt: u32,
    /// The container before this one, whose log is kept.
    before: Str,
    config: PodSandboxConfig,
    runtime: Arc<dyn Runtime>,
    teller: Teller,
}

impl Start {
    fn of(pod: &Pod, index: usize, config: PodSandboxConfig, runtime: Arc<dyn Runtime>, teller: Teller) -> Self {
        let container = pod.containers.get(index);
        let ended = container.is_some_and(|c| matches!(c.state, State::Ended(_)) || c.last.is_some());
        Self {
            index,
            item: pod.item.clone(),
            spec: pod.spec(index).cloned(),
            sandbox: pod.sandbox.clone().unwrap_or_default(),
            attempt: container.map_or(0, |container| container.restarts) + u32::from(ended),
            before: container.map_or_else(Str::default, |container| container.id.clone()),
            config,
            runtime,
            teller,
        }
    }

    fn tell(&self, warning: bool, reason: &str, message: String) {
        self.teller.tell(&self.item, Tell { container: Some(self.index), warning, reason: reason.into(), message });
    }

    async fn run(self) -> StartReport {
        let mut report = StartReport {
            index: self.index,
            image_id: None,
            end: Err(StartError::Create("no such container".to_owned())),
        };
        let Some(spec) = self.spec.clone() else { return report };
        report.end = match self.image(&spec).await {
            Ok(image) => {
                report.image_id = Some(image.clone());
                self.start(spec, image).await
            }
            Err(error) => Err(error),
        };
        report
    }

    /// Upstream's image manager and its texts.
    async fn image(&self, spec: &ContainerSpec) -> Result<Arc<str>, StartError> {
        let pull_error = |error: cri::Error| StartError::Image("ErrImagePull", error.to_string());
        let image = &spec.image;
        let present = self.runtime.image_status(image, &spec.name, &self.config).await.map_err(pull_error)?;
        match (present, spec.pull) {
            (Some(present), PullPolicy::IfNotPresent | PullPolicy::Never) => {
                let text =
                    format!("Container image \"{image}\" already present on machine and can be accessed by the pod");
                self.tell(false, "Pulled", text);
                return Ok(present.id);
            }
            (None, PullPolicy::Never) => {
                let text = format!("Container image \"{image}\" is not present with pull policy of Never");
                self.tell(true, "ErrImageNeverPull", text.clone());
                self.tell(true, "Failed", "Error: ErrImageNeverPull".to_owned());
                return Err(StartError::Image("ErrImageNeverPull", text));
            }
            _ => {}
        }
        self.tell(false, "Pulling", format!("Pulling image \"{image}\""));
        let began = clock::now();
        match self.runtime.pull_image(image, &spec.name, &self.config).await {
            Ok(pulled) => {
                let took = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
                let took = GoDuration::from_nanos(took.saturating_mul(1_000_000));
                let text = format!(
                    "Successfully pulled image \"{image}\" in {took} ({took} including waiting). Image size: {} bytes.",
                    pulled.size
                );
                self.tell(false, "Pulled", text);
                Ok(pulled.id)
            }
            Err(error) => {
                self.tell(true, "Failed", format!("Failed to pull image \"{image}\": {error}"));
                self.tell(true, "Failed", "Error: ErrImagePull".to_owned());
                Err(pull_error(error))
            }
        }
    }

    async fn start(&self, spec: Arc<ContainerSpec>, image_ref: Arc<str>) -> Result<ContainerStatus, StartError> {
        let failed = |error: &cri::Error| self.tell(true, "Failed", format!("Error: {error}"));
        let create_error = |error: cri::Error| {
            failed(&error);
            StartError::Create(error.to_string())
        };
        // The log of the container before is kept, older ones go.
        for old in self.runtime.list_containers(&self.sandbox).await.map_err(create_error)? {
            if old.name == spec.name && old.id != self.before {
                self.runtime.remove_container(&old.id).await.map_err(create_error)?;
            }
        }
        let config = ContainerConfig { spec, attempt: self.attempt, image_ref };
        let id = self.runtime.create_container(&self.sandbox, &config, &self.config).await.map_err(create_error)?;
        self.tell(false, "Created", "Container created".to_owned());
        let start_error = |error: cri::Error| {
            failed(&error);
            StartError::Start(id.clone(), error.to_string())
        };
        self.runtime.start_container(&id).await.map_err(start_error)?;
        self.tell(false, "Started", "Container started".to_owned());
        self.runtime.container_status(&id).await.map_err(start_error)
    }
}

struct Stop {
    item: Arc<Item<PodView>>,
    /// Index and id of what runs, sidecars apart.
    main: Vec<(usize, Str)>,
    sidecars: Vec<(usize, Str)>,
    grace: Duration,
    config: PodSandboxConfig,
    runtime: Arc<dyn Runtime>,
    teller: Teller,
}

impl Stop {
    fn of(pod: &Pod, grace: i64, config: PodSandboxConfig, runtime: Arc<dyn Runtime>, teller: Teller) -> Self {
        let sidecar = |index: &usize| pod.template().init.get(*index).is_some_and(|spec| spec.sidecar);
        let running = pod.containers.iter().enumerate().filter(|(_, container)| container.running());
        let (sidecars, main) =
            running.map(|(index, container)| (index, container.id.clone())).partition(|(index, _)| sidecar(index));
        let grace = Duration::from_secs(u64::try_from(grace.max(LEAST_GRACE)).unwrap_or(0));
        Self { item: pod.item.clone(), main, sidecars, grace, config, runtime, teller }
    }

    /// Main containers together, then sidecars in reverse, then the sandbox with whatever is left (KEP-753).
    async fn run(self) -> cri::Result<Vec<ContainerStatus>> {
        join_all(self.main.iter().map(|(index, id)| self.end(*index, id)))
            .await
            .into_iter()
            .collect::<cri::Result<()>>()?;
        for (index, id) in self.sidecars.iter().rev() {
            self.end(*index, id).await?;
        }
        let mut statuses = Vec::new();
        for sandbox in self.runtime.list_pod_sandbox(Some(&self.config.uid)).await? {
            self.runtime.stop_pod_sandbox(&sandbox.id).await?;
            statuses.extend(self.runtime.list_containers(&sandbox.id).await?);
        }
        Ok(statuses)
    }

    async fn end(&self, index: usize, id: &str) -> cri::Result<()> {
        let name = specs(&self.item.value.template).nth(index).map_or("", |spec| spec.name.as_str());
        let message = format!("Stopping container {name}");
        self.teller
            .tell(&self.item, Tell { container: Some(index), warning: false, reason: "Killing".into(), message });
        self.runtime.stop_container(id, self.grace).await
    }
}
