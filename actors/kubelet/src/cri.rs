//! What runs containers: the nouns and verbs of CRI v1 (`k8s.io/cri-api/pkg/apis/runtime/v1`), as an async trait.
//!
//! The kubelet knows no other way to a container. `sim` implements it with timers; containerd comes behind the same trait. Where a
//! runtime cannot do a verb it answers [`Error::Unimplemented`].

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use ipnet::IpNet;
use oarlock_schema::Str;

pub use oarlock_contracts::cri as v1;

/// Why a runtime could not do it (gRPC codes of CRI).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No such sandbox, container or image.
    #[error("{0}")]
    NotFound(String),
    /// It tried and failed; the text is for users.
    #[error("{0}")]
    Failed(String),
    /// It took longer than it was given.
    #[error("{0}")]
    DeadlineExceeded(String),
    /// It does not know the verb.
    #[error("runtime does not implement {0}")]
    Unimplemented(&'static str),
}

/// An answer of the runtime.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// `VersionResponse`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// As `containerd`.
    pub runtime_name: Str,
    /// As `2.1.0`.
    pub runtime_version: Str,
}

/// `PodSandboxConfig`.
#[derive(Clone, Debug)]
pub struct PodSandboxConfig {
    /// Name of the pod.
    pub name: Str,
    /// Namespace of the pod.
    pub namespace: Str,
    /// Uid of the pod.
    pub uid: Str,
    /// How many sandboxes of the pod came before.
    pub attempt: u32,
    /// Annotations of the pod, sorted by key; shared by the pods of one template.
    pub annotations: Arc<[(Str, Str)]>,
    /// The pod uses the node's network: it gets no address of its own.
    pub host_network: bool,
    /// The rest of it, for runtimes of machines.
    pub full: Option<Arc<v1::PodSandboxConfig>>,
}

/// What a sandbox is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxState {
    /// `SANDBOX_READY`.
    Ready,
    /// `SANDBOX_NOTREADY`.
    NotReady,
}

/// `PodSandboxStatus`, as far as it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxStatus {
    /// The sandbox.
    pub id: Str,
    /// Uid of its pod.
    pub uid: Str,
    /// How many sandboxes of the pod came before.
    pub attempt: u32,
    /// What it is doing.
    pub state: SandboxState,
    /// Its addresses, the primary one first; none in the node's network, and none in lists.
    pub ips: Vec<IpAddr>,
}

/// `ContainerConfig`: a container to be created.
#[derive(Clone, Debug)]
pub struct ContainerConfig {
    /// Its name in the pod.
    pub name: Str,
    /// How many containers of this name came before in the pod.
    pub attempt: u32,
    /// The image as the runtime named it when it was pulled.
    pub image_ref: Arc<str>,
    /// Seconds until the first readiness or startup probe, if there is one. Not of CRI: simulated containers answer no probes.
    pub first_probe: Option<u32>,
    /// The rest of it, for runtimes of machines.
    pub full: Option<Box<v1::ContainerConfig>>,
}

/// What a container is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// `CONTAINER_CREATED`.
    Created,
    /// `CONTAINER_RUNNING`.
    Running,
    /// `CONTAINER_EXITED`.
    Exited,
}

/// `ContainerStatus`. Times are Unix seconds, 0 when it did not come to that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerStatus {
    /// The container.
    pub id: Str,
    /// Its name in the pod.
    pub name: Str,
    /// How many containers of this name came before in the pod.
    pub attempt: u32,
    /// What it is doing.
    pub state: ContainerState,
    /// When it started.
    pub started_at: i64,
    /// When it ended.
    pub finished_at: i64,
    /// What it ended with.
    pub exit_code: i32,
    /// One word about its end, as `OOMKilled`; empty for the usual ones.
    pub reason: Str,
    /// What it said about its end.
    pub message: Str,
    /// What goes into `imageID`; empty where the runtime leaves that to the pull.
    pub image_ref: Str,
    /// Whether the runtime itself says that it is ready; `None` where probes tell. Not of CRI: simulated containers answer no probes.
    pub ready: Option<bool>,
}

/// `Image`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The reference that goes into `imageID`, a digest.
    pub id: Arc<str>,
    /// What the runtime itself calls it: what containers are made of.
    pub own: Arc<str>,
    /// Names under which it is known.
    pub names: Vec<Str>,
    /// Bytes.
    pub size: u64,
    /// The numeric user that its containers run as, where it names one.
    pub user: Option<i64>,
    /// The user's name, where it names one so.
    pub username: Str,
    /// The runtime needs it itself: it is never removed.
    pub pinned: bool,
}

