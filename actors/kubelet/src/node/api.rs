//! Writes the Node object, its status and its Lease.

use std::collections::BTreeMap;

use ipnet::IpNet;
use oarlock_client::{Call, Client, GetOptions, Object, PatchType, Reply, WriteOptions, decode};
use oarlock_meta::{MicroTime, Revision, Status, Time};
use oarlock_runtime::clock;
use oarlock_schema::views::core_v1::Node;
use oarlock_schema::{Resource, Str, resource, type_of_kind};
use serde_json::{Value, json};

use crate::affinity::NodeView;
use crate::config::{self, NodeConfig};
use crate::cri::Image;

/// Namespace of the nodes' Leases.
const LEASES: &str = "kube-node-lease";
/// Lease duration in seconds, after which a node without renewal counts as lost (upstream `nodeLeaseDurationSeconds`).
pub(crate) const LEASE_SECONDS: i64 = 40;
/// Largest number of images in a node's status (upstream `nodeStatusMaxImages`).
const MAX_IMAGES: usize = 50;
/// Period in seconds of writing an unchanged status (upstream `nodeStatusReportFrequency`).
pub(crate) const STATUS_REPORT_SECONDS: i64 = 300;

/// The Node as last read from or written to the API.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) view: NodeView,
    /// Revision at which the Node was read.
    pub(super) revision: Revision,
    pub(super) uid: String,
    pub(super) pod_cidr: Option<IpNet>,
    /// Status of condition Ready (`True`, `False` or `Unknown`), and the Unix second of its last write by this kubelet.
    ready: (Str, i64),
    /// Whether the last status write changed condition Ready.
    ready_changed: bool,
    /// Message of condition Ready when it is not `True`.
    complaint: String,
    images: usize,
}

/// API resources that a kubelet writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resources {
    pub(super) nodes: &'static Resource,
    pub(super) pods: &'static Resource,
    pub(super) services: &'static Resource,
    leases: &'static Resource,
}

impl Resources {
    pub(super) fn find() -> Option<Self> {
        Some(Self {
            nodes: resource("", "v1", "nodes")?,
            pods: resource("", "v1", "pods")?,
            services: resource("", "v1", "services")?,
            leases: resource("coordination.k8s.io", "v1", "leases")?,
        })
    }
}

impl Known {
    /// Records whether condition Ready differs from its previous status, if there was one.
    fn after(mut self, before: Option<&str>) -> Self {
        self.ready_changed = before.is_some_and(|before| !before.is_empty() && self.ready.0 != before);
        self
    }

    /// Returns the reason of the Event to send after a change of condition Ready.
    pub(super) fn ready_event(&self) -> Option<&'static str> {
        self.ready_changed.then_some(if self.ready.0 == "True" { "NodeReady" } else { "NodeNotReady" })
    }
}

fn read(object: &Object) -> Result<Known, Status> {
    let obj = object.obj()?;
    let node: Node<'_> = obj.view().unwrap_or_else(|| Node::from_option(None));
    let ready = node.status().conditions().iter().find(|condition| condition.type_() == "Ready");
    let beat = ready.and_then(|ready| Time::parse(ready.last_heartbeat_time()).ok()).map_or(0, Time::unix);
    Ok(Known {
        view: NodeView::read(node),
        revision: object.revision,
        uid: node.metadata().uid().to_owned(),
        pod_cidr: node.spec().pod_cidr().parse().ok(),
        ready: (ready.map_or("", |ready| ready.status()).into(), beat),
        ready_changed: false,
        complaint: ready.filter(|ready| ready.status() != "True").map_or("", |ready| ready.message()).to_owned(),
        images: node.status().images().len(),
    })
}

