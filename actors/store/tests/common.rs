//! Shared helpers of the store's tests: small objects, an indexer for them, a started store.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use oarlock_runtime::{Instant, System, clock};
use oarlock_storage::{Append, Expect, Key, Log};
use oarlock_store::{EntryParts, Indexer, Options, Store, Write};

pub(crate) const PODS: &str = "/registry/pods/";

/// Indexes objects of the form `{"metadata":{"name":…,"uid":…},…}`.
pub(crate) struct Small;

impl Indexer for Small {
    fn parts(&self, _: &Key, value: &Bytes) -> EntryParts {
        let text = std::str::from_utf8(value).unwrap_or("");
        EntryParts { splice: text.find("\"uid\"").map(|at| at as u32), ..EntryParts::default() }
    }
}

pub(crate) fn pod(name: impl ToString) -> Key {
    Key::namespaced(PODS, "default", &name.to_string())
}

pub(crate) fn json(name: impl ToString, data: impl ToString) -> Bytes {
    let (name, data) = (name.to_string(), data.to_string());
    format!(r#"{{"metadata":{{"name":"{name}","uid":"u-{name}"}},"data":"{data}"}}"#).into()
}

pub(crate) fn create(name: impl ToString, data: impl ToString) -> Write {
    Write::new(Append::create(pod(name.to_string()), json(name, data)))
}

pub(crate) fn put(name: impl ToString, data: impl ToString) -> Write {
    let value = Some(json(name.to_string(), data));
    Write::new(Append { key: pod(name), expect: Expect::Any, value, fence: None })
}

pub(crate) fn soon() -> Instant {
    clock::after(Duration::from_secs(60))
}

pub(crate) async fn system() -> System {
    System::start(oarlock_runtime::Options { watchdog: None, ..Default::default() }).await.unwrap()
}

pub(crate) async fn start(system: &System, log: Arc<dyn Log>) -> Store {
    start_with(system, log, Options::default()).await
}

pub(crate) async fn start_with(system: &System, log: Arc<dyn Log>, options: Options) -> Store {
    Store::start(system, log, Arc::new(Small), options).await.unwrap()
}

pub(crate) async fn stop(system: &System) {
    oarlock_runtime::shutdown::shutdown(system, Default::default()).await;
}
