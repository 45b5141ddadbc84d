//! Starts the kubelets of a process, and passes requests from the kubelet's server to their actors.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use oarlock_client::{Client, ListOptions, RawBody, RawReply};
use oarlock_informer::{Recorder, refusals_seen};
use oarlock_meta::{FieldSelector, Status};
use oarlock_runtime::{LoopHandle, Reply, System, clock};
use oarlock_schema::{Str, resource};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use crate::config::{Machine, NodeConfig};
use crate::cri::{self, LogStream, Runtime};
use crate::event_sender::{Budget, EventSender};
use crate::logs::LogRequest;
use crate::manifests::{self, Files, MANIFESTS};
use crate::measured::Measured;
use crate::node::command::{Command, RunningPod};
use crate::node::{self, NODE, Parts};

/// Largest number of queued requests to a node's actor.
const MAX_QUEUED_REQUESTS: usize = 64;
/// How long a node's actor may take to answer a request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Failure to start a kubelet.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The actor or its recorder could not be spawned: a node of this name runs already, or the system is shutting down.
    #[error("kubelet")]
    Spawn(#[from] oarlock_runtime::Error),
}

/// Result of this crate's functions.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Starts the kubelet of one node. `client` must be `system:node:<name>`.
///
/// # Errors
/// [`Error::Spawn`].
pub async fn start(system: &System, client: Client, config: NodeConfig) -> Result<KubeletHandle> {
    Fleet::new(system.clone()).add(client, config).await
}

/// The kubelets of one process: one actor for each, and one recorder of Events for all. Clones share the fleet.
#[derive(Clone, Debug)]
pub struct Fleet {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    system: System,
    budget: Arc<Budget>,
    recorder: tokio::sync::Mutex<Option<Recorder>>,
    nodes: Mutex<BTreeMap<Str, KubeletHandle>>,
    /// Manifests of the static pods of all nodes.
    manifests: Mutex<Option<watch::Receiver<Files>>>,
}

impl Fleet {
    /// Creates a fleet without nodes.
    #[must_use]
    pub fn new(system: System) -> Self {
        let budget = Arc::new(Budget::new());
        Self {
            inner: Arc::new(Inner {
                system,
                budget,
                recorder: tokio::sync::Mutex::default(),
                nodes: Mutex::default(),
                manifests: Mutex::default(),
            }),
        }
    }

    /// Makes every node added later run the static pods of the manifests in this directory, or of this single file.
    ///
    /// # Errors
    /// [`Error::Spawn`].
    pub fn follow_manifests(&self, path: PathBuf) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.read_manifests(path))
    }

    async fn read_manifests(&self, path: PathBuf) -> Result<()> {
        let (sender, receiver) = watch::channel(None);
        let (sender, key) = (Arc::new(sender), path.display().to_string());
        let run = move |ctx| manifests::run(ctx, path.clone(), sender.clone());
        self.inner.system.spawn_loop(&MANIFESTS, key, run).await?;
        self.take_manifests(receiver);
        Ok(())
    }

    /// Makes every node added later run the static pods of these manifests.
    pub(crate) fn take_manifests(&self, files: watch::Receiver<Files>) {
        *self.inner.manifests.lock() = Some(files);
    }

    /// Starts a node's kubelet. `client` must be `system:node:<name>`. Returns before the Node is registered; registration continues in the background.
    ///
    /// # Errors
    /// [`Error::Spawn`].
    pub fn add(&self, client: Client, config: NodeConfig) -> BoxFuture<'_, Result<KubeletHandle>> {
        Box::pin(self.begin(client, config))
    }

    async fn begin(&self, client: Client, mut config: NodeConfig) -> Result<KubeletHandle> {
        config.runtime = Measured::wrap(config.runtime);
        let client = refusals_seen(&client, "kubelet");
        let recorder = self.recorder(&client, &config.name).await?;
        let name = config.name.clone();
        let (commands, receiver) = mpsc::channel(MAX_QUEUED_REQUESTS);
        let (runtime, machine, port) = (config.runtime.clone(), config.machine.clone().map(Arc::new), config.port);
        let parts = Arc::new(Parts {
            client: client.clone(),
            config,
            event_sender: EventSender { recorder, budget: self.inner.budget.clone() },
            commands: tokio::sync::Mutex::new(receiver),
            manifests: self.inner.manifests.lock().clone(),
        });
        let spawned = self.inner.system.spawn_loop(&NODE, name.as_str(), move |ctx| node::run(ctx, parts.clone()));
        let actor = spawned.await?;
        let handle = KubeletHandle { name: name.clone(), actor, commands, runtime, client, machine, port };
        self.inner.nodes.lock().insert(name, handle.clone());
        Ok(handle)
    }

    async fn recorder(&self, client: &Client, host: &str) -> Result<Recorder> {
        let mut shared = self.inner.recorder.lock().await;
        if let Some(recorder) = &*shared {
            return Ok(recorder.on(client, host));
        }
        let recorder = Recorder::start(&self.inner.system, client.clone(), "kubelet", host).await?;
        *shared = Some(recorder.clone());
        Ok(recorder)
    }

    /// Returns the kubelet of a node.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<KubeletHandle> {
        self.inner.nodes.lock().get(name).cloned()
    }

    /// Returns the names of the nodes, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<Str> {
        self.inner.nodes.lock().keys().cloned().collect()
    }

    /// Answers a GET request at the kubelet of a node, see [`KubeletHandle::get`].
    ///
    /// # Errors
    /// 503 when this process runs no such node, or the node's actor does not answer.
    pub async fn get(&self, node: &str, path: &str) -> Result<RawReply, Status> {
        let Some(handle) = self.node(node) else {
            return Err(Status::service_unavailable(format!("no way to the kubelet of node {node}")));
        };
        handle.get(path).await
    }
}

