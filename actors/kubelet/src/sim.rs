//! The simulated container runtime, whose containers are timers. It implements the same trait as a real runtime, so a thousand simulated nodes exercise the
//! kubelet's own code.
//!
//! Annotations of a pod make its containers fail, exit, start slowly or write logs (`docs/guides/simulated-nodes.md`, [`Script`]). The runtime has no task and
//! no thread: [`Runtime::container_event`] sleeps until the next timer is due.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ipnet::IpNet;
use oarlock_runtime::{Instant, clock, rng};
use oarlock_schema::Str;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::cri::{
    ContainerConfig, ContainerState, ContainerStatus, Error, Image, LogOptions, LogStream, PodSandboxConfig, Pull,
    Recall, Result, Runtime, RuntimeEvent, SandboxState, SandboxStatus, Version,
};

mod addresses;
mod images;
mod logs;
mod node;
mod script;

use addresses::Addresses;
pub use script::{PREFIX, Script};

/// Exit code of a process killed by SIGTERM.
const TERMINATED: i32 = 143;
/// Exit code of a process killed by SIGKILL.
const KILLED: i32 = 137;

/// A simulated container runtime; one for each node.
#[derive(Debug)]
pub struct Sim {
    state: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Notifies the waiting event reader of a new timer or a changed container.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    next: u64,
    addresses: Addresses,
    sandboxes: BTreeMap<Str, Sandbox>,
    containers: BTreeMap<Str, Box<Container>>,
    timers: BTreeSet<(Instant, Str)>,
    images: BTreeMap<Str, Image>,
}

#[derive(Debug)]
struct Sandbox {
    uid: Str,
    ip: Option<IpAddr>,
    ready: bool,
}

#[derive(Debug)]
struct Container {
    sandbox: Str,
    name: Str,
    attempt: u32,
    script: Option<Arc<Script>>,
    probed: Option<u32>,
    state: ContainerState,
    started: i64,
    finished: i64,
    code: i32,
    reason: &'static str,
    ready: bool,
    /// When the container becomes ready, and when it exits.
    becomes_ready: Option<Instant>,
    exits: Option<Instant>,
}

impl Container {
    fn status(&self, id: &str) -> ContainerStatus {
        ContainerStatus {
            id: id.into(),
            name: self.name.clone(),
            attempt: self.attempt,
            state: self.state,
            started_at: self.started,
            finished_at: self.finished,
            exit_code: self.code,
            reason: self.reason.into(),
            message: Str::default(),
            image_ref: Str::default(),
            ready: Some(self.ready),
        }
    }

    fn end(&mut self, code: i32) {
        self.state = ContainerState::Exited;
        self.finished = clock::wall().as_second();
        self.code = code;
        self.ready = false;
        (self.becomes_ready, self.exits) = (None, None);
    }
}

impl Sim {
    /// Creates a runtime without containers, whose pods get addresses of `pod_cidr`.
    #[must_use]
    pub fn new(pod_cidr: IpNet) -> Self {
        let state = State {
            next: rng::u64(),
            addresses: Addresses::new(pod_cidr),
            sandboxes: BTreeMap::new(),
            containers: BTreeMap::new(),
            timers: BTreeSet::new(),
            images: BTreeMap::new(),
        };
        Self { state: Arc::new(Shared { state: Mutex::new(state), changed: Notify::new() }) }
    }
}

impl State {
    fn id(&mut self) -> Str {
        // An odd step visits every number before repeating one, and makes consecutive ids look different.
        self.next = self.next.wrapping_add(0x9e37_79b9_7f4a_7c15);
        format!("{:016x}", self.next).into()
    }

    /// Sets the timers of a running container.
    fn arm(&mut self, id: &Str) {
        let Some(container) = self.containers.get(id) else { return };
        let timers = [container.becomes_ready, container.exits];
        self.timers.extend(timers.into_iter().flatten().map(|at| (at, id.clone())));
    }

