//! What token validation asks of the store, answered from the View.

use oarlock_auth::tokens::{Found, FoundPod, Lookup};
use oarlock_meta::Time;
use oarlock_registry::Reader;
use oarlock_schema::views::core_v1::Pod;
use oarlock_schema::{Obj, resource};

/// Looks bound objects up in the View.
#[derive(Clone, Debug)]
pub struct ReaderLookup {
    reader: Reader,
}

impl ReaderLookup {
    /// Looks up in this reader's View.
    #[must_use]
    pub fn new(reader: Reader) -> Self {
        Self { reader }
    }

    fn find(&self, plural: &str, namespace: &str, name: &str) -> Option<Obj> {
        self.reader.get(resource("", "v1", plural)?, namespace, name)
    }
}

impl Lookup for ReaderLookup {
    fn service_account(&self, namespace: &str, name: &str) -> Option<Found> {
        self.find("serviceaccounts", namespace, name).map(|obj| found(&obj))
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<FoundPod> {
        let obj = self.find("pods", namespace, name)?;
        let spec = obj.view::<Pod<'_>>()?.spec();
        let (service_account, node) = (spec.service_account_name().to_owned(), spec.node_name().to_owned());
        Some(FoundPod { object: found(&obj), service_account, node })
    }

    fn secret(&self, namespace: &str, name: &str) -> Option<Found> {
        self.find("secrets", namespace, name).map(|obj| found(&obj))
    }

    fn node(&self, name: &str) -> Option<Found> {
        self.find("nodes", "", name).map(|obj| found(&obj))
    }
}

fn found(obj: &Obj) -> Found {
    let meta = obj.meta();
    let deleted_at = meta.deletion_timestamp().and_then(|t| Time::parse(t).ok()).map(|t| t.unix());
    Found { uid: meta.uid().to_owned(), deleted_at }
}
