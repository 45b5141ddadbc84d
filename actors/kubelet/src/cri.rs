//! The container runtime trait: nouns and verbs of CRI v1 (`k8s.io/cri-api/pkg/apis/runtime/v1`) as an async trait. The kubelet reaches containers only through
//! this trait, which `sim` implements with timers and `containerd` over gRPC. A runtime that does not support a verb returns [`Error::Unimplemented`].

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

/// Failure of a runtime call (gRPC codes of CRI).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The sandbox, container or image does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The call failed; the text is for users.
    #[error("{0}")]
    Failed(String),
    /// The call exceeded its deadline.
    #[error("{0}")]
    DeadlineExceeded(String),
    /// The runtime does not support the verb.
    #[error("runtime does not implement {0}")]
    Unimplemented(&'static str),
}

/// Result of a runtime call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// `VersionResponse`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Name of the runtime, such as `containerd`.
    pub runtime_name: Str,
    /// Version of the runtime, such as `2.1.0`.
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
    /// Number of earlier sandboxes of the pod.
    pub attempt: u32,
    /// Annotations of the pod, sorted by key; shared by the pods of one template.
    pub annotations: Arc<[(Str, Str)]>,
    /// Whether the pod uses the node's network, and so has no address of its own.
    pub host_network: bool,
    /// The complete CRI configuration, for runtimes of real machines.
    pub full: Option<Arc<v1::PodSandboxConfig>>,
}

/// State of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxState {
    /// `SANDBOX_READY`.
    Ready,
    /// `SANDBOX_NOTREADY`.
    NotReady,
}

/// `PodSandboxStatus`, with the fields the kubelet uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxStatus {
    /// Id of the sandbox.
    pub id: Str,
    /// Uid of its pod.
    pub uid: Str,
    /// Number of earlier sandboxes of the pod.
    pub attempt: u32,
    /// State of the sandbox.
    pub state: SandboxState,
    /// Addresses of the pod, the primary one first; empty in the node's network, and in answers to list calls.
    pub ips: Vec<IpAddr>,
}

/// `ContainerConfig`: configuration of a container to create.
#[derive(Clone, Debug)]
pub struct ContainerConfig {
    /// Name of the container in the pod.
    pub name: Str,
    /// Number of earlier containers of this name in the pod.
    pub attempt: u32,
    /// Reference of the image, as the pull returned it.
    pub image_ref: Arc<str>,
    /// Seconds until the first readiness or startup probe, if the container has one. Not part of CRI: simulated containers answer no probes.
    pub first_probe: Option<u32>,
    /// The complete CRI configuration, for runtimes of real machines.
    pub full: Option<Box<v1::ContainerConfig>>,
}

/// State of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// `CONTAINER_CREATED`.
    Created,
    /// `CONTAINER_RUNNING`.
    Running,
    /// `CONTAINER_EXITED`.
    Exited,
}

/// `ContainerStatus`. Times are Unix seconds, 0 for events that have not happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerStatus {
    /// Id of the container.
    pub id: Str,
    /// Name of the container in the pod.
    pub name: Str,
    /// Number of earlier containers of this name in the pod.
    pub attempt: u32,
    /// State of the container.
    pub state: ContainerState,
    /// Time of its start.
    pub started_at: i64,
    /// Time of its end.
    pub finished_at: i64,
    /// Exit code.
    pub exit_code: i32,
    /// Reason for the end, such as `OOMKilled`; empty for an ordinary exit.
    pub reason: Str,
    /// Termination message.
    pub message: Str,
    /// Value of `imageID`; empty where the runtime reports it with the pull only.
    pub image_ref: Str,
    /// Readiness as the runtime reports it; `None` where probes decide. Not part of CRI: simulated containers answer no probes.
    pub ready: Option<bool>,
}

/// `Image`: an image in the runtime's store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Value of `imageID`, a digest.
    pub id: Arc<str>,
    /// The runtime's own id of the image, from which containers are created.
    pub own: Arc<str>,
    /// Names and digests of the image.
    pub names: Vec<Str>,
    /// Size in bytes.
    pub size: u64,
    /// Numeric user of the image's containers, if the image names one.
    pub user: Option<i64>,
    /// User name of the image's containers, if the image names the user by name.
    pub username: Str,
    /// Whether the runtime needs the image itself: pinned images are never removed.
    pub pinned: bool,
}

