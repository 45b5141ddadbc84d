//! Counts and times the calls to a container runtime (upstream: `instrumented_services`).

use std::array;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use ipnet::IpNet;
use oarlock_runtime::clock;
use oarlock_schema::Str;
use oarlock_telemetry::metrics::{Histogram, exponential};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::cri::{
    ContainerConfig, ContainerStatus, ExecOutput, Image, LogOptions, LogStream, PodSandboxConfig, Pull, Recall, Result,
    Runtime, RuntimeEvent, RuntimeStatus, SandboxStatus, Streams, Version, v1,
};
use crate::metrics::OperationLabel;

/// A verb of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Status,
    UpdateRuntimeConfig,
    RunPodSandbox,
    StopPodSandbox,
    RemovePodSandbox,
    PodSandboxStatus,
    ListPodSandbox,
    ListPodSandboxStats,
    CreateContainer,
    StartContainer,
    StopContainer,
    RemoveContainer,
    ListContainers,
    ContainerStatus,
    ReopenContainerLog,
    ExecSync,
    Exec,
    Attach,
    PortForward,
    PullImage,
    ImageStatus,
    ListImages,
    ImageFsInfo,
    RemoveImage,
}

/// Upstream's names of the operations, in their order.
const NAMES: [&str; 24] = [
    "status",
    "update_runtime_config",
    "run_podsandbox",
    "stop_podsandbox",
    "remove_podsandbox",
    "podsandbox_status",
    "list_podsandbox",
    "list_podsandbox_stats",
    "create_container",
    "start_container",
    "stop_container",
    "remove_container",
    "list_containers",
    "container_status",
    "reopen_container_log",
    "exec_sync",
    "exec",
    "attach",
    "port_forward",
    "pull_image",
    "image_status",
    "list_images",
    "image_fs_info",
    "remove_image",
];

/// The series of one operation.
#[derive(Debug)]
struct Series {
    calls: Counter,
    errors: Counter,
    durations: Histogram,
}

/// The metrics of all runtimes of a process.
struct Families {
    calls: Family<OperationLabel, Counter>,
    errors: Family<OperationLabel, Counter>,
    durations: Family<OperationLabel, Histogram, fn() -> Histogram>,
    /// Series by [`Operation`], made at the first call.
    series: [OnceLock<Series>; NAMES.len()],
}

static FAMILIES: LazyLock<Families> = LazyLock::new(|| {
    let families = Families::new();
    oarlock_telemetry::registry().declare(|registry| families.register(registry));
    families
});

impl Families {
    fn new() -> Self {
        Self {
            calls: Family::default(),
            errors: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(exponential(0.005, 2.5, 14))),
            series: array::from_fn(|_| OnceLock::new()),
        }
    }

    fn register(&self, registry: &mut Registry) {
        registry.register("kubelet_runtime_operations", "Calls to the container runtime", self.calls.clone());
        let help = "Calls to the container runtime that failed";
        registry.register("kubelet_runtime_operations_errors", help, self.errors.clone());
        let help = "Time of the calls to the container runtime";
        registry.register("kubelet_runtime_operations_duration_seconds", help, self.durations.clone());
    }

    fn count<T>(&self, operation: Operation, result: &Result<T>, took: Duration) {
        let Some((operation_type, series)) = NAMES.get(operation as usize).zip(self.series.get(operation as usize))
        else {
            return;
        };
        let series = series.get_or_init(|| {
            let label = OperationLabel { operation_type };
            Series {
                calls: self.calls.get_or_create_owned(&label),
                errors: self.errors.get_or_create_owned(&label),
                durations: self.durations.get_or_create_owned(&label),
            }
        });
        series.calls.inc();
        series.durations.observe(took.as_secs_f64());
        if result.is_err() {
            series.errors.inc();
        }
    }
}

/// A runtime whose calls are counted and timed.
#[derive(Debug)]
pub(crate) struct Measured(Arc<dyn Runtime>);

impl Measured {
    /// Wraps a runtime.
    pub(crate) fn wrap(runtime: Arc<dyn Runtime>) -> Arc<dyn Runtime> {
        Arc::new(Self(runtime))
    }
}

async fn timed<T>(operation: Operation, call: impl Future<Output = Result<T>>) -> Result<T> {
    let began = clock::now();
    let result = call.await;
    FAMILIES.count(operation, &result, began.elapsed());
    result
}

#[async_trait]
impl Runtime for Measured {
    fn version(&self) -> Version {
        self.0.version()
    }

    fn outlives_kubelet(&self) -> bool {
        self.0.outlives_kubelet()
    }

    async fn status(&self) -> Result<RuntimeStatus> {
        timed(Operation::Status, self.0.status()).await
    }

    async fn update_runtime_config(&self, pod_cidr: IpNet) -> Result<()> {
        timed(Operation::UpdateRuntimeConfig, self.0.update_runtime_config(pod_cidr)).await
    }

    async fn run_pod_sandbox(&self, config: &PodSandboxConfig) -> Result<Str> {
        timed(Operation::RunPodSandbox, self.0.run_pod_sandbox(config)).await
    }

    async fn stop_pod_sandbox(&self, id: &str) -> Result<()> {
        timed(Operation::StopPodSandbox, self.0.stop_pod_sandbox(id)).await
    }

    async fn remove_pod_sandbox(&self, id: &str) -> Result<()> {
        timed(Operation::RemovePodSandbox, self.0.remove_pod_sandbox(id)).await
    }

