//! The resources whose objects may be *cold*: their bodies may be evicted from memory and read again from the log.

use oarlock_schema::resource;

use crate::key;

/// Resources with many objects, whose bodies the server reads only where it can await. Resources that a decision reads synchronously (policies,
/// quotas, classes, nodes, accounts) are left out.
const RESOURCES: &[(&str, &str)] = &[
    ("", "configmaps"),
    ("", "events"),
    ("", "pods"),
    ("", "replicationcontrollers"),
    ("", "secrets"),
    ("apps", "controllerrevisions"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
    ("discovery.k8s.io", "endpointslices"),
];

/// Returns the key prefixes of the resources whose objects may be cold.
#[must_use]
pub fn prefixes() -> Vec<String> {
    let prefixes = RESOURCES.iter().filter_map(|(group, plural)| key::prefix(resource(group, "v1", plural)?));
    prefixes.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_row_is_a_resource() {
        assert_eq!(super::prefixes().len(), super::RESOURCES.len());
    }
}