/// Returns why the node cannot run pods, in upstream's words; an empty text for a ready node.
async fn complaint(config: &NodeConfig) -> String {
    match config.runtime.status().await {
        Err(_) => "container runtime is down".to_owned(),
        Ok(status) => {
            let runtime = status.runtime.map(|why| format!("container runtime not ready: {why}"));
            let network = status.network.map(|why| format!("container runtime network not ready: {why}"));
            match (runtime, network) {
                (Some(runtime), Some(network)) => format!("[{runtime}, {network}]"),
                (runtime, network) => runtime.or(network).unwrap_or_default(),
            }
        }
    }
}

/// Returns the conditions with upstream's reasons. Transition times are kept where a condition's status has not changed.
fn conditions(was_ready: Option<&str>, complaint: &str) -> Value {
    let now = Time::from_unix(clock::wall().as_second()).to_string();
    let one = |kind: &str, status: &str, reason: &str, message: &str, flipped: bool| {
        let mut value =
            json!({"type": kind, "status": status, "reason": reason, "message": message, "lastHeartbeatTime": now});
        if flipped && let Some(map) = value.as_object_mut() {
            map.insert("lastTransitionTime".to_owned(), now.as_str().into());
        }
        value
    };
    // The node lifecycle controller sets all conditions of a lost node to Unknown.
    let lost = !matches!(was_ready, Some("True" | "False"));
    let flipped = was_ready != Some(if complaint.is_empty() { "True" } else { "False" });
    let ready = match complaint {
        "" => one("Ready", "True", "KubeletReady", "kubelet is posting ready status", flipped),
        why => one("Ready", "False", "KubeletNotReady", why, flipped),
    };
    json!([
        one("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available", lost),
        one("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure", lost),
        one("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available", lost),
        ready,
    ])
}

fn images(images: &[Image]) -> Value {
    let mut images: Vec<&Image> = images.iter().collect();
    images.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.id.cmp(&b.id)));
    let one = |image: &Image| {
        let mut names: Vec<&str> = vec![&image.id];
        names.extend(image.names.iter().map(oarlock_schema::Str::as_str));
        json!({"names": names, "sizeBytes": image.size})
    };
    images.into_iter().take(MAX_IMAGES).map(one).collect()
}

/// Returns the addresses of the node.
fn addresses(config: &NodeConfig) -> Vec<Value> {
    let mut addresses = vec![
        json!({"type": "InternalIP", "address": config.internal_ip}),
        json!({"type": "Hostname", "address": config.name.as_str()}),
    ];
    addresses.extend(config.internal_dns.as_ref().map(|name| json!({"type": "InternalDNS", "address": name.as_str()})));
    addresses
}

/// Returns the node's complete status.
fn full_status(config: &NodeConfig, was_ready: Option<&str>, complaint: &str, present: &[Image]) -> Value {
    let version = config.runtime.version();
    let kubelet = oarlock_schema::version::git_version();
    let amounts = |all: &BTreeMap<Str, Str>| -> Value {
        Value::Object(all.iter().map(|(name, amount)| (name.to_string(), amount.as_str().into())).collect())
    };
    let system = &config.system;
    json!({
        "capacity": amounts(&config.capacity),
        "allocatable": amounts(&config.allocatable),
        "conditions": conditions(was_ready, complaint),
        "addresses": addresses(config),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": config.port}},
        "nodeInfo": {
            "machineID": system.machine_id.as_str(),
            "systemUUID": system.system_uuid.as_str(),
            "bootID": system.boot_id.as_str(),
            "kernelVersion": system.kernel_version.as_str(),
            "osImage": system.os_image.as_str(),
            "containerRuntimeVersion": format!("{}://{}", version.runtime_name, version.runtime_version),
            "kubeletVersion": kubelet,
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": config::arch(),
        },
        "images": images(present),
    })
}

async fn patch(
    client: &Client,
    nodes: &'static Resource,
    subresource: &'static str,
    name: &str,
    body: &Value,
) -> Result<Object, Status> {
    let body = (PatchType::Strategic, body.to_string().into_bytes());
    client.patch(nodes, subresource, ("", name), body, WriteOptions::default()).await
}

