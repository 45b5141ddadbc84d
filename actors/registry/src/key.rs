//! Where objects are kept: upstream's etcd keys, `/registry/<plural>[/<namespace>]/<name>` with its exceptions as schema data.

use oarlock_schema::{RESOURCES, Resource};
use oarlock_storage::Key;

/// Where ranges are allocated from: node ports, as upstream keeps them. No resource is served from there.
pub const RANGES: &str = "/registry/ranges/";

/// Every prefix under which something of ours is kept.
pub fn prefixes() -> impl Iterator<Item = &'static str> {
    RESOURCES.iter().filter_map(prefix).chain([RANGES])
}

/// The prefix of a resource's keys, with trailing slash; `None` for resources that are only answered (reviews).
#[must_use]
pub fn prefix(resource: &Resource) -> Option<&'static str> {
    resource.storage.map(|storage| storage.prefix)
}

/// The key of one object; `None` for resources that are only answered.
#[must_use]
pub fn key(resource: &Resource, namespace: &str, name: &str) -> Option<Key> {
    let prefix = prefix(resource)?;
    Some(if resource.namespaced { Key::namespaced(prefix, namespace, name) } else { Key::cluster(prefix, name) })
}
