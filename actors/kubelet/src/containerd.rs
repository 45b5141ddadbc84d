//! Container runtime over CRI v1: containerd (1.6 or later) at its unix socket.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use ipnet::IpNet;
use oarlock_contracts::Method;
use oarlock_schema::Str;

use crate::cri::{
    ContainerConfig, ContainerState, ContainerStatus, Error, ExecOutput, Image, LogOptions, LogStream,
    PodSandboxConfig, Pull, Result, Runtime, RuntimeEvent, RuntimeStatus, SandboxState, SandboxStatus, Streams,
    Version,
    v1::{self, ImageService, RuntimeService},
};

mod events;
mod logs;
mod message;
mod socket;

pub(crate) use message::{PATH as MESSAGE_PATH, POLICY as MESSAGE_POLICY};
pub(crate) use socket::Socket;

/// Deadline of ordinary CRI calls (upstream's `--runtime-request-timeout`).
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// Deadline of an image pull. Upstream cancels a pull without progress, but CRI does not report progress, so only a very long pull is cancelled.
const PULL_TIMEOUT: Duration = Duration::from_secs(3600);
/// How long a stop may take beyond its grace period.
const STOP_MARGIN: Duration = Duration::from_secs(120);
/// Label on sandboxes and containers with the pod's uid.
const POD_UID: &str = "io.kubernetes.pod.uid";

/// A client of a CRI v1 runtime.
#[derive(Debug)]
pub struct Containerd {
    socket: Socket,
    version: Version,
    follower: tokio::sync::Mutex<events::Follower>,
}

impl Containerd {
    /// Connects to the runtime at `endpoint` (`unix:///run/containerd/containerd.sock`). Must be called inside tokio.
    ///
    /// # Errors
    /// When no runtime answers.
    pub async fn connect(endpoint: &str) -> Result<Self> {
        let socket = Socket::new(endpoint)?;
        let ask = v1::VersionRequest { version: "v1".to_owned() };
        let answer = socket.call(RuntimeService::VERSION, ask, REQUEST_TIMEOUT).await?;
        let version =
            Version { runtime_name: answer.runtime_name.into(), runtime_version: answer.runtime_version.into() };
        Ok(Self { socket, version, follower: tokio::sync::Mutex::new(events::Follower::new()) })
    }

    /// Returns the runtime's status of a container, and the uid of its pod.
    async fn status_of(&self, id: &str) -> Result<(Str, ContainerStatus)> {
        let status = self.raw_status(id).await?;
        let uid = status.labels.get(POD_UID).map_or("", String::as_str).into();
        Ok((uid, container(status).await))
    }

    async fn raw_status(&self, id: &str) -> Result<v1::ContainerStatus> {
        let ask = v1::ContainerStatusRequest { container_id: id.to_owned() };
        let answer = self.socket.call(RuntimeService::CONTAINER_STATUS, ask, REQUEST_TIMEOUT).await?;
        answer.status.ok_or_else(|| Error::Failed(format!("the runtime says nothing about container {id}")))
    }

    async fn sandboxes(&self, pod_uid: Option<&str>) -> Result<Vec<v1::PodSandbox>> {
        let label_selector = pod_uid.map(|uid| (POD_UID.to_owned(), uid.to_owned())).into_iter().collect();
        let ask = v1::ListPodSandboxRequest { filter: Some(v1::PodSandboxFilter { label_selector }) };
        let answer = self.socket.call(RuntimeService::LIST_POD_SANDBOX, ask, REQUEST_TIMEOUT).await?;
        Ok(answer.items)
    }

    async fn containers(&self, sandbox: Option<&str>) -> Result<Vec<v1::Container>> {
        let filter = sandbox.map(|id| v1::ContainerFilter { pod_sandbox_id: id.to_owned() });
        let ask = v1::ListContainersRequest { filter };
        let answer = self.socket.call(RuntimeService::LIST_CONTAINERS, ask, REQUEST_TIMEOUT).await?;
        Ok(answer.containers)
    }

