//! What the store holds: objects by resource, the revision, and the watch windows. Read at each scrape, at no cost for requests.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use oarlock_schema::RESOURCES;
use oarlock_store::View;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use crate::server::{Server, WeakServer};

/// The server of this process.
#[derive(Debug, Default)]
struct Shown(Mutex<Option<WeakServer>>);

static SHOWN: LazyLock<Arc<Shown>> = LazyLock::new(|| {
    let shown = Arc::<Shown>::default();
    oarlock_telemetry::registry().declare(|registry| registry.register_collector(Box::new(Arc::clone(&shown))));
    shown
});

/// Shows the store of a server, until the server is dropped or another one is shown.
pub(crate) fn show(server: &Server) {
    *SHOWN.0.lock() = Some(server.downgrade());
}

impl Collector for Shown {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        match self.0.lock().as_ref().and_then(WeakServer::upgrade) {
            Some(server) => view(server.view(), encoder),
            None => Ok(()),
        }
    }
}

/// Returns the number of objects of each stored resource, by its name and group. A prefix that several versions share counts once, under its first group.
fn objects(view: &View) -> BTreeMap<(&'static str, &'static str), u64> {
    let mut counts = BTreeMap::new();
    let mut seen = std::collections::BTreeSet::new();
    for row in RESOURCES {
        let Some(storage) = &row.storage else { continue };
        if seen.insert(storage.prefix) {
            counts.insert((row.plural, row.group), view.list(storage.prefix).len() as u64);
        }
    }
    counts
}

fn view(view: &View, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let objects = objects(view);
    let help = "Stored objects by resource";
    let mut family = encoder.encode_descriptor("apiserver_storage_objects", help, None, MetricType::Gauge)?;
    for ((resource, group), count) in &objects {
        let name = if group.is_empty() { (*resource).to_owned() } else { format!("{resource}.{group}") };
        family.encode_family(&[("resource", name.as_str())])?.encode_gauge(count)?;
    }
    let help = "Stored objects by group and resource";
    let mut family = encoder.encode_descriptor("apiserver_resource_objects", help, None, MetricType::Gauge)?;
    for ((resource, group), count) in &objects {
        family.encode_family(&[("group", *group), ("resource", *resource)])?.encode_gauge(count)?;
    }
    for (name, help, value) in [
        ("oarlock_store_revision", "Revision up to which all changes can be read", view.applied().get()),
        ("oarlock_store_watch_window_bytes", "Bytes of the events of all watch windows", view.window_bytes() as u64),
        (
            "oarlock_store_watch_window_limit_bytes",
            "Bytes that all watch windows may hold together",
            view.window_limit_bytes() as u64,
        ),
    ] {
        encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use oarlock_telemetry::metrics::{Format, encode};
    use prometheus_client::registry::Registry;

    use super::*;

    #[derive(Debug)]
    struct Of(View);

    impl Collector for Of {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
            view(&self.0, encoder)
        }
    }

    #[test]
    fn every_stored_resource_has_a_count() {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Of(View::new(4096))));
        let text = encode(Format::OpenMetrics, [&registry]);
        oarlock_testkit::metrics::has(
            &text,
            [
                "apiserver_storage_objects{resource=\"pods\"} 0",
                "apiserver_storage_objects{resource=\"deployments.apps\"} 0",
                "apiserver_resource_objects{group=\"apps\",resource=\"deployments\"} 0",
                "oarlock_store_revision 0",
                "oarlock_store_watch_window_limit_bytes 4096",
            ],
        );
        assert!(!text.contains("tokenreviews"), "{text}");
        oarlock_testkit::metrics::check(&text, &["apiserver_storage_objects", "apiserver_resource_objects"]);
    }
}
