//! Host resources of pods on a real machine (volumes, cgroups, logs), and the runtime's configurations that depend on them.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oarlock_client::Client;
use oarlock_informer::Cache;
use oarlock_meta::Quantity;
use oarlock_runtime::clock;
use oarlock_schema::Obj;
use oarlock_schema::views::core_v1::Pod;

use crate::cgroups::Cgroups;
use crate::config::{Machine, NodeConfig};
use crate::configs::{self, Made, log_directory, pod_limits};
use crate::cri::{Image, v1};
use crate::dns::{self, Dns};
use crate::downward::{self, Surroundings};
use crate::environment::{self, ServiceView};
use crate::event_sender::WarningEvent;
use crate::machine_metrics::{self, CgroupOperation};
use crate::manifests::SOURCE;
use crate::pod_error::PodError;
use crate::references::References;
use crate::volumes::{Failed, HostsFile, Mount, Mounted, Propagation, Volumes};
use crate::{credentials, hosts, machine};

/// Host resources of the pods of one machine.
#[derive(Debug)]
pub(crate) struct HostResources {
    machine: Machine,
    cgroups: Cgroups,
    references: References,
    volumes: Volumes,
    services: Arc<Cache<ServiceView>>,
    around: Surroundings,
    /// Memory of the machine in bytes.
    memory: i64,
    pages: Vec<u64>,
}

impl HostResources {
    /// Creates the manager of a machine's host resources; `None` for a simulated node. `services` holds the cluster's Services, kept current by the caller.
    pub(super) fn new(client: &Client, config: &NodeConfig, services: Arc<Cache<ServiceView>>) -> Option<Self> {
        let machine = config.machine.clone()?;
        let memory = config.capacity.get("memory").and_then(|text| Quantity::parse(text).ok());
        let around = Surroundings {
            host_ips: vec![config.internal_ip],
            pod_ips: Vec::new(),
            allocatable: config.allocatable.clone(),
        };
        Some(Self {
            cgroups: Cgroups::new(&machine.cgroup_root),
            references: References::new(client.clone(), machine.sync_frequency / 2),
            volumes: Volumes::new(&machine.root_dir),
            services,
            around,
            memory: memory.map_or(0, |memory| memory.value()),
            pages: machine::page_sizes(),
            machine,
        })
    }

    /// Registers a new pod: cached objects that it refers to are read again.
    pub(super) fn registered(&self, object: &Obj) {
        self.references.registered(downward::pod(object));
    }

    /// Returns the facts for the downward API of a pod with these addresses.
    fn around(&self, pod: Pod<'_>, ips: &[IpAddr]) -> Surroundings {
        let own = if pod.spec().host_network() { &self.around.host_ips } else { ips };
        Surroundings { pod_ips: own.to_vec(), ..self.around.clone() }
    }

    /// Makes the volumes and the cgroup of a pod, before its sandbox.
    pub(super) async fn prepare(&self, object: &Arc<Obj>) -> Result<(), Vec<WarningEvent>> {
        let pod = downward::pod(object);
        let began = clock::now();
        let made = self.cgroups.make(&self.cgroups.parent(pod), &pod_limits(pod));
        machine_metrics::cgroup(CgroupOperation::Create, began.elapsed());
        let failed = |why| vec![("FailedCreatePodContainer", format!("unable to ensure pod container exists: {why}"))];
        made.map_err(failed)?;
        let failed = |failed: Failed| {
            tracing::debug!(pod = pod.metadata().name(), permanent = failed.permanent, "volumes not set up");
            let mut all: Vec<WarningEvent> = failed.messages.iter().map(|text| ("FailedMount", text.clone())).collect();
            all.push(("FailedMount", failed.summary()));
            all
        };
        self.set_up(object, &[]).await.map(|_| ()).map_err(failed)
    }

    async fn set_up(&self, object: &Arc<Obj>, ips: &[IpAddr]) -> Result<Mounted, Failed> {
        let around = self.around(downward::pod(object), ips);
        self.volumes.set_up(object, &around, &self.references).await
    }

    /// Updates the volumes of a running pod. Returns the message of its eviction when a volume exceeds its limit.
    pub(super) async fn keep_up(&self, object: &Arc<Obj>, ips: &[IpAddr]) -> Option<String> {
        let name = downward::pod(object).metadata().name();
        let around = self.around(downward::pod(object), ips);
        match self.volumes.refresh(object, &around, &self.references).await {
            Ok(mounted) => {
                for stale in mounted.values().filter_map(|volume| volume.stale.as_ref()) {
                    tracing::warn!(pod = name, stale, "volume not brought up to date");
                }
                self.volumes.over_limit(object, &mounted).await
            }
            Err(failed) => {
                tracing::warn!(pod = name, failed = ?failed.messages, "volumes not brought up to date");
                None
            }
        }
    }

    /// Returns the runtime's configuration of a pod's sandbox, and Warning events about it.
    pub(super) async fn sandbox(
        &self,
        object: &Obj,
        attempt: u32,
    ) -> Result<(v1::PodSandboxConfig, Vec<WarningEvent>), PodError> {
        let pod = downward::pod(object);
        let dns = Dns {
            servers: self.machine.cluster_dns.clone(),
            domain: self.machine.cluster_domain.clone(),
            host: Some(dns::read(&self.machine.resolv_conf).await?),
            node_ips: self.around.host_ips.clone(),
        };
        configs::sandbox(pod, attempt, &dns, &self.machine.pod_logs_dir, self.cgroups.parent(pod))
    }