/// `PullImageRequest`.
#[derive(Clone, Copy, Debug)]
pub struct Pull<'a> {
    /// What is pulled.
    pub image: &'a str,
    /// Name of the container that wants it.
    pub container: &'a str,
    /// The container's pod.
    pub pod: &'a PodSandboxConfig,
    /// Credentials for the registry.
    pub auth: Option<&'a v1::AuthConfig>,
}

/// Why the runtime or its network is not ready, as `NetworkReady=false reason:… message:…`; `None` when it is (`StatusResponse`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeStatus {
    /// `RuntimeReady`.
    pub runtime: Option<String>,
    /// `NetworkReady`.
    pub network: Option<String>,
}

/// Something happened that nobody asked for (`ContainerEventResponse`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeEvent {
    /// A container of this pod is now so.
    Container {
        /// Uid of the pod.
        pod_uid: Str,
        /// The container as it is now.
        status: ContainerStatus,
    },
    /// This sandbox ended by itself.
    Sandbox {
        /// The sandbox.
        id: Str,
    },
}

/// `ExecSyncResponse`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecOutput {
    /// What it wrote.
    pub stdout: Bytes,
    /// What it wrote to the other one.
    pub stderr: Bytes,
    /// What it ended with.
    pub exit_code: i32,
}

/// Which streams of a command are connected (the fields of `ExecRequest` and `AttachRequest`). The streaming server waits for exactly these,
/// and for one of sizes when there is a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// What it reads.
    pub stdin: bool,
    /// What it writes.
    pub stdout: bool,
    /// What it writes to the other one; never with a terminal.
    pub stderr: bool,
    /// It runs at a terminal.
    pub tty: bool,
}

/// Which part of a log (upstream `v1.PodLogOptions` without what the kubelet itself decides).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Go on as the container writes, until it ends.
    pub follow: bool,
    /// Only the last lines.
    pub tail_lines: Option<u64>,
    /// Nothing before this Unix second.
    pub since: Option<i64>,
    /// Each line begins with its time.
    pub timestamps: bool,
    /// At most so many bytes.
    pub limit_bytes: Option<u64>,
}

/// A log as it is read.
#[async_trait]
pub trait LogStream: Send {
    /// The next lines; `None` at the end. Waits while a followed container is silent.
    async fn next(&mut self) -> Option<Result<Bytes>>;
}

/// What the API remembers of a pod that ran before the kubelet restarted, for runtimes that do not outlive it.
#[derive(Clone, Debug)]
pub struct Recall {
    /// The pod.
    pub sandbox: PodSandboxConfig,
    /// Its address, if it had one.
    pub ip: Option<IpAddr>,
    /// Its containers that ran.
    pub running: Vec<RecalledContainer>,
}

/// A container that ran before the kubelet restarted, as the API remembers it.
#[derive(Clone, Debug)]
pub struct RecalledContainer {
    /// The runtime's id of it.
    pub id: Str,
    /// Its name in the pod.
    pub name: Str,
    /// How many containers of this name came before in the pod.
    pub attempt: u32,
    /// When it started, in Unix seconds.
    pub started_at: i64,
    /// Whether it was ready.
    pub ready: bool,
    /// Seconds until the first readiness or startup probe, if there is one.
    pub first_probe: Option<u32>,
}

