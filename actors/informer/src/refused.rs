//! Counts and logs writes that the apiserver refuses for good: the same write would be refused again, and no user reads the answer to a component.
//! The metric is `refused_writes_total`; the first refusal for each object is logged.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use oarlock_client::{Call, Client, ListOptions, RawReply, RawRequest, Reply, Request, Transport, WatchStream};
use oarlock_meta::Status;
use oarlock_schema::{Resource, Str};
use oarlock_seeded_bug::seeded_bug;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

/// The most objects for which the wrapper remembers that a refusal was logged.
const REMEMBERED: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    part: &'static str,
    resource: String,
    code: u32,
}

static COUNT: LazyLock<Family<Labels, Counter>> = LazyLock::new(|| {
    let count = Family::<Labels, Counter>::default();
    oarlock_telemetry::registry().declare(|registry| {
        let help = "writes of a component that the API refuses for good: 400, 403 or 422";
        registry.register("refused_writes", help, count.clone());
    });
    count
});

/// Wraps a client so that refused writes of the component `part` are counted, and logged once for each object.
#[must_use]
pub fn refusals_seen(client: &Client, part: &'static str) -> Client {
    let inner = client.transport().clone();
    let logged = Mutex::default();
    Client::new(Arc::new(Watched { inner, part, logged })).with_timeout(client.timeout())
}