    /// Returns the event of the first due timer that still applies, or the time of the next timer.
    fn due(&mut self, now: Instant) -> std::result::Result<RuntimeEvent, Option<Instant>> {
        loop {
            let Some((at, id)) = self.timers.first().cloned() else { return Err(None) };
            if at > now {
                return Err(Some(at));
            }
            self.timers.pop_first();
            let Some(container) = self.containers.get_mut(&id) else { continue };
            if container.state != ContainerState::Running {
                continue;
            }
            if container.exits.is_some_and(|at| at <= now) {
                let code = container.script.as_ref().map_or(0, |script| script.exit_code);
                container.end(code);
                if code != 0 && container.script.as_ref().is_some_and(|script| script.oom) {
                    container.reason = "OOMKilled";
                }
            } else if container.becomes_ready.is_some_and(|at| at <= now) {
                container.becomes_ready = None;
                container.ready = true;
            } else {
                continue;
            }
            let status = container.status(&id);
            let sandbox = container.sandbox.clone();
            let Some(uid) = self.sandboxes.get(&sandbox).map(|sandbox| sandbox.uid.clone()) else { continue };
            return Ok(RuntimeEvent::Container { pod_uid: uid, status });
        }
    }

    fn container(&mut self, id: &str) -> Result<&mut Container> {
        self.containers
            .get_mut(id)
            .map(|container| &mut **container)
            .ok_or_else(|| Error::NotFound(format!("container \"{id}\" not found")))
    }
}

fn after(delay: Option<Duration>) -> Option<Instant> {
    delay.map(clock::after)
}

#[async_trait]
impl Runtime for Sim {
    fn version(&self) -> Version {
        Version { runtime_name: "sim".into(), runtime_version: env!("CARGO_PKG_VERSION").into() }
    }

    async fn update_runtime_config(&self, pod_cidr: IpNet) -> Result<()> {
        self.state.state.lock().addresses.renumber(pod_cidr);
        Ok(())
    }

    async fn run_pod_sandbox(&self, config: &PodSandboxConfig) -> Result<Str> {
        if let Some(message) = Script::sandbox_failure(&config.annotations) {
            return Err(Error::Failed(message));
        }
        let mut state = self.state.state.lock();
        let ip = if config.host_network { None } else { Some(state.addresses.take()?) };
        let id = state.id();
        state.sandboxes.insert(id.clone(), Sandbox { uid: config.uid.clone(), ip, ready: true });
        Ok(id)
    }

    async fn stop_pod_sandbox(&self, id: &str) -> Result<()> {
        let mut guard = self.state.state.lock();
        let state = &mut *guard;
        let Some(sandbox) = state.sandboxes.get_mut(id) else { return Ok(()) };
        sandbox.ready = false;
        let ip = sandbox.ip.take();
        for container in state.containers.values_mut().filter(|c| c.sandbox == id && c.state == ContainerState::Running)
        {
            container.end(KILLED);
        }
        if let Some(ip) = ip {
            state.addresses.give_back(ip);
        }
        drop(guard);
        self.state.changed.notify_waiters();
        Ok(())
    }

    async fn remove_pod_sandbox(&self, id: &str) -> Result<()> {
        self.stop_pod_sandbox(id).await?;
        let mut guard = self.state.state.lock();
        let state = &mut *guard;
        state.sandboxes.remove(id);
        state.containers.retain(|_, container| container.sandbox != id);
        state.timers.retain(|(_, id)| state.containers.contains_key(id));
        drop(guard);
        self.state.changed.notify_waiters();
        Ok(())
    }

    async fn pod_sandbox_status(&self, id: &str) -> Result<SandboxStatus> {
        let state = self.state.state.lock();
        let sandbox = state.sandboxes.get(id).ok_or_else(|| Error::NotFound(format!("sandbox \"{id}\" not found")))?;
        Ok(sandbox.status(id))
    }