/// Registers the node: creates the Node, or updates an existing one to this kubelet's facts (upstream `registerWithAPIServer`).
pub(super) async fn register(client: &Client, resources: Resources, config: &NodeConfig) -> Result<Known, Status> {
    let nodes = resources.nodes;
    let present = config.runtime.list_images().await.unwrap_or_default();
    let complaint = complaint(config).await;
    let was = match client.find(nodes, "", &config.name).await? {
        Some(object) => {
            let ready = read(&object)?.ready.0;
            patch(client, nodes, "", &config.name, &json!({"metadata": {"labels": config.node_labels()}})).await?;
            Some(ready)
        }
        None => {
            let ty = type_of_kind("", "v1", "Node").ok_or_else(|| Status::internal_error("the schema has no Node"))?;
            let node = json!({
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": config.name.as_str(),
                    "labels": config.node_labels(),
                    "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
                },
                "status": full_status(config, None, &complaint, &present),
            });
            match client.create(nodes, decode(ty, node.to_string().as_bytes())?).await {
                Ok(_) => {}
                Err(status) if status.is_already_exists() => {}
                Err(status) => return Err(status),
            }
            None
        }
    };
    let status = json!({"status": full_status(config, was.as_deref(), &complaint, &present)});
    Ok(read(&patch(client, nodes, "status", &config.name, &status).await?)?.after(was.as_deref()))
}

/// Reads the Node, and writes its status when it differs or is old. Returns `None` when the Node does not exist.
pub(super) async fn check(client: &Client, resources: Resources, config: &NodeConfig) -> Result<Option<Known>, Status> {
    let options = GetOptions { resource_version: Some(Revision::ZERO) };
    let object = match client.call(resources.nodes, "", "", &config.name, Call::Get(options)).await {
        Ok(Reply::Object { object, .. }) => object,
        Ok(_) => return Err(Status::internal_error("no Node in the answer to a get")),
        Err(status) if status.is_not_found() => return Ok(None),
        Err(status) => return Err(status),
    };
    let known = read(&object)?;
    let present = config.runtime.list_images().await.unwrap_or_default();
    let complaint = complaint(config).await;
    let (ready, beat) = &known.ready;
    let old = clock::wall().as_second() - beat >= STATUS_REPORT_SECONDS;
    let wanted = if complaint.is_empty() { "True" } else { "False" };
    let same = ready == wanted && known.complaint == complaint;
    if same && !old && known.images == present.len().min(MAX_IMAGES) {
        return Ok(Some(known));
    }
    let body =
        json!({"status": {"conditions": conditions(Some(ready.as_str()), &complaint), "images": images(&present)}});
    let now = read(&patch(client, resources.nodes, "status", &config.name, &body).await?)?;
    Ok(Some(now.after(Some(ready.as_str()))))
}

/// Renews the node's Lease, creating the Lease if necessary.
pub(super) async fn renew(client: &Client, resources: Resources, name: &str, uid: &str) -> Result<(), Status> {
    let now = MicroTime::from_unix_micros(clock::wall().as_microsecond()).to_string();
    let spec = json!({"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now});
    let body = (PatchType::Merge, json!({"spec": spec}).to_string().into_bytes());
    match client.patch(resources.leases, "", (LEASES, name), body, WriteOptions::default()).await {
        Ok(_) => return Ok(()),
        Err(status) if status.is_not_found() => {}
        Err(status) => return Err(status),
    }
    let ty = type_of_kind("coordination.k8s.io", "v1", "Lease")
        .ok_or_else(|| Status::internal_error("the schema has no Lease"))?;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": name,
            "namespace": LEASES,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}],
        },
        "spec": spec,
    });
    match client.create(resources.leases, decode(ty, lease.to_string().as_bytes())?).await {
        Err(status) if !status.is_already_exists() => Err(status),
        _ => Ok(()),
    }
}
