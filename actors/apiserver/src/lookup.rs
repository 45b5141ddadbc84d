//! Looks up, in the View, the objects that token validation depends on.

use oarlock_auth::tokens::{Found, FoundPod, Lookup};
use oarlock_meta::Time;
use oarlock_registry::{Reader, reader};
use oarlock_schema::{Resource, resource};
use oarlock_store::Entry;

/// A lookup of the objects that ServiceAccount tokens are bound to, in the View.
#[derive(Clone, Debug)]
pub struct ReaderLookup {
    reader: Reader,
}

impl ReaderLookup {
    /// Creates a lookup in the View of `reader`.
    #[must_use]
    pub fn new(reader: Reader) -> Self {
        Self { reader }
    }

    fn find(&self, plural: &str, namespace: &str, name: &str) -> Option<Found> {
        let resource = resource("", "v1", plural)?;
        self.reader.entry(resource, namespace, name).map(|entry| found(resource, &entry))
    }
}

impl Lookup for ReaderLookup {
    fn service_account(&self, namespace: &str, name: &str) -> Option<Found> {
        self.find("serviceaccounts", namespace, name)
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<FoundPod> {
        let pods = resource("", "v1", "pods")?;
        let entry = self.reader.entry(pods, namespace, name)?;
        let field = |name: &str| entry.field(name).unwrap_or_default().to_owned();
        let (service_account, node) = (field("spec.serviceAccountName"), field("spec.nodeName"));
        Some(FoundPod { object: found(pods, &entry), service_account, node })
    }

    fn secret(&self, namespace: &str, name: &str) -> Option<Found> {
        self.find("secrets", namespace, name)
    }

    fn node(&self, name: &str) -> Option<Found> {
        self.find("nodes", "", name)
    }
}

/// An object that is being deleted keeps its body, so only such an entry has to be decoded.
fn found(resource: &Resource, entry: &Entry) -> Found {
    let deleted_at = || {
        let obj = reader::decode(resource, entry)?;
        Time::parse(obj.meta().deletion_timestamp()?).ok().map(|t| t.unix())
    };
    Found { uid: entry.uid.to_string(), deleted_at: entry.deletion.then(deleted_at).flatten() }
}
