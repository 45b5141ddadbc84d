//! Which objects may rest outside of memory.

use oarlock_schema::resource;

use crate::key;

/// The resources of which there are many and whose bodies the server itself reads in places that can wait. Everything that a decision reads
/// on the spot (policies, quotas, classes, nodes, accounts) is not among them.
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

/// Their key prefixes.
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