/// `PullImageRequest`.
#[derive(Clone, Copy, Debug)]
pub struct Pull<'a> {
    /// Name of the image.
    pub image: &'a str,
    /// Name of the container that needs the image.
    pub container: &'a str,
    /// Pod of the container.
    pub pod: &'a PodSandboxConfig,
    /// Credentials for the registry.
    pub auth: Option<&'a v1::AuthConfig>,
}

/// `StatusResponse`: why the runtime or its network is not ready, as `NetworkReady=false reason:… message:…`; `None` for a ready one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeStatus {
    /// `RuntimeReady`.
    pub runtime: Option<String>,
    /// `NetworkReady`.
    pub network: Option<String>,
}

/// A change of state that no call caused (`ContainerEventResponse`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeEvent {
    /// A container's state has changed.
    Container {
        /// Uid of the pod.
        pod_uid: Str,
        /// New status of the container.
        status: ContainerStatus,
    },
    /// A sandbox has ended on its own.
    Sandbox {
        /// Id of the sandbox.
        id: Str,
    },
}

/// `ExecSyncResponse`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecOutput {
    /// Bytes written to standard output.
    pub stdout: Bytes,
    /// Bytes written to standard error.
    pub stderr: Bytes,
    /// Exit code of the command.
    pub exit_code: i32,
}

/// Connected streams of a command (the fields of `ExecRequest` and `AttachRequest`). The streaming server waits for exactly these streams, and with a terminal
/// also for a stream of window sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// Whether standard input is connected.
    pub stdin: bool,
    /// Whether standard output is connected.
    pub stdout: bool,
    /// Whether standard error is connected; never with a terminal.
    pub stderr: bool,
    /// Whether the command has a terminal.
    pub tty: bool,
}

/// Requested part of a log (upstream `v1.PodLogOptions` without the options that the kubelet handles itself).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Whether to continue with new output until the container ends.
    pub follow: bool,
    /// Number of last lines to return.
    pub tail_lines: Option<u64>,
    /// Unix second of the earliest line to return.
    pub since: Option<i64>,
    /// Whether each line begins with its time.
    pub timestamps: bool,
    /// Largest number of bytes to return.
    pub limit_bytes: Option<u64>,
}

/// A stream of log lines.
#[async_trait]
pub trait LogStream: Send {
    /// Returns the next lines; `None` at the end. Waits while a followed container writes nothing.
    async fn next(&mut self) -> Option<Result<Bytes>>;
}

/// A pod's state from the API, for recovering a pod after a kubelet restart in a runtime that ends with the kubelet.
#[derive(Clone, Debug)]
pub struct Recall {
    /// Configuration of the pod's sandbox.
    pub sandbox: PodSandboxConfig,
    /// Address of the pod, if it had one.
    pub ip: Option<IpAddr>,
    /// Containers that ran.
    pub running: Vec<RecalledContainer>,
}

/// State from the API of a container that ran before the kubelet restarted.
#[derive(Clone, Debug)]
pub struct RecalledContainer {
    /// The runtime's id of the container.
    pub id: Str,
    /// Name of the container in the pod.
    pub name: Str,
    /// Number of earlier containers of this name in the pod.
    pub attempt: u32,
    /// Unix second of its start.
    pub started_at: i64,
    /// Whether the container was ready.
    pub ready: bool,
    /// Seconds until the first readiness or startup probe, if the container has one.
    pub first_probe: Option<u32>,
}

