//! Digests of pod templates.

use oarlock_schema::Struct;

use super::Digest;

/// The label that distinguishes the pods of different templates (upstream `DefaultDeploymentUniqueLabelKey`).
pub(crate) const HASH: &str = "pod-template-hash";

/// Returns the digest of a pod template without the hash label that Deployments add.
pub(crate) fn template(node: &Struct) -> Digest {
    Digest::of(node, (&["metadata", "labels"], HASH))
}