    async fn pod_sandbox_status(&self, id: &str) -> Result<SandboxStatus> {
        timed(Operation::PodSandboxStatus, self.0.pod_sandbox_status(id)).await
    }

    async fn list_pod_sandbox(&self, pod_uid: Option<&str>) -> Result<Vec<SandboxStatus>> {
        timed(Operation::ListPodSandbox, self.0.list_pod_sandbox(pod_uid)).await
    }

    async fn create_container(&self, sandbox: &str, config: &ContainerConfig, pod: &PodSandboxConfig) -> Result<Str> {
        timed(Operation::CreateContainer, self.0.create_container(sandbox, config, pod)).await
    }

    async fn start_container(&self, id: &str) -> Result<()> {
        timed(Operation::StartContainer, self.0.start_container(id)).await
    }

    async fn stop_container(&self, id: &str, timeout: Duration) -> Result<()> {
        timed(Operation::StopContainer, self.0.stop_container(id, timeout)).await
    }

    async fn remove_container(&self, id: &str) -> Result<()> {
        timed(Operation::RemoveContainer, self.0.remove_container(id)).await
    }

    async fn list_containers(&self, sandbox: &str) -> Result<Vec<ContainerStatus>> {
        timed(Operation::ListContainers, self.0.list_containers(sandbox)).await
    }

    async fn container_status(&self, id: &str) -> Result<ContainerStatus> {
        timed(Operation::ContainerStatus, self.0.container_status(id)).await
    }

    async fn pull_image(&self, pull: Pull<'_>) -> Result<Image> {
        timed(Operation::PullImage, self.0.pull_image(pull)).await
    }

    async fn image_status(&self, image: &str, container: &str, pod: &PodSandboxConfig) -> Result<Option<Image>> {
        timed(Operation::ImageStatus, self.0.image_status(image, container, pod)).await
    }

    async fn list_images(&self) -> Result<Vec<Image>> {
        timed(Operation::ListImages, self.0.list_images()).await
    }

    async fn images_in_use(&self) -> Result<BTreeSet<String>> {
        timed(Operation::ListContainers, self.0.images_in_use()).await
    }

    async fn list_pod_sandbox_stats(&self) -> Result<Vec<v1::PodSandboxStats>> {
        timed(Operation::ListPodSandboxStats, self.0.list_pod_sandbox_stats()).await
    }

    async fn image_fs(&self) -> Result<PathBuf> {
        timed(Operation::ImageFsInfo, self.0.image_fs()).await
    }

    async fn remove_image(&self, image: &str) -> Result<()> {
        timed(Operation::RemoveImage, self.0.remove_image(image)).await
    }

    // A wait, not a call.
    async fn container_event(&self) -> RuntimeEvent {
        self.0.container_event().await
    }

    async fn container_log(&self, id: &str, options: LogOptions) -> Result<Box<dyn LogStream>> {
        self.0.container_log(id, options).await
    }

    async fn reopen_container_log(&self, id: &str) -> Result<()> {
        timed(Operation::ReopenContainerLog, self.0.reopen_container_log(id)).await
    }

    async fn exec_sync(&self, id: &str, command: &[Str], timeout: Duration) -> Result<ExecOutput> {
        timed(Operation::ExecSync, self.0.exec_sync(id, command, timeout)).await
    }

    async fn exec(&self, id: &str, command: &[Str], streams: Streams) -> Result<String> {
        timed(Operation::Exec, self.0.exec(id, command, streams)).await
    }

    async fn attach(&self, id: &str, streams: Streams) -> Result<String> {
        timed(Operation::Attach, self.0.attach(id, streams)).await
    }

    async fn port_forward(&self, sandbox: &str, ports: &[u16]) -> Result<String> {
        timed(Operation::PortForward, self.0.port_forward(sandbox, ports)).await
    }

    async fn recall(&self, pod: Recall) -> Result<Option<Str>> {
        self.0.recall(pod).await
    }
}

#[cfg(test)]
mod tests {
    use oarlock_telemetry::metrics::{Format, encode};

    use super::*;
    use crate::cri::Error;

    #[test]
    fn calls_count_by_upstreams_names() {
        let (families, mut registry) = (Families::new(), Registry::default());
        families.register(&mut registry);
        let second = Duration::from_secs(1);
        families.count(Operation::RunPodSandbox, &Ok(()), second);
        families.count::<()>(Operation::RunPodSandbox, &Err(Error::Failed("no".to_owned())), second);
        families.count(Operation::RemoveImage, &Ok(()), second);
        let text = encode(Format::OpenMetrics, [&registry]);
        oarlock_testkit::metrics::has(
            &text,
            [
                "kubelet_runtime_operations_total{operation_type=\"run_podsandbox\"} 2",
                "kubelet_runtime_operations_errors_total{operation_type=\"run_podsandbox\"} 1",
                "kubelet_runtime_operations_total{operation_type=\"remove_image\"} 1",
                "kubelet_runtime_operations_duration_seconds_sum{operation_type=\"run_podsandbox\"} 2.0",
            ],
        );
        oarlock_testkit::metrics::check(
            &text,
            &[
                "kubelet_runtime_operations_total",
                "kubelet_runtime_operations_errors_total",
                "kubelet_runtime_operations_duration_seconds",
            ],
        );
    }
}