    /// Makes a call whose answer is empty.
    async fn order<Q, R>(&self, method: Method<Q, R>, ask: Q, limit: Duration) -> Result<()>
    where
        Q: prost::Message + 'static,
        R: prost::Message + Default + 'static,
    {
        self.socket.call(method, ask, limit).await.map(|_| ())
    }
}

#[async_trait]
impl Runtime for Containerd {
    fn version(&self) -> Version {
        self.version.clone()
    }

    fn outlives_kubelet(&self) -> bool {
        true
    }

    async fn status(&self) -> Result<RuntimeStatus> {
        let ask = v1::StatusRequest { verbose: false };
        let answer = self.socket.call(RuntimeService::STATUS, ask, REQUEST_TIMEOUT).await?;
        let conditions = answer.status.unwrap_or_default().conditions;
        let unmet = |kind: &str| match conditions.iter().find(|condition| condition.r#type == kind) {
            Some(met) if met.status => None,
            Some(unmet) => Some(format!("{kind}=false reason:{} message:{}", unmet.reason, unmet.message)),
            None => Some(format!("{kind}=false")),
        };
        Ok(RuntimeStatus { runtime: unmet("RuntimeReady"), network: unmet("NetworkReady") })
    }

    async fn update_runtime_config(&self, pod_cidr: IpNet) -> Result<()> {
        let network_config = Some(v1::NetworkConfig { pod_cidr: pod_cidr.to_string() });
        let ask = v1::UpdateRuntimeConfigRequest { runtime_config: Some(v1::RuntimeConfig { network_config }) };
        self.order(RuntimeService::UPDATE_RUNTIME_CONFIG, ask, REQUEST_TIMEOUT).await
    }

    async fn run_pod_sandbox(&self, config: &PodSandboxConfig) -> Result<Str> {
        let ask = v1::RunPodSandboxRequest { config: Some(full(config)?), runtime_handler: String::new() };
        let answer = self.socket.call(RuntimeService::RUN_POD_SANDBOX, ask, REQUEST_TIMEOUT * 2).await?;
        Ok(answer.pod_sandbox_id.into())
    }

    async fn stop_pod_sandbox(&self, id: &str) -> Result<()> {
        let ask = v1::StopPodSandboxRequest { pod_sandbox_id: id.to_owned() };
        gone_is_fine(self.order(RuntimeService::STOP_POD_SANDBOX, ask, REQUEST_TIMEOUT).await)
    }

