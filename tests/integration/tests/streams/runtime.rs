//! The simulated runtime, whose containers run commands of this machine and whose ports are this machine's.

use std::time::Duration;

use async_trait::async_trait;
use ipnet::IpNet;
use oarlock_kubelet::Sim;
use oarlock_kubelet::cri::{
    ContainerConfig, ContainerStatus, ExecOutput, Image, LogOptions, LogStream, PodSandboxConfig, Pull, Recall, Result,
    Runtime, RuntimeEvent, SandboxStatus, Streams, Version,
};
use oarlock_runtime::System;
use oarlock_schema::Str;

use super::streaming_server::{Job, StreamingServer};

#[derive(Debug)]
pub(super) struct WithCommands {
    sim: Sim,
    server: StreamingServer,
}

impl WithCommands {
    pub(super) async fn start(system: &System) -> Self {
        Self { sim: Sim::new("10.244.0.0/24".parse().unwrap()), server: StreamingServer::start(system).await }
    }
}

#[async_trait]
impl Runtime for WithCommands {
    fn version(&self) -> Version {
        self.sim.version()
    }
    async fn update_runtime_config(&self, pod_cidr: IpNet) -> Result<()> {
        self.sim.update_runtime_config(pod_cidr).await
    }
    async fn run_pod_sandbox(&self, config: &PodSandboxConfig) -> Result<Str> {
        self.sim.run_pod_sandbox(config).await
    }
    async fn stop_pod_sandbox(&self, id: &str) -> Result<()> {
        self.sim.stop_pod_sandbox(id).await
    }
    async fn remove_pod_sandbox(&self, id: &str) -> Result<()> {
        self.sim.remove_pod_sandbox(id).await
    }
    async fn pod_sandbox_status(&self, id: &str) -> Result<SandboxStatus> {
        self.sim.pod_sandbox_status(id).await
    }
    async fn list_pod_sandbox(&self, pod_uid: Option<&str>) -> Result<Vec<SandboxStatus>> {
        self.sim.list_pod_sandbox(pod_uid).await
    }
    async fn create_container(&self, sandbox: &str, config: &ContainerConfig, pod: &PodSandboxConfig) -> Result<Str> {
        self.sim.create_container(sandbox, config, pod).await
    }
    async fn start_container(&self, id: &str) -> Result<()> {
        self.sim.start_container(id).await
    }
    async fn stop_container(&self, id: &str, timeout: Duration) -> Result<()> {
        self.sim.stop_container(id, timeout).await
    }
    async fn remove_container(&self, id: &str) -> Result<()> {
        self.sim.remove_container(id).await
    }
    async fn list_containers(&self, sandbox: &str) -> Result<Vec<ContainerStatus>> {
        self.sim.list_containers(sandbox).await
    }
    async fn container_status(&self, id: &str) -> Result<ContainerStatus> {
        self.sim.container_status(id).await
    }
    async fn pull_image(&self, pull: Pull<'_>) -> Result<Image> {
        self.sim.pull_image(pull).await
    }
    async fn image_status(&self, image: &str, container: &str, pod: &PodSandboxConfig) -> Result<Option<Image>> {
        self.sim.image_status(image, container, pod).await
    }
    async fn list_images(&self) -> Result<Vec<Image>> {
        self.sim.list_images().await
    }
    async fn container_event(&self) -> RuntimeEvent {
        self.sim.container_event().await
    }
    async fn container_log(&self, id: &str, options: LogOptions) -> Result<Box<dyn LogStream>> {
        self.sim.container_log(id, options).await
    }
    async fn recall(&self, pod: Recall) -> Result<Option<Str>> {
        self.sim.recall(pod).await
    }

    async fn exec_sync(&self, _: &str, command: &[Str], _: Duration) -> Result<ExecOutput> {
        let ran = tokio::process::Command::new(&*command[0]).args(command[1..].iter().map(|arg| &**arg)).output();
        let ran = ran.await.unwrap();
        let exit_code = ran.status.code().unwrap_or(-1);
        Ok(ExecOutput { stdout: ran.stdout.into(), stderr: ran.stderr.into(), exit_code })
    }
    async fn exec(&self, id: &str, command: &[Str], streams: Streams) -> Result<String> {
        self.sim.container_status(id).await?;
        Ok(self.server.expect(Job::Run(command.to_vec(), streams)))
    }
    async fn attach(&self, id: &str, streams: Streams) -> Result<String> {
        self.sim.container_status(id).await?;
        let command = ["sh", "-c", "echo attached; cat"].map(Str::from);
        Ok(self.server.expect(Job::Run(command.to_vec(), streams)))
    }
    async fn port_forward(&self, sandbox: &str, _: &[u16]) -> Result<String> {
        self.sim.pod_sandbox_status(sandbox).await?;
        Ok(self.server.expect(Job::Forward))
    }
}
