//! Where objects are kept: upstream's etcd keys, `/registry/<plural>[/<namespace>]/<name>` with its exceptions as schema data.

use oarlock_schema::Resource;
use oarlock_storage::Key;

/// The prefix of a resource's keys, with trailing slash; `None` for resources that are only answered (reviews).
#[must_use]
pub fn prefix(resource: &Resource) -> Option<String> {
    resource.storage.map(|storage| format!("{}/", storage.prefix))
}

/// The key of one object; `None` for resources that are only answered.
#[must_use]
pub fn key(resource: &Resource, namespace: &str, name: &str) -> Option<Key> {
    let prefix = prefix(resource)?;
    Some(if resource.namespaced { Key::namespaced(&prefix, namespace, name) } else { Key::cluster(&prefix, name) })
}
