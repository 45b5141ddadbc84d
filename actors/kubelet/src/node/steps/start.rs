//! Starts one container: image, configuration, create, start.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use oarlock_runtime::clock;
use oarlock_schema::Str;

use super::Subject;
use crate::cri::{self, ContainerConfig, ContainerStatus, Image};
use crate::downward;
use crate::hooks::{self, Hooks};
use crate::pod::{Pod, StartError, StartReport, State};
use crate::pod_error::PodError;
use crate::template::ContainerSpec;
use crate::trace;

/// Grace period of a container whose postStart hook failed.
const FAILED_HOOK_GRACE: Duration = Duration::from_secs(2);

pub(super) struct Start {
    pub(super) subject: Subject,
    index: usize,
    spec: Option<Arc<ContainerSpec>>,
    sandbox: Str,
    attempt: u32,
    ips: Vec<IpAddr>,
    /// Id of the previous container, whose log is kept.
    before: Str,
}

impl Start {
    pub(super) fn of(pod: &Pod, index: usize, subject: Subject) -> Self {
        let container = pod.containers.get(index);
        let ended = container.is_some_and(|c| matches!(c.state, State::Ended(_)) || c.last.is_some());
        Self {
            subject,
            index,
            spec: pod.spec(index).cloned(),
            sandbox: pod.sandbox.clone().unwrap_or_default(),
            attempt: container.map_or(0, |container| container.restarts) + u32::from(ended),
            ips: pod.ips(),
            before: container.map_or_else(Str::default, |container| container.id.clone()),
        }
    }

    pub(super) fn send_event(&self, warning: bool, reason: &str, message: String) {
        self.subject.send_event(Some(self.index), warning, reason, message);
    }

    pub(super) async fn run(mut self) -> StartReport {
        let end = Err(StartError::Create("no such container".to_owned()));
        let mut report = StartReport { index: self.index, image_id: None, end };
        let Some(spec) = self.spec.clone() else { return report };
        let began = self.subject.life.as_ref().map(|_| clock::now());
        if let Err(why) = self.subject.complete().await {
            let error = self.not_configured(&why);
            if let (Some(life), Some(began)) = (&self.subject.life, began) {
                let name = [("k8s.container.name", spec.name.to_string())];
                life.record("start", name, began, Some(error.message()));
            }
            report.end = Err(error);
            return report;
        }
        report.end = match self.image(&spec).await {
            Ok(image) => {
                report.image_id = Some(image.id.clone());
                let name = || vec![("k8s.container.name", spec.name.to_string())];
                trace::step(self.subject.life.as_ref(), "start", name, self.start(&spec, &image)).await
            }
            Err(error) => Err(error),
        };
        report
    }

    fn not_configured(&self, why: &PodError) -> StartError {
        let (pod, permanent) = (self.subject.item.meta.name(), why.is_permanent());
        tracing::debug!(pod, permanent, %why, "container not configured");
        self.send_event(true, "Failed", format!("Error: {why}"));
        StartError::Config(why.to_string())
    }

    async fn start(&self, spec: &ContainerSpec, image: &Image) -> Result<ContainerStatus, StartError> {
        let failed = |error: &cri::Error| self.send_event(true, "Failed", format!("Error: {error}"));
        let create_error = |error: cri::Error| {
            failed(&error);
            StartError::Create(error.to_string())
        };
        let runtime = self.subject.runtime();
        // The log of the previous container is kept, older ones are removed.
        for old in runtime.list_containers(&self.sandbox).await.map_err(create_error)? {
            if old.name == spec.name && old.id != self.before {
                runtime.remove_container(&old.id).await.map_err(create_error)?;
            }
        }
        let full = match (&self.subject.tools.host_resources, &self.subject.item.value.whole) {
            (Some(host_resources), Some(whole)) => {
                let made = host_resources.container(whole, &spec.name, self.attempt, image, &self.ips).await;
                Some(Box::new(made.map_err(|why| self.not_configured(&why))?))
            }
            _ => None,
        };
        let config = ContainerConfig {
            name: spec.name.clone(),
            attempt: self.attempt,
            image_ref: image.own.clone(),
            first_probe: spec.first_probe,
            full,
        };
        let id = runtime.create_container(&self.sandbox, &config, &self.subject.config).await.map_err(create_error)?;
        self.send_event(false, "Created", "Container created".to_owned());
        let start_error = |error: cri::Error| {
            failed(&error);
            StartError::Start(id.clone(), error.to_string())
        };
        runtime.start_container(&id).await.map_err(start_error)?;
        self.send_event(false, "Started", "Container started".to_owned());
        self.post_start(spec, &id).await;
        runtime.container_status(&id).await.map_err(start_error)
    }

    /// Runs the postStart hook; a container whose hook fails is killed.
    async fn post_start(&self, spec: &ContainerSpec, id: &str) {
        let Some(whole) = &self.subject.item.value.whole else { return };
        let found = downward::find(downward::pod(whole), &spec.name);
        let Some(hook) = found.and_then(|found| Hooks::of(found).post_start) else { return };
        let target = self.subject.target(id, &spec.name, self.ips.first().copied());
        let runtime = self.subject.runtime();
        match hooks::run(&hook, &target, hooks::POST_START_LIMIT, runtime).await {
            Ok(warning) => warning.into_iter().for_each(|(reason, text)| self.send_event(true, reason, text)),
            Err(error) => {
                tracing::debug!(pod = %self.subject.item.key(), %error, "postStart hook failed");
                let (reason, text) = hooks::FAILED_POST_START;
                self.send_event(true, reason, text.to_owned());
                self.send_event(false, "Killing", reason.to_owned());
                if let Err(error) = runtime.stop_container(id, FAILED_HOOK_GRACE).await {
                    tracing::warn!(pod = %self.subject.item.key(), %error, "container not stopped");
                }
            }
        }
    }
}
