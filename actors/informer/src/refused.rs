//! Writes that are refused for good: the same write would be refused again, and it comes from a component, so that no user reads the answer. Refusals are
//! counted (`refused_writes_total`), and the first one for each object is logged.

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

/// For how many objects the process remembers that a refusal was logged.
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

/// Wraps a client so that refused writes of `part` are counted, and logged once for each object.
#[must_use]
pub fn refusals_seen(client: &Client, part: &'static str) -> Client {
    let inner = client.transport().clone();
    let told = Mutex::default();
    Client::new(Arc::new(Watched { inner, part, told })).with_timeout(client.timeout())
}

/// What was written: resource, subresource, namespace and name (of a new object perhaps its `generateName`).
type Written = (String, &'static str, Str, Str);

struct Watched {
    inner: Arc<dyn Transport>,
    part: &'static str,
    told: Mutex<(BTreeSet<Written>, VecDeque<Written>)>,
}

/// Whether the same write would be refused again, as far as the status tells. Two refusals are normal and do not count: a create in a namespace that is being
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
                let (set, order) = &mut *self.told.lock();
                // Its place goes, too, or that of an older refusal would be taken for that of a later one.
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

    /// Whether this is the first refusal for an object, as far as is remembered.
    fn first(&self, what: &Written) -> bool {
        let mut told = self.told.lock();
        let (set, order) = &mut *told;
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

    /// Answers every call with this code.
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
        let watched = Arc::new(Watched { inner, part: "test", told: Mutex::default() });
        let client = Client::new(watched.clone());
        let told = || {
            let told = watched.told.lock();
            assert_eq!(told.0.len(), told.1.len(), "each has one place");
            told.0.len()
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
        assert_eq!((count(422), told()), (2, 1));
        assert!(write("b").await.is_err());
        assert_eq!((count(422), told()), (3, 2));
        // What may go well another time is routine.
        code.store(409, Ordering::Relaxed);
        assert!(write("c").await.is_err());
        assert_eq!((count(409), told()), (0, 2));
        // Reads are asked by those who read the answer.
        code.store(403, Ordering::Relaxed);
        assert!(client.get(configmaps(), "ns", "a").await.is_err());
        assert_eq!((count(403), told()), (0, 2));
        // What was taken meanwhile is told of again.
        code.store(200, Ordering::Relaxed);
        let _ = write("a").await;
        assert_eq!(told(), 1);
        // Refused again, it is the newest: others go before it.
        code.store(422, Ordering::Relaxed);
        assert!(write("a").await.is_err());
        for n in 2..REMEMBERED {
            assert!(write(&format!("c{n}")).await.is_err());
        }
        assert_eq!(told(), REMEMBERED);
        assert!(write("new").await.is_err());
        assert_eq!(told(), REMEMBERED);
        let known = |name: &str| watched.told.lock().0.iter().any(|what| what.3 == *name);
        assert_eq!((known("a"), known("b")), (true, false));
    }

    #[test]
    fn a_namespace_that_ends_refuses_nothing_for_good() {
        let status = Status { code: 403, ..Status::bad_request("is being terminated") };
        assert!(for_good(&status));
        assert!(!for_good(&status.with_cause("NamespaceTerminating", "namespace is being terminated", "")));
    }
}