    async fn list_pod_sandbox(&self, pod_uid: Option<&str>) -> Result<Vec<SandboxStatus>> {
        let state = self.state.state.lock();
        let wanted = state.sandboxes.iter().filter(|(_, sandbox)| pod_uid.is_none_or(|uid| sandbox.uid == uid));
        Ok(wanted.map(|(id, sandbox)| sandbox.status(id)).collect())
    }

    async fn create_container(&self, sandbox: &str, config: &ContainerConfig, pod: &PodSandboxConfig) -> Result<Str> {
        let script = Script::of(&pod.annotations, &config.name)?;
        if let Some(message) = script.as_ref().and_then(|script| script.create_failure()) {
            return Err(Error::Failed(message));
        }
        let mut state = self.state.state.lock();
        if !state.sandboxes.get(sandbox).is_some_and(|sandbox| sandbox.ready) {
            return Err(Error::NotFound(format!("sandbox \"{sandbox}\" is not running")));
        }
        let id = state.id();
        let container = Container {
            sandbox: sandbox.into(),
            name: config.name.clone(),
            attempt: config.attempt,
            script: script.map(Arc::new),
            probed: config.first_probe,
            state: ContainerState::Created,
            started: 0,
            finished: 0,
            code: 0,
            reason: "",
            ready: false,
            becomes_ready: None,
            exits: None,
        };
        state.containers.insert(id.clone(), Box::new(container));
        Ok(id)
    }

    async fn start_container(&self, id: &str) -> Result<()> {
        let script = self.state.state.lock().container(id)?.script.clone();
        if let Some(delay) = script.as_ref().and_then(|script| script.start_delay) {
            clock::sleep(delay).await;
        }
        if let Some(message) = script.as_ref().and_then(|script| script.start_failure()) {
            return Err(Error::Failed(message));
        }
        let mut state = self.state.state.lock();
        let container = state.container(id)?;
        container.state = ContainerState::Running;
        container.started = clock::wall().as_second();
        container.run(script.as_deref(), Duration::ZERO);
        state.arm(&id.into());
        drop(state);
        self.state.changed.notify_waiters();
        Ok(())
    }

    async fn stop_container(&self, id: &str, timeout: Duration) -> Result<()> {
        let delay = {
            let mut state = self.state.state.lock();
            let Ok(container) = state.container(id) else { return Ok(()) };
            if container.state != ContainerState::Running {
                return Ok(());
            }
            container.script.as_ref().and_then(|script| script.stop_delay).unwrap_or_default()
        };
        let killed = delay > timeout;
        if !delay.is_zero() {
            clock::sleep(delay.min(timeout)).await;
        }
        let mut state = self.state.state.lock();
        let Ok(container) = state.container(id) else { return Ok(()) };
        if container.state == ContainerState::Running {
            let own = container.script.as_ref().and_then(|script| script.stop_exit_code).unwrap_or(TERMINATED);
            container.end(if killed { KILLED } else { own });
        }
        drop(state);
        self.state.changed.notify_waiters();
        Ok(())
    }

    async fn remove_container(&self, id: &str) -> Result<()> {
        self.state.state.lock().containers.remove(id);
        self.state.changed.notify_waiters();
        Ok(())
    }

    async fn list_containers(&self, sandbox: &str) -> Result<Vec<ContainerStatus>> {
        let state = self.state.state.lock();
        let of = state.containers.iter().filter(|(_, container)| container.sandbox == sandbox);
        Ok(of.map(|(id, container)| container.status(id)).collect())
    }

    async fn container_status(&self, id: &str) -> Result<ContainerStatus> {
        Ok(self.state.state.lock().container(id)?.status(id))
    }