/// A container runtime. Calls may take long, and their futures may be dropped before they finish; the caller must then query the state.
#[async_trait]
pub trait Runtime: Send + Sync + std::fmt::Debug + 'static {
    /// Returns name and version of the runtime.
    fn version(&self) -> Version;
    /// Whether containers keep running while no kubelet does. If so, the runtime and not the API is the source of truth after a restart.
    fn outlives_kubelet(&self) -> bool {
        false
    }
    /// `Status`: whether runtime and network are ready.
    async fn status(&self) -> Result<RuntimeStatus> {
        Ok(RuntimeStatus::default())
    }

    /// `UpdateRuntimeConfig`: sets the range of pod addresses.
    async fn update_runtime_config(&self, pod_cidr: IpNet) -> Result<()>;

    /// `RunPodSandbox`: starts a sandbox and returns its id.
    async fn run_pod_sandbox(&self, config: &PodSandboxConfig) -> Result<Str>;
    /// `StopPodSandbox`: kills the sandbox's containers and frees its address. Idempotent.
    async fn stop_pod_sandbox(&self, id: &str) -> Result<()>;
    /// `RemovePodSandbox`: removes a sandbox with all its containers. Idempotent.
    async fn remove_pod_sandbox(&self, id: &str) -> Result<()>;
    /// `PodSandboxStatus`.
    async fn pod_sandbox_status(&self, id: &str) -> Result<SandboxStatus>;
    /// `ListPodSandbox`: lists all sandboxes, or those of a pod; the newest first.
    async fn list_pod_sandbox(&self, pod_uid: Option<&str>) -> Result<Vec<SandboxStatus>>;

    /// `CreateContainer`: creates a container and returns its id.
    async fn create_container(&self, sandbox: &str, config: &ContainerConfig, pod: &PodSandboxConfig) -> Result<Str>;
    /// `StartContainer`.
    async fn start_container(&self, id: &str) -> Result<()>;
    /// `StopContainer`: asks a container to end, and kills it after `timeout`. Returns after its end. Idempotent.
    async fn stop_container(&self, id: &str, timeout: Duration) -> Result<()>;
    /// `RemoveContainer`. Idempotent.
    async fn remove_container(&self, id: &str) -> Result<()>;
    /// `ListContainers`: lists the containers of a sandbox.
    async fn list_containers(&self, sandbox: &str) -> Result<Vec<ContainerStatus>>;
    /// `ContainerStatus`.
    async fn container_status(&self, id: &str) -> Result<ContainerStatus>;

    /// `PullImage`: pulls an image and returns it.
    async fn pull_image(&self, pull: Pull<'_>) -> Result<Image>;
    /// `ImageStatus`: returns an image, `None` if not present. The pod's annotations are passed along, as in CRI's `ImageSpec`.
    async fn image_status(&self, image: &str, container: &str, pod: &PodSandboxConfig) -> Result<Option<Image>>;
    /// `ListImages`.
    async fn list_images(&self) -> Result<Vec<Image>>;
    /// Returns the runtime's own ids ([`Image::own`]) of the images that existing containers use.
    async fn images_in_use(&self) -> Result<BTreeSet<String>> {
        Err(Error::Unimplemented("ListContainers"))
    }
    /// `ListPodSandboxStats`: returns the statistics of every running sandbox; empty for runtimes without statistics.
    async fn list_pod_sandbox_stats(&self) -> Result<Vec<v1::PodSandboxStats>> {
        Ok(Vec::new())
    }
    /// `ImageFsInfo`: returns the directory of images.
    async fn image_fs(&self) -> Result<PathBuf> {
        Err(Error::Unimplemented("ImageFsInfo"))
    }
    /// `RemoveImage`. Idempotent.
    async fn remove_image(&self, image: &str) -> Result<()> {
        let _ = image;
        Err(Error::Unimplemented("RemoveImage"))
    }

    /// `GetContainerEvents`: returns the next event. Cancel safe.
    async fn container_event(&self) -> RuntimeEvent;

    /// Opens the log of a running or ended container (upstream's kubelets read it from the sandbox's log directory).
    async fn container_log(&self, id: &str, options: LogOptions) -> Result<Box<dyn LogStream>>;

    /// `ReopenContainerLog`: begins a new log file after the old one was renamed.
    async fn reopen_container_log(&self, id: &str) -> Result<()> {
        let _ = id;
        Err(Error::Unimplemented("ReopenContainerLog"))
    }

    /// `ExecSync`: runs a command in a container and returns its output.
    async fn exec_sync(&self, id: &str, command: &[Str], timeout: Duration) -> Result<ExecOutput> {
        let _ = (id, command, timeout);
        Err(Error::Unimplemented("ExecSync"))
    }
    /// `Exec`: returns the URL of the streaming server for a command.
    async fn exec(&self, id: &str, command: &[Str], streams: Streams) -> Result<String> {
        let _ = (id, command, streams);
        Err(Error::Unimplemented("Exec"))
    }
    /// `Attach`: returns the URL of the streaming server for a container's streams.
    async fn attach(&self, id: &str, streams: Streams) -> Result<String> {
        let _ = (id, streams);
        Err(Error::Unimplemented("Attach"))
    }
    /// `PortForward`: returns the URL of the streaming server for ports of a sandbox.
    async fn port_forward(&self, sandbox: &str, ports: &[u16]) -> Result<String> {
        let _ = (sandbox, ports);
        Err(Error::Unimplemented("PortForward"))
    }

    /// Recreates a pod that runs according to the API and is unknown to the runtime; returns its sandbox, or `None` when the runtime outlives the kubelet and
    /// so has the pods that run. Not part of CRI.
    async fn recall(&self, pod: Recall) -> Result<Option<Str>> {
        let _ = pod;
        Ok(None)
    }
}
