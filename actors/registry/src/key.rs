//! The keys of stored objects: upstream's etcd keys, `/registry/<plural>[/<namespace>]/<name>`, with upstream's exceptions as schema data.

use oarlock_schema::{RESOURCES, Resource};
use oarlock_storage::Key;

/// The prefix of the allocated ranges (node ports), as in upstream. No resource is served from it.
pub const RANGES_PREFIX: &str = "/registry/ranges/";

/// Returns every key prefix that this server writes to.
pub fn prefixes() -> impl Iterator<Item = &'static str> {
    RESOURCES.iter().filter_map(prefix).chain([RANGES_PREFIX])
}

/// Returns the prefix of a resource's keys, with trailing slash; `None` for resources that are not stored (reviews).
#[must_use]
pub fn prefix(resource: &Resource) -> Option<&'static str> {
    resource.storage.map(|storage| storage.prefix)
}

/// Returns the key of one object; `None` for resources that are not stored.
#[must_use]
pub fn key(resource: &Resource, namespace: &str, name: &str) -> Option<Key> {
    let prefix = prefix(resource)?;
    Some(if resource.namespaced { Key::namespaced(prefix, namespace, name) } else { Key::cluster(prefix, name) })
}