    async fn pull_image(&self, pull: Pull<'_>) -> Result<Image> {
        let image = pull.image;
        let script = Script::of(&pull.pod.annotations, pull.container)?;
        if let Some(delay) = script.as_ref().and_then(|script| script.pull_delay) {
            clock::sleep(delay).await;
        }
        if let Some(message) = script.as_ref().and_then(|script| script.pull_failure(image)) {
            return Err(Error::Failed(message));
        }
        let pulled = images::invent(image)?;
        self.state.state.lock().images.insert(image.into(), pulled.clone());
        Ok(pulled)
    }

    async fn image_status(&self, image: &str, container: &str, pod: &PodSandboxConfig) -> Result<Option<Image>> {
        // A scripted pull failure needs a missing image, even if another container pulled the image before.
        let script = Script::of(&pod.annotations, container)?;
        if script.is_some_and(|script| script.pull_failure(image).is_some()) {
            return Ok(None);
        }
        Ok(self.state.state.lock().images.get(image).cloned())
    }

    async fn list_images(&self) -> Result<Vec<Image>> {
        Ok(self.state.state.lock().images.values().cloned().collect())
    }

    async fn container_event(&self) -> RuntimeEvent {
        loop {
            let mut changed = std::pin::pin!(self.state.changed.notified());
            changed.as_mut().enable();
            let wait = match self.state.state.lock().due(clock::now()) {
                Ok(event) => return event,
                Err(wait) => wait,
            };
            match wait {
                None => changed.await,
                Some(at) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = clock::sleep_until(at) => {}
                },
            }
        }
    }

    async fn container_log(&self, id: &str, options: LogOptions) -> Result<Box<dyn LogStream>> {
        self.state.state.lock().container(id)?;
        Ok(Box::new(logs::Log::new(self.state.clone(), id.into(), options)))
    }

    async fn recall(&self, pod: Recall) -> Result<Option<Str>> {
        let mut state = self.state.state.lock();
        let id = state.id();
        let ip = pod.ip.filter(|_| !pod.sandbox.host_network);
        if let Some(ip) = ip {
            state.addresses.claim(ip);
        }
        state.sandboxes.insert(id.clone(), Sandbox { uid: pod.sandbox.uid.clone(), ip, ready: true });
        for ran in pod.running {
            let script = Script::of(&pod.sandbox.annotations, &ran.name).unwrap_or_default().map(Arc::new);
            let age = clock::wall().as_second().saturating_sub(ran.started_at);
            let mut container = Container {
                sandbox: id.clone(),
                name: ran.name,
                attempt: ran.attempt,
                script: script.clone(),
                probed: ran.first_probe,
                state: ContainerState::Running,
                started: ran.started_at,
                finished: 0,
                code: 0,
                reason: "",
                ready: false,
                becomes_ready: None,
                exits: None,
            };
            container.run(script.as_deref(), Duration::from_secs(u64::try_from(age).unwrap_or(0)));
            container.ready |= ran.ready;
            state.containers.insert(ran.id.clone(), Box::new(container));
            state.arm(&ran.id);
        }
        drop(state);
        self.state.changed.notify_waiters();
        Ok(Some(id))
    }
}

impl Container {
    /// Sets when the container becomes ready and when it exits, `ran` after its start.
    fn run(&mut self, script: Option<&Script>, ran: Duration) {
        let ready = script.and_then(|script| script.ready_after);
        let ready = ready.or(self.probed.map(|seconds| Duration::from_secs(seconds.into())));
        let left = ready.map_or(Duration::ZERO, |ready| ready.saturating_sub(ran));
        if left.is_zero() {
            self.ready = true;
        } else {
            self.becomes_ready = after(Some(left));
        }
        let exits = script.and_then(|script| script.exit_after(self.attempt));
        self.exits = after(exits.map(|exits| exits.saturating_sub(ran)));
    }
}

impl Sandbox {
    fn status(&self, id: &str) -> SandboxStatus {
        SandboxStatus {
            id: id.into(),
            uid: self.uid.clone(),
            attempt: 0,
            state: if self.ready { SandboxState::Ready } else { SandboxState::NotReady },
            ips: self.ip.into_iter().collect(),
        }
    }
}