    async fn remove_pod_sandbox(&self, id: &str) -> Result<()> {
        // Removing a running sandbox might leave its network set up.
        self.stop_pod_sandbox(id).await?;
        let ask = v1::RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() };
        gone_is_fine(self.order(RuntimeService::REMOVE_POD_SANDBOX, ask, REQUEST_TIMEOUT).await)
    }

    async fn pod_sandbox_status(&self, id: &str) -> Result<SandboxStatus> {
        let ask = v1::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned() };
        let answer = self.socket.call(RuntimeService::POD_SANDBOX_STATUS, ask, REQUEST_TIMEOUT).await?;
        let status = answer.status.unwrap_or_default();
        let network = status.network.unwrap_or_default();
        let more = network.additional_ips.iter().map(|more| more.ip.as_str());
        let meta = status.metadata.unwrap_or_default();
        Ok(SandboxStatus {
            id: status.id.into(),
            uid: meta.uid.into(),
            attempt: meta.attempt,
            state: sandbox_state(status.state),
            ips: [network.ip.as_str()].into_iter().chain(more).filter_map(|ip| ip.parse().ok()).collect(),
        })
    }

    async fn list_pod_sandbox(&self, pod_uid: Option<&str>) -> Result<Vec<SandboxStatus>> {
        let one = |sandbox: v1::PodSandbox| {
            let meta = sandbox.metadata.unwrap_or_default();
            SandboxStatus {
                id: sandbox.id.into(),
                uid: meta.uid.into(),
                attempt: meta.attempt,
                state: sandbox_state(sandbox.state),
                ips: Vec::new(),
            }
        };
        let mut all = self.sandboxes(pod_uid).await?;
        all.sort_by_key(|sandbox| std::cmp::Reverse(sandbox.created_at));
        Ok(all.into_iter().map(one).collect())
    }

    async fn create_container(&self, sandbox: &str, config: &ContainerConfig, pod: &PodSandboxConfig) -> Result<Str> {
        let Some(own) = &config.full else { return Err(Error::Failed("no container configuration".to_owned())) };
        let ask = v1::CreateContainerRequest {
            pod_sandbox_id: sandbox.to_owned(),
            config: Some((**own).clone()),
            sandbox_config: Some(full(pod)?),
        };
        let answer = self.socket.call(RuntimeService::CREATE_CONTAINER, ask, REQUEST_TIMEOUT).await?;
        Ok(answer.container_id.into())
    }

    async fn start_container(&self, id: &str) -> Result<()> {
        let ask = v1::StartContainerRequest { container_id: id.to_owned() };
        self.order(RuntimeService::START_CONTAINER, ask, REQUEST_TIMEOUT).await
    }

    async fn stop_container(&self, id: &str, timeout: Duration) -> Result<()> {
        let seconds = i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX);
        let ask = v1::StopContainerRequest { container_id: id.to_owned(), timeout: seconds };
        gone_is_fine(self.order(RuntimeService::STOP_CONTAINER, ask, timeout + STOP_MARGIN).await)
    }

    async fn remove_container(&self, id: &str) -> Result<()> {
        let ask = v1::RemoveContainerRequest { container_id: id.to_owned() };
        gone_is_fine(self.order(RuntimeService::REMOVE_CONTAINER, ask, REQUEST_TIMEOUT).await)
    }

    async fn list_containers(&self, sandbox: &str) -> Result<Vec<ContainerStatus>> {
        let mut all = Vec::new();
        for listed in self.containers(Some(sandbox)).await? {
            match self.status_of(&listed.id).await {
                Ok((_, status)) => all.push(status),
                Err(Error::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    async fn container_status(&self, id: &str) -> Result<ContainerStatus> {
        self.status_of(id).await.map(|(_, status)| status)
    }

    async fn pull_image(&self, pull: Pull<'_>) -> Result<Image> {
        let ask = v1::PullImageRequest {
            image: Some(spec(pull.image)),
            auth: pull.auth.cloned(),
            sandbox_config: pull.pod.full.as_deref().cloned(),
        };
        let answer = self.socket.call(ImageService::PULL_IMAGE, ask, PULL_TIMEOUT).await?;
        let known = self.image(&answer.image_ref).await?;
        known.ok_or_else(|| Error::NotFound(format!("image {} is not there after it was pulled", pull.image)))
    }

    async fn image_status(&self, image: &str, _: &str, _: &PodSandboxConfig) -> Result<Option<Image>> {
        self.image(image).await
    }

    async fn list_images(&self) -> Result<Vec<Image>> {
        let ask = v1::ListImagesRequest {};
        let answer = self.socket.call(ImageService::LIST_IMAGES, ask, REQUEST_TIMEOUT).await?;
        Ok(answer.images.into_iter().map(image).collect())
    }

    async fn images_in_use(&self) -> Result<BTreeSet<String>> {
        let mut used: BTreeSet<String> =
            self.containers(None).await?.into_iter().map(|container| container.image_ref).collect();
        if let Some(sandbox) = self.sandbox_image().await?
            && let Some(image) = self.image(&sandbox).await?
        {
            used.insert(image.own.to_string());
        }
        Ok(used)
    }

    async fn list_pod_sandbox_stats(&self) -> Result<Vec<v1::PodSandboxStats>> {
        // containerd 1.6 fails a request for all sandboxes when one of them has ended.
        let mut all = Vec::new();
        for sandbox in self.list_pod_sandbox(None).await?.into_iter().filter(|one| one.state == SandboxState::Ready) {
            let ask = v1::PodSandboxStatsRequest { pod_sandbox_id: sandbox.id.to_string() };
            match self.socket.call(RuntimeService::POD_SANDBOX_STATS, ask, REQUEST_TIMEOUT).await {
                Ok(answer) => all.extend(answer.stats),
                // The sandbox ended meanwhile, or has no statistics; the other sandboxes still count.
                Err(error) => tracing::debug!(sandbox = %sandbox.id, %error, "no figures of a sandbox"),
            }
        }
        Ok(all)
    }

    async fn image_fs(&self) -> Result<PathBuf> {
        let answer = self.socket.call(ImageService::IMAGE_FS_INFO, v1::ImageFsInfoRequest {}, REQUEST_TIMEOUT).await?;
        let first = answer.image_filesystems.into_iter().find_map(|usage| usage.fs_id);
        first.map(|id| id.mountpoint.into()).ok_or_else(|| Error::Failed("the runtime keeps images nowhere".to_owned()))
    }

    async fn remove_image(&self, image: &str) -> Result<()> {
        let ask = v1::RemoveImageRequest { image: Some(spec(image)) };
        gone_is_fine(self.order(ImageService::REMOVE_IMAGE, ask, REQUEST_TIMEOUT).await)
    }

    async fn container_event(&self) -> RuntimeEvent {
        self.follower.lock().await.next(self).await
    }

    async fn container_log(&self, id: &str, options: LogOptions) -> Result<Box<dyn LogStream>> {
        let path = self.raw_status(id).await?.log_path;
        if path.is_empty() {
            return Err(Error::NotFound(format!("container {id} writes no log")));
        }
        let follow = options.follow.then(|| (self.socket.clone(), id.to_owned()));
        Ok(Box::new(logs::Log::open(path.into(), options, follow).await?))
    }

    async fn reopen_container_log(&self, id: &str) -> Result<()> {
        let ask = v1::ReopenContainerLogRequest { container_id: id.to_owned() };
        self.order(RuntimeService::REOPEN_CONTAINER_LOG, ask, REQUEST_TIMEOUT).await
    }

    async fn exec_sync(&self, id: &str, command: &[Str], timeout: Duration) -> Result<ExecOutput> {
        let cmd = command.iter().map(ToString::to_string).collect();
        // CRI counts whole seconds, and 0 would mean no limit.
        let seconds = i64::try_from(timeout.as_secs().max(1)).unwrap_or(i64::MAX);
        let ask = v1::ExecSyncRequest { container_id: id.to_owned(), cmd, timeout: seconds };
        let answer = self.socket.call(RuntimeService::EXEC_SYNC, ask, timeout + REQUEST_TIMEOUT).await?;
        Ok(ExecOutput { stdout: answer.stdout, stderr: answer.stderr, exit_code: answer.exit_code })
    }

    async fn exec(&self, id: &str, command: &[Str], streams: Streams) -> Result<String> {
        let Streams { stdin, stdout, stderr, tty } = streams;
        let cmd = command.iter().map(ToString::to_string).collect();
        let ask = v1::ExecRequest { container_id: id.to_owned(), cmd, tty, stdin, stdout, stderr };
        let answer = self.socket.call(RuntimeService::EXEC, ask, REQUEST_TIMEOUT).await?;
        Ok(answer.url)
    }

    async fn attach(&self, id: &str, streams: Streams) -> Result<String> {
        let Streams { stdin, stdout, stderr, tty } = streams;
        let ask = v1::AttachRequest { container_id: id.to_owned(), stdin, tty, stdout, stderr };
        let answer = self.socket.call(RuntimeService::ATTACH, ask, REQUEST_TIMEOUT).await?;
        Ok(answer.url)
    }

    async fn port_forward(&self, sandbox: &str, ports: &[u16]) -> Result<String> {
        let port = ports.iter().map(|port| i32::from(*port)).collect();
        let ask = v1::PortForwardRequest { pod_sandbox_id: sandbox.to_owned(), port };
        let answer = self.socket.call(RuntimeService::PORT_FORWARD, ask, REQUEST_TIMEOUT).await?;
        Ok(answer.url)
    }
}

impl Containerd {
    /// Returns the image of sandboxes, for versions that neither report nor pin it.
    async fn sandbox_image(&self) -> Result<Option<String>> {
        let ask = v1::StatusRequest { verbose: true };
        let answer = self.socket.call(RuntimeService::STATUS, ask, REQUEST_TIMEOUT).await?;
        let config = answer.info.get("config").and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
        Ok(config.and_then(|config| config.get("sandboxImage")?.as_str().map(str::to_owned)))
    }

    async fn image(&self, name: &str) -> Result<Option<Image>> {
        let ask = v1::ImageStatusRequest { image: Some(spec(name)) };
        let answer = self.socket.call(ImageService::IMAGE_STATUS, ask, REQUEST_TIMEOUT).await?;
        Ok(answer.image.map(image))
    }
}

fn spec(image: &str) -> v1::ImageSpec {
    v1::ImageSpec { image: image.to_owned(), user_specified_image: image.to_owned() }
}

fn full(config: &PodSandboxConfig) -> Result<v1::PodSandboxConfig> {
    config.full.as_deref().cloned().ok_or_else(|| Error::Failed("no sandbox configuration".to_owned()))
}

fn gone_is_fine(answer: Result<()>) -> Result<()> {
    match answer {
        Err(Error::NotFound(_)) => Ok(()),
        other => other,
    }
}

fn sandbox_state(state: i32) -> SandboxState {
    if state == v1::PodSandboxState::SandboxReady as i32 { SandboxState::Ready } else { SandboxState::NotReady }
}

fn image(image: v1::Image) -> Image {
    // `imageID` shows the registry's digest, or the runtime's own id for an image without one.
    let id = image.repo_digests.first().unwrap_or(&image.id).as_str().into();
    let names = image.repo_tags.iter().chain(&image.repo_digests).map(|name| Str::from(name.as_str())).collect();
    let user = image.uid.map(|uid| uid.value);
    let pinned = image.pinned;
    Image { id, own: image.id.as_str().into(), names, size: image.size, user, username: image.username.into(), pinned }
}

fn state(state: i32) -> ContainerState {
    match v1::ContainerState::try_from(state) {
        Ok(v1::ContainerState::ContainerCreated) => ContainerState::Created,
        Ok(v1::ContainerState::ContainerRunning) => ContainerState::Running,
        // A container whose state the runtime does not know must be started again, as upstream does.
        Ok(v1::ContainerState::ContainerExited | v1::ContainerState::ContainerUnknown) | Err(_) => {
            ContainerState::Exited
        }
    }
}

async fn container(status: v1::ContainerStatus) -> ContainerStatus {
    let state = state(status.state);
    let message = if state == ContainerState::Exited { message::read(&status).await } else { String::new() };
    let seconds = |nanos: i64| nanos.max(0) / 1_000_000_000;
    let meta = status.metadata.unwrap_or_default();
    ContainerStatus {
        id: status.id.into(),
        name: meta.name.into(),
        attempt: meta.attempt,
        state,
        started_at: seconds(status.started_at),
        finished_at: seconds(status.finished_at),
        exit_code: status.exit_code,
        reason: status.reason.into(),
        message: message.into(),
        image_ref: status.image_ref.into(),
        ready: None,
    }
}