    /// Returns the runtime's configuration of a container to create.
    ///
    /// # Errors
    /// When the container cannot be configured: the message of `CreateContainerConfigError`.
    pub(super) async fn container(
        &self,
        object: &Arc<Obj>,
        name: &str,
        attempt: u32,
        image: &Image,
        ips: &[IpAddr],
    ) -> Result<v1::ContainerConfig, PodError> {
        let pod = downward::pod(object);
        let spec = downward::find(pod, name).ok_or_else(|| PodError::Invalid(format!("container {name} not found")))?;
        let around = self.around(pod, ips);
        let namespace = pod.metadata().namespace();
        let mounted = self.set_up(object, ips).await.map_err(|failed| failed.error())?;
        let mut found = self.references.find(namespace, environment::needs(spec)).await;
        self.volumes.read(object, spec, &mounted, &mut found).await;
        // Static pods start without waiting for an API server, even if one would add variables later.
        let waits = pod.metadata().annotations().get(SOURCE) != Some("file");
        let services = self.service_variables(namespace, pod.spec().enable_service_links() != Some(false), waits)?;
        let variables = environment::variables(pod, spec, &around, &found, &services)?;
        let (host, domain) = hosts::host_name(pod, &self.machine.cluster_domain)?;
        let hosts = HostsFile { name: host, domain, ips: around.pod_ips.clone(), recursive_read_only: false };
        let own = self.volumes.container(object, (name, attempt), &mounted, &variables, hosts).await?;
        let made = Made {
            attempt,
            image,
            variables: &variables,
            mounts: own.mounts.into_iter().map(mount).collect(),
            seccomp: &self.machine.root_dir.join("seccomp"),
            memory: self.memory,
            pages: &self.pages,
        };
        configs::container(pod, spec, made)
    }

    /// Returns the registry credentials to try for an image.
    pub(super) async fn credentials(&self, object: &Obj, image: &str) -> Vec<v1::AuthConfig> {
        let pod = downward::pod(object);
        let found = self.references.find(pod.metadata().namespace(), credentials::needs(pod)).await;
        credentials::for_image(pod, &found, image)
    }

    fn service_variables(&self, namespace: &str, links: bool, waits: bool) -> Result<environment::Variables, PodError> {
        if waits && !self.services.is_synced() {
            return Err(PodError::NotReady(
                "services have not yet been read at least once, cannot construct envvars".to_owned(),
            ));
        }
        let all = self.services.list();
        let all = all.iter().map(|item| (item.meta.namespace(), item.meta.name(), &item.value));
        Ok(environment::service_variables(all, namespace, links))
    }

    /// Removes the volumes of a pod whose containers have ended.
    pub(super) async fn tear_down(&self, uid: &str) -> Result<(), PodError> {
        self.volumes.tear_down(uid).await
    }

    /// Removes volumes, cgroup, directories and logs of a pod, which the runtime does not remove. No container of the pod may run. Idempotent.
    pub(super) async fn clear(&self, uid: &str, logs: Option<&str>) -> Result<(), PodError> {
        self.references.forget_pod(uid);
        self.volumes.tear_down(uid).await?;
        let began = clock::now();
        let removed = self.cgroups.remove(uid);
        machine_metrics::cgroup(CgroupOperation::Destroy, began.elapsed());
        removed.map_err(|error| PodError::NotReady(error.to_string()))?;
        match logs {
            Some(logs) => remove_dir(&self.machine.pod_logs_dir.join(logs)).await,
            None => Ok(()),
        }
    }

    /// Returns the name of a pod's log directory.
    pub(super) fn log_directory(object: &Obj) -> String {
        log_directory(downward::pod(object))
    }

    /// Returns the path of the log of one start of a container.
    pub(super) fn log_file(&self, object: &Obj, container: &str, attempt: u32) -> PathBuf {
        let dir = self.machine.pod_logs_dir.join(Self::log_directory(object));
        dir.join(container).join(format!("{attempt}.log"))
    }

    /// Returns the uids of pods with leftovers on the host, with their log directories where there are any.
    pub(super) async fn leftovers(&self) -> Result<Vec<(String, Option<String>)>, PodError> {
        let mut found: Vec<(String, Option<String>)> = Vec::new();
        found.extend(self.volumes.on_disk().await?.into_iter().map(|uid| (uid.to_string(), None)));
        let groups = self.cgroups.pods().map_err(|error| PodError::NotReady(error.to_string()))?;
        found.extend(groups.into_iter().map(|uid| (uid, None)));
        for dir in names(&self.machine.pod_logs_dir).await? {
            if let Some(uid) = dir.splitn(3, '_').nth(2).map(str::to_owned) {
                found.push((uid, Some(dir)));
            }
        }
        Ok(found)
    }
}

fn mount(own: Mount) -> v1::Mount {
    let propagation = match own.propagation {
        Propagation::Private => v1::MountPropagation::PropagationPrivate,
        Propagation::HostToContainer => v1::MountPropagation::PropagationHostToContainer,
        Propagation::Bidirectional => v1::MountPropagation::PropagationBidirectional,
    };
    v1::Mount {
        container_path: own.container_path,
        host_path: own.host_path.display().to_string(),
        readonly: own.read_only,
        propagation: propagation as i32,
        recursive_read_only: own.recursive_read_only,
    }
}

async fn remove_dir(dir: &Path) -> Result<(), PodError> {
    match tokio::fs::remove_dir_all(dir).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other.map_err(|error| PodError::NotReady(format!("{}: {error}", dir.display()))),
    }
}

/// Returns the names in a directory; an empty list when the directory does not exist.
async fn names(dir: &PathBuf) -> Result<Vec<String>, PodError> {
    let failed = |error: std::io::Error| PodError::NotReady(format!("{}: {error}", dir.display()));
    let mut entries = match tokio::fs::read_dir(dir).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    let mut names = Vec::new();
    while let Some(entry) = entries.next_entry().await.map_err(failed)? {
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}