/// The target of a write: resource, subresource, namespace and name (for a new object without a name its `generateName`).
type Written = (String, &'static str, Str, Str);

/// The transport that counts and logs refused writes; `logged` holds the logged targets as a set and in order of age.
struct Watched {
    inner: Arc<dyn Transport>,
    part: &'static str,
    logged: Mutex<(BTreeSet<Written>, VecDeque<Written>)>,
}

/// Whether the status shows that the same write would be refused again. Two refusals are normal and do not count: a create in a namespace that is being
/// deleted, and a write under a claim that another process holds by now.
fn for_good(status: &Status) -> bool {
    matches!(status.code, 400 | 403 | 422) && !status.is_stale_owner() && status.cause("NamespaceTerminating").is_none()
}

fn written(request: &Request) -> Option<Written> {
    let name = match &request.call {
        Call::Get(_) | Call::List(_) => return None,
        Call::Create(obj, _) if request.name.is_empty() => {
            let prefix = || obj.at(&["metadata", "generateName"]).and_then(|prefix| prefix.as_str()).unwrap_or("");
            if obj.name().is_empty() { prefix().into() } else { obj.name().into() }
        }
        _ => request.name.clone(),
    };
    Some((request.resource.group_resource().to_string(), request.subresource, request.namespace.clone(), name))
}

impl Watched {
    fn judge(&self, what: Written, verb: &'static str, status: Option<&Status>) {
        let Some(status) = status.filter(|status| for_good(status)) else {
            if status.is_none() {
                let (set, order) = &mut *self.logged.lock();
                // The place in `order` must go too: a later refusal would add a second one, and eviction of the first would forget the later refusal.
                if set.remove(&what) {
                    order.retain(|other| *other != what);
                }
            }
            return;
        };
        if seeded_bug!("refusals_unseen") {
            return;
        }
        let (resource, subresource, namespace, name) = &what;
        let labels = Labels { part: self.part, resource: resource.clone(), code: u32::from(status.code) };
        COUNT.get_or_create(&labels).inc();
        if self.first(&what) {
            let part = self.part;
            tracing::warn!(part, verb, resource, subresource, %namespace, %name, %status, "write refused for good");
        }
    }

    /// Whether this is the first remembered refusal for an object. Remembers the refusal.
    fn first(&self, what: &Written) -> bool {
        let mut logged = self.logged.lock();
        let (set, order) = &mut *logged;
        if !set.insert(what.clone()) {
            return false;
        }
        order.push_back(what.clone());
        if order.len() > REMEMBERED
            && let Some(oldest) = order.pop_front()
        {
            set.remove(&oldest);
        }
        true
    }
}

#[async_trait]
impl Transport for Watched {
    async fn call(&self, request: Request) -> Result<Reply, Status> {
        let (what, verb) = (written(&request), request.call.verb());
        let answer = self.inner.call(request).await;
        if let Some(what) = what {
            self.judge(what, verb, answer.as_ref().err());
        }
        answer
    }

    async fn watch(
        &self,
        resource: &'static Resource,
        namespace: &str,
        options: ListOptions,
    ) -> Result<WatchStream, Status> {
        self.inner.watch(resource, namespace, options).await
    }

    async fn raw(&self, request: RawRequest) -> Result<RawReply, Status> {
        self.inner.raw(request).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU16, Ordering};

    use oarlock_client::{PatchType, WriteOptions};
    use oarlock_meta::GroupResource;

    use super::*;
    use crate::testing::configmaps;

    /// A transport that answers every call with this code.
    struct Answers(Arc<AtomicU16>);

    #[async_trait]
    impl Transport for Answers {
        async fn call(&self, request: Request) -> Result<Reply, Status> {
            let none = GroupResource::new("", "configmaps");
            match self.0.load(Ordering::Relaxed) {
                200 => Ok(Reply::Status(Status::success())),
                409 => Err(Status::conflict(&none, &request.name, "no")),
                code => Err(Status { code, ..Status::bad_request("no") }),
            }
        }

        async fn watch(&self, _: &'static Resource, _: &str, _: ListOptions) -> Result<WatchStream, Status> {
            Err(Status::service_unavailable("no watches here"))
        }

        async fn raw(&self, _: RawRequest) -> Result<RawReply, Status> {
            Err(Status::service_unavailable("no raw requests here"))
        }
    }

    #[tokio::test]
    async fn a_write_that_is_refused_is_counted_each_time_and_told_of_once() {
        let code = Arc::new(AtomicU16::new(422));
        let inner: Arc<dyn Transport> = Arc::new(Answers(code.clone()));
        let watched = Arc::new(Watched { inner, part: "test", logged: Mutex::default() });
        let client = Client::new(watched.clone());
        let logged = || {
            let logged = watched.logged.lock();
            assert_eq!(logged.0.len(), logged.1.len(), "each has one place");
            logged.0.len()
        };
        let count = |code| {
            let resource = configmaps().group_resource().to_string();
            COUNT.get_or_create(&Labels { part: "test", resource, code }).get()
        };
        let write = async |name: &str| {
            let patch = (PatchType::Merge, b"{}".to_vec());
            client.patch(configmaps(), "", ("ns", name), patch, WriteOptions::default()).await.map(drop)
        };
        assert!(write("a").await.is_err() && write("a").await.is_err());
        assert_eq!((count(422), logged()), (2, 1));
        assert!(write("b").await.is_err());
        assert_eq!((count(422), logged()), (3, 2));
        // A conflict may succeed on the next attempt and is not counted.
        code.store(409, Ordering::Relaxed);
        assert!(write("c").await.is_err());
        assert_eq!((count(409), logged()), (0, 2));
        // Reads are not counted: the component handles the answer.
        code.store(403, Ordering::Relaxed);
        assert!(client.get(configmaps(), "ns", "a").await.is_err());
        assert_eq!((count(403), logged()), (0, 2));
        // A success makes the next refusal the first one again.
        code.store(200, Ordering::Relaxed);
        let _ = write("a").await;
        assert_eq!(logged(), 1);
        // After a new refusal the object is the newest in the memory: others are evicted first.
        code.store(422, Ordering::Relaxed);
        assert!(write("a").await.is_err());
        for n in 2..REMEMBERED {
            assert!(write(&format!("c{n}")).await.is_err());
        }
        assert_eq!(logged(), REMEMBERED);
        assert!(write("new").await.is_err());
        assert_eq!(logged(), REMEMBERED);
        let known = |name: &str| watched.logged.lock().0.iter().any(|what| what.3 == *name);
        assert_eq!((known("a"), known("b")), (true, false));
    }

    #[test]
    fn a_namespace_that_ends_refuses_nothing_for_good() {
        let status = Status { code: 403, ..Status::bad_request("is being terminated") };
        assert!(for_good(&status));
        assert!(!for_good(&status.with_cause("NamespaceTerminating", "namespace is being terminated", "")));
    }
}
