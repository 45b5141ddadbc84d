//! root-ca-certificate-publisher-controller: writes the ConfigMap `kube-root-ca.crt` to every namespace, so that pods can trust the API server
//! (upstream `pkg/controller/certificates/rootcacertpublisher`).

use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use oarlock_informer::{Cache, Item, Key, OwnWrites, Project, Reconcile, Requeue, Selection};
use oarlock_runtime::Failure;
use oarlock_schema::{Map, Obj, Resource, Str, Value};

use crate::error::Error;
use crate::harness::{Concurrency, Env, Requirement, Row, Spread, must};
use crate::project::{CaBundle, Digest, NamespaceView};

pub(crate) const ROW: Row = Row {
    name: "root-ca-certificate-publisher-controller",
    aliases: &["root-ca-cert-publisher"],
    account: "root-ca-cert-publisher",
    component: "root-ca-cert-publisher",
    workers: Concurrency::fixed(4),
    spread: Spread::Key,
    why: "each namespace is decided on its own",
    on_by_default: true,
    gate: None,
    needs: &[Requirement::RootCa],
    start: |env| start(env).boxed(),
};

const NAME: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
/// The description that upstream writes into the ConfigMap.
const TEXT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

struct Publisher {
    env: Env,
    /// The cluster's CA certificates, PEM.
    root_ca: Arc<str>,
    /// Digest of `root_ca`, as caches hold it.
    digest: Digest,
    namespaces: Arc<Cache<NamespaceView>>,
    maps: Arc<Cache<CaBundle>>,
    own: Arc<OwnWrites>,
    map: &'static Resource,
}

async fn start(env: Env) -> Result<(), Error> {
    let namespaces = env.informers.all::<NamespaceView>().await?;
    let maps = env.informers.select::<CaBundle>(Selection::field("metadata.name", NAME)).await?;
    let own = Arc::new(OwnWrites::default());
    let shell = env.shell();
    let root_ca = env.root_ca()?;
    let digest = Digest::value_of(&Value::from(&*root_ca));
    let map = must(CaBundle::RESOURCE)?;
    let this =
        Publisher { env, root_ca, digest, namespaces: namespaces.clone(), maps: maps.clone(), own: own.clone(), map };
    let controller = shell
        .controller(this)
        .reconciles(&namespaces)
        .watches(&maps, |change, enqueue| enqueue(Key::cluster(change.key.namespace.clone())))
        .own_writes(&own);
    shell.spawn(controller).await
}

impl Publisher {
    /// Whether a ConfigMap has the wanted content.
    fn right(&self, there: &Item<CaBundle>) -> bool {
        there.value.alone && there.value.pem == Some(self.digest) && there.meta.annotation(DESCRIPTION).is_some()
    }

    /// Returns the ConfigMap to write; labels and annotations of other clients are kept.
    fn map(&self, namespace: &Str, there: Option<&Item<CaBundle>>) -> Obj {
        let mut map = Obj::new(self.map.ty);
        map.set_at(&["metadata", "namespace"], namespace.clone());
        map.set_at(&["metadata", "name"], NAME);
        if let Some(there) = there {
            let labels: Map = there.meta.labels.iter().cloned().collect();
            let annotations: Map = there.meta.annotations.iter().cloned().collect();
            map.set_at(&["metadata", "labels"], labels);
            map.set_at(&["metadata", "annotations"], annotations);
            map.set_at(&["metadata", "resourceVersion"], there.meta.revision.to_string());
        }
        map.set_at(&["metadata", "annotations", DESCRIPTION], TEXT);
        map.set_at(&["data", "ca.crt"], &*self.root_ca);
        map
    }
}

#[async_trait]
impl Reconcile for Publisher {
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure> {
        let Some(namespace) = self.namespaces.get(key) else {
            self.own.forget(key);
            return Ok(Requeue::No);
        };
        if namespace.value.phase == "Terminating" || namespace.meta.deleting() {
            return Ok(Requeue::No);
        }
        let there = self.maps.named(&key.name, NAME);
        let written = match &there {
            Some(there) if self.right(there) => return Ok(Requeue::No),
            Some(there) => self.env.client.update(self.map, self.map(&key.name, Some(there))).await,
            None => self.env.client.create(self.map, self.map(&key.name, None)).await,
        };
        match written {
            Ok(object) => self.own.wrote(key, &self.maps, object.revision),
            Err(status) if status.is_already_exists() || status.cause("NamespaceTerminating").is_some() => {}
            Err(status) => return Err(status.into()),
        }
        Ok(Requeue::No)
    }
}
