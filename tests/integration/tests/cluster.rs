//! A cluster for a test: an API server in memory, clients, waits with deadlines.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use oarlock_apiserver::InProcess;
use oarlock_auth::UserInfo;
use oarlock_client::{Client, DeleteOptions, Event, ListOptions, Object, PatchType, Propagation, WriteOptions};
use oarlock_config::EgressOptions;
use oarlock_runtime::kind::{ActorKind, OnShutdown, Phase};
use oarlock_runtime::{LoopCtx, System, clock};
use oarlock_schema::{Resource, resource};
use oarlock_service_apiserver::KubeletOptions;
use oarlock_service_apiserver::assemble::{self, Api, Cluster as Wanted, Store};
use oarlock_testkit::wait::{Progress, STEP_TIMEOUT};
use serde_json::{Value, json};

/// An API server in memory, with clients. A dropped value leaves the server to the runtime of the test, which ends.
pub(crate) struct Cluster {
    pub system: System,
    pub api: Api,
    pub admin: Client,
    _dir: tempfile::TempDir,
}

pub(crate) fn find(plural: &str) -> &'static Resource {
    let all = ["", "apps", "rbac.authorization.k8s.io", "discovery.k8s.io", "coordination.k8s.io", "batch", "policy"];
    all.iter().find_map(|group| resource(group, "v1", plural)).unwrap_or_else(|| panic!("no resource {plural}"))
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        Self::with(KubeletOptions::default(), EgressOptions::default()).await
    }

    /// A cluster whose API server reaches kubelets with these settings.
    pub(crate) async fn with(kubelets: KubeletOptions, egress: EgressOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let system = System::start(oarlock_runtime::Options::default()).await.unwrap();
        let wanted = Wanted {
            data_dir: dir.path().to_owned(),
            pki: None,
            store: Store::Memory,
            store_options: Default::default(),
            features: Default::default(),
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: Some(0),
            advertise_address: Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))),
            serving: Default::default(),
            kubelets,
            egress,
            shutdown: Default::default(),
            local: None,
        };
        let api = assemble::start(&system, wanted).await.unwrap();
        oarlock_apiserver::start::ready(&api.server, clock::after(STEP_TIMEOUT)).await.unwrap();
        let admin = client(&api, UserInfo::new("admin", ["system:masters"]));
        Self { system, api, admin, _dir: dir }
    }

    /// Starts the controllers as `up` does.
    pub(crate) async fn controllers(&self) {
        self.controllers_with(oarlock_controllers::Settings::default()).await;
    }

    /// Starts the controllers with these settings.
    pub(crate) async fn controllers_with(&self, settings: oarlock_controllers::Settings) {
        let none: [&str; 0] = [];
        let manager = client(&self.api, UserInfo::new("system:kube-controller-manager", none));
        let api = self.api.clone();
        let clients =
            Arc::new(move |account: &str| client(&api, UserInfo::service_account("kube-system", account, "")));
        let root_ca = self.api.server.config().ca_pem.clone();
        let options = oarlock_controllers::Options { root_ca, settings, ..oarlock_controllers::Options::default() };
        oarlock_controllers::start(&self.system, manager, clients, options).await.unwrap();
    }

    /// Stands in for kubelets: every pod that is not terminating becomes running and ready at once.
    pub(crate) async fn run_pods(&self) {
        self.pods_become(
            json!({"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}], "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}),
        )
        .await;
    }

    /// Stands in for kubelets: every pod gets this status at once.
    pub(crate) async fn pods_become(&self, status: Value) {
        static KIND: ActorKind = ActorKind {
            name: "test.kubelet",
            on_shutdown: OnShutdown::Finish,
            phase: Phase::Crew,
            ..ActorKind::DEFAULT
        };
        let (admin, status) = (self.admin.clone(), Arc::new(json!({"status": status})));
        let run = move |ctx: LoopCtx| {
            let (admin, status) = (admin.clone(), status.clone());
            async move {
                let mut watch = admin.watch(find("pods"), "", ListOptions::default()).await?;
                while let Some(Some(events)) = ctx.or_stop(watch.next()).await {
                    for event in events {
                        if let Event::Added(pod) = event {
                            become_so(&admin, &pod, &status).await;
                        }
                    }
                }
                Ok(())
            }
        };
        self.system.spawn_loop(&KIND, "all", run).await.unwrap();
    }

    /// Makes a node that reports itself ready, as its kubelet would, so that the node lifecycle controller removes the taint of a new node.
    pub(crate) async fn node(&self, name: &str) {
        let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        self.create("nodes", object).await;
        let conditions =
            ["MemoryPressure", "DiskPressure", "PIDPressure"].map(|kind| json!({"type": kind, "status": "False"}));
        let mut conditions = conditions.to_vec();
        conditions.push(json!({"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}));
        self.patch("nodes", "status", ("", name), json!({"status": {"conditions": conditions}})).await;
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z"}});
        self.create("leases", lease).await;
    }

    /// Returns a client with the identity of one of the controllers.
    pub(crate) fn as_controller(&self, account: &str) -> Client {
        client(&self.api, UserInfo::service_account("kube-system", account, ""))
    }

    pub(crate) async fn create(&self, plural: &str, object: Value) -> Object {
        let resource = find(plural);
        let object = oarlock_client::decode(resource.ty, object.to_string().as_bytes()).unwrap();
        self.admin.create(resource, object).await.unwrap()
    }

    pub(crate) async fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let object = self.admin.find(find(plural), namespace, name).await.unwrap()?;
        Some(serde_json::from_slice(&object.bytes).unwrap())
    }

    pub(crate) async fn list(&self, plural: &str, namespace: &str) -> Vec<Value> {
        let list = self.admin.list(find(plural), namespace, ListOptions::default()).await.unwrap();
        list.items.iter().map(|item| serde_json::from_slice(&item.bytes).unwrap()).collect()
    }

    pub(crate) async fn merge(&self, plural: &str, key: (&str, &str), patch: Value) {
        self.patch(plural, "", key, patch).await;
    }

    pub(crate) async fn patch(&self, plural: &str, subresource: &'static str, key: (&str, &str), patch: Value) {
        let patch = (PatchType::Merge, patch.to_string());
        self.admin.patch(find(plural), subresource, key, patch, WriteOptions::default()).await.unwrap();
    }

    pub(crate) async fn delete(&self, plural: &str, namespace: &str, name: &str) {
        self.delete_by(plural, namespace, name, Propagation::Background).await;
    }

    pub(crate) async fn delete_by(&self, plural: &str, namespace: &str, name: &str, propagation: Propagation) {
        let options = DeleteOptions::default().propagate(propagation);
        self.admin.delete(find(plural), namespace, name, options).await.unwrap();
    }

    /// Waits until `test` gives an answer.
    pub(crate) async fn eventually<T, F>(&self, what: &str, mut test: impl FnMut() -> F) -> T
    where
        F: Future<Output = Option<T>>,
    {
        let deadline = clock::after(STEP_TIMEOUT);
        loop {
            if let Some(answer) = test().await {
                return answer;
            }
            assert!(!deadline.passed(), "not in time: {what}\n{}", self.seen());
            clock::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until `test` returns an answer. Until then `test` returns its progress, which must not stop.
    pub(crate) async fn gradually<T, F>(&self, what: &str, mut test: impl FnMut() -> F) -> T
    where
        F: Future<Output = Result<T, Value>>,
    {
        let mut progress = Progress::default();
        loop {
            match test().await {
                Ok(answer) => return answer,
                Err(reached) => assert!(!progress.stalled(reached), "{what}: {progress}\n{}", self.seen()),
            }
            clock::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns the statuses of all actors as text.
    pub(crate) fn seen(&self) -> String {
        let all = self.system.snapshot();
        let lines = all.iter().filter(|actor| format!("{actor:?}").contains("informer.controller"));
        lines.map(|actor| format!("{actor:?}\n")).collect()
    }
}

fn client(api: &Api, user: UserInfo) -> Client {
    Client::new(Arc::new(InProcess::new(api.server.clone(), user, "test/1")))
}

async fn become_so(admin: &Client, pod: &Object, patch: &Value) {
    let key = (&*pod.namespace(), &*pod.name());
    let patched =
        admin.patch(find("pods"), "status", key, (PatchType::Merge, patch.to_string()), WriteOptions::default());
    if let Err(status) = patched.await {
        assert!(status.is_not_found(), "{status}");
    }
}

/// A Deployment as `kubectl create deployment` makes it.
pub(crate) fn deployment(name: &str, replicas: i64, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": image, "ports": [{"name": "http", "containerPort": 8080}]}]},
            },
        },
    })
}