/// A handle of one node's running kubelet.
#[derive(Clone, Debug)]
pub struct KubeletHandle {
    name: Str,
    actor: LoopHandle,
    commands: mpsc::Sender<Command>,
    runtime: Arc<dyn Runtime>,
    client: Client,
    machine: Option<Arc<Machine>>,
    port: u16,
}

impl KubeletHandle {
    /// Returns the node's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the handle of the node's actor.
    #[must_use]
    pub const fn actor(&self) -> &LoopHandle {
        &self.actor
    }

    /// Returns the node's container runtime.
    #[must_use]
    pub const fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }

    /// Stops the kubelet. According to the API its pods keep running, and the next kubelet of this node takes them over.
    pub fn stop(&self) {
        self.actor.stop();
    }

    /// Returns the port of the kubelet's server, 0 without a server.
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the configuration of the node's machine; `None` for a simulated node.
    pub(crate) fn machine(&self) -> Option<&Machine> {
        self.machine.as_deref()
    }

    /// Returns the client with the node's identity.
    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    /// Returns what the runtime runs of a pod; `None` when this node has no such pod.
    ///
    /// # Errors
    /// 503 when the kubelet's actor does not answer.
    pub(crate) async fn find(&self, namespace: &str, pod: &str) -> Result<Option<RunningPod>, Status> {
        let (namespace, pod) = (Str::from(namespace), Str::from(pod));
        self.ask(|reply| Command::Find { namespace, pod, reply }).await
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, Status> {
        let (reply, answer) = Reply::channel();
        let asked = async {
            self.commands.send(command(reply)).await.ok()?;
            answer.await.ok()
        };
        let silent = || Status::service_unavailable(format!("the kubelet of node {} does not answer", self.name));
        clock::timeout(ANSWER_TIMEOUT, asked).await.ok().flatten().ok_or_else(silent)
    }

    /// Answers a GET request like the kubelet's own server: `/healthz`, `/pods`, `/containerLogs/<namespace>/<pod>/<container>?…`. A refused request gets an
    /// answer with upstream's code and text.
    ///
    /// # Errors
    /// 503 when the kubelet's actor does not answer.
    pub async fn get(&self, path: &str) -> Result<RawReply, Status> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        match path.trim_end_matches('/') {
            "/healthz" => Ok(plain(200, "ok")),
            "/pods" => self.pods().await,
            _ => match path.strip_prefix("/containerLogs") {
                Some(rest) => self.logs(rest, query).await,
                None => Ok(plain(404, "404 page not found\n")),
            },
        }
    }

    async fn logs(&self, path: &str, query: &str) -> Result<RawReply, Status> {
        let ask = match LogRequest::parse(path, query, clock::wall().as_second()) {
            Ok(ask) => ask,
            Err((code, text)) => return Ok(plain(code, text)),
        };
        let options = ask.options;
        let id = match self.ask(|reply| Command::Log(ask, reply)).await? {
            Ok(id) => id,
            Err((code, text)) => return Ok(plain(code, text)),
        };
        match self.runtime.container_log(&id, options).await {
            Ok(stream) => Ok(answered(200, "text/plain", Box::new(Lines(stream)))),
            Err(cri::Error::NotFound(_)) => {
                let runtime = self.runtime.version().runtime_name;
                Ok(plain(400, format!("unable to retrieve container logs for {runtime}://{id}")))
            }
            Err(error) => Ok(plain(500, error.to_string())),
        }
    }

    /// Returns the pods of this node from the API.
    async fn pods(&self) -> Result<RawReply, Status> {
        let pods = resource("", "v1", "pods").ok_or_else(|| Status::internal_error("the schema has no pods"))?;
        let here = ListOptions::fields(FieldSelector::equal("spec.nodeName", self.name.as_str()));
        let list = self.client.list(pods, "", here).await?;
        let mut body = Vec::from(&br#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":["#[..]);
        for (at, item) in list.items.iter().enumerate() {
            if at > 0 {
                body.push(b',');
            }
            body.extend_from_slice(&item.bytes);
        }
        body.extend_from_slice(b"]}");
        Ok(answered(200, "application/json", Box::new(Whole(Some(body.into())))))
    }
}

fn plain(code: u16, text: impl Into<String>) -> RawReply {
    answered(code, "text/plain; charset=utf-8", Box::new(Whole(Some(text.into().into_bytes().into()))))
}

fn answered(code: u16, kind: &str, body: Box<dyn RawBody>) -> RawReply {
    RawReply { code, headers: vec![("content-type".into(), kind.into())], body }
}

/// A response body in a single part.
struct Whole(Option<Bytes>);

#[async_trait]
impl RawBody for Whole {
    async fn next(&mut self) -> Option<Result<Bytes, Status>> {
        self.0.take().filter(|part| !part.is_empty()).map(Ok)
    }
}

/// A response body that streams a log.
struct Lines(Box<dyn LogStream>);

#[async_trait]
impl RawBody for Lines {
    async fn next(&mut self) -> Option<Result<Bytes, Status>> {
        let part = self.0.next().await?;
        Some(part.map_err(|error| Status::service_unavailable(error.to_string())))
    }
}