/// A container runtime. Calls may take long and may be dropped half-way; whoever drops one asks for the state afterwards.
#[async_trait]
pub trait Runtime: Send + Sync + std::fmt::Debug + 'static {
    /// Who it is.
    fn version(&self) -> Version;
    /// Whether its containers run on while no kubelet does. Then it, and not the API, knows what runs.
    fn outlives_kubelet(&self) -> bool {
        false
    }
    /// `Status`.
    async fn status(&self) -> Result<RuntimeStatus> {
        Ok(RuntimeStatus::default())
    }

    /// `UpdateRuntimeConfig`: the addresses its pods get.
    async fn update_runtime_config(&self, pod_cidr: IpNet) -> Result<()>;

    /// `RunPodSandbox`: returns its id.
    async fn run_pod_sandbox(&self, config: &PodSandboxConfig) -> Result<Str>;
    /// `StopPodSandbox`: kills what still runs in it and gives back its address. Idempotent.
    async fn stop_pod_sandbox(&self, id: &str) -> Result<()>;
    /// `RemovePodSandbox`: with all its containers. Idempotent.
    async fn remove_pod_sandbox(&self, id: &str) -> Result<()>;
    /// `PodSandboxStatus`.
    async fn pod_sandbox_status(&self, id: &str) -> Result<SandboxStatus>;
    /// `ListPodSandbox`, all, or those of a pod; the latest first.
    async fn list_pod_sandbox(&self, pod_uid: Option<&str>) -> Result<Vec<SandboxStatus>>;

    /// `CreateContainer`: returns its id.
    async fn create_container(&self, sandbox: &str, config: &ContainerConfig, pod: &PodSandboxConfig) -> Result<Str>;
    /// `StartContainer`.
    async fn start_container(&self, id: &str) -> Result<()>;
    /// `StopContainer`: asks it to end, and kills it after `timeout`. Returns when it has ended. Idempotent.
    async fn stop_container(&self, id: &str, timeout: Duration) -> Result<()>;
    /// `RemoveContainer`. Idempotent.
    async fn remove_container(&self, id: &str) -> Result<()>;
    /// `ListContainers` of a sandbox.
    async fn list_containers(&self, sandbox: &str) -> Result<Vec<ContainerStatus>>;
    /// `ContainerStatus`.
    async fn container_status(&self, id: &str) -> Result<ContainerStatus>;

    /// `PullImage`: returns what goes into `imageID`.
    async fn pull_image(&self, pull: Pull<'_>) -> Result<Image>;
    /// `ImageStatus`: `None` when it is not there. As with CRI's `ImageSpec`, the pod's annotations come along.
    async fn image_status(&self, image: &str, container: &str, pod: &PodSandboxConfig) -> Result<Option<Image>>;
    /// `ListImages`.
    async fn list_images(&self) -> Result<Vec<Image>>;
    /// What the runtime itself calls the images that containers are made of ([`Image::own`]).
    async fn images_in_use(&self) -> Result<BTreeSet<String>> {
        Err(Error::Unimplemented("ListContainers"))
    }
    /// `PodSandboxStats` of every sandbox that runs; none where nobody takes the measure.
    async fn list_pod_sandbox_stats(&self) -> Result<Vec<v1::PodSandboxStats>> {
        Ok(Vec::new())
    }
    /// `ImageFsInfo`: where images are kept.
    async fn image_fs(&self) -> Result<PathBuf> {
        Err(Error::Unimplemented("ImageFsInfo"))
    }
    /// `RemoveImage`. Idempotent.
    async fn remove_image(&self, image: &str) -> Result<()> {
        let _ = image;
        Err(Error::Unimplemented("RemoveImage"))
    }

    /// `GetContainerEvents`: the next one. Cancel safe.
    async fn container_event(&self) -> RuntimeEvent;

    /// The log of a container, which may have ended (kubelets read it from the sandbox's log directory).
    async fn container_log(&self, id: &str, options: LogOptions) -> Result<Box<dyn LogStream>>;

    /// `ReopenContainerLog`: the log was renamed, it begins a new one.
    async fn reopen_container_log(&self, id: &str) -> Result<()> {
        let _ = id;
        Err(Error::Unimplemented("ReopenContainerLog"))
    }

    /// `ExecSync`.
    async fn exec_sync(&self, id: &str, command: &[Str], timeout: Duration) -> Result<ExecOutput> {
        let _ = (id, command, timeout);
        Err(Error::Unimplemented("ExecSync"))
    }
    /// `Exec`: the address of a streaming server.
    async fn exec(&self, id: &str, command: &[Str], streams: Streams) -> Result<String> {
        let _ = (id, command, streams);
        Err(Error::Unimplemented("Exec"))
    }
    /// `Attach`: the address of a streaming server.
    async fn attach(&self, id: &str, streams: Streams) -> Result<String> {
        let _ = (id, streams);
        Err(Error::Unimplemented("Attach"))
    }
    /// `PortForward`: the address of a streaming server.
    async fn port_forward(&self, sandbox: &str, ports: &[u16]) -> Result<String> {
        let _ = (sandbox, ports);
        Err(Error::Unimplemented("PortForward"))
    }

    /// Takes up a pod that the API says runs and the runtime does not know; returns its sandbox, `None` when the runtime outlives the
    /// kubelet and so knows better. Not of CRI.
    async fn recall(&self, pod: Recall) -> Result<Option<Str>> {
        let _ = pod;
        Ok(None)
    }
}
