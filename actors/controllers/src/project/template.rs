//! Pod templates.

use oarlock_schema::Struct;

use super::Digest;

/// The label that tells the pods of one template from those of another (upstream `DefaultDeploymentUniqueLabelKey`).
pub(crate) const HASH: &str = "pod-template-hash";

/// The digest of a pod template without the hash label that deployments add.
pub(crate) fn template(node: &Struct) -> Digest {
    Digest::of(node, (&["metadata", "labels"], HASH))
}
