//! The order of the stages: one row each. Mutating and validating run in the same order; quota comes last, so that nothing is charged for
//! what another stage refuses.

use oarlock_registry::Reader;

use crate::plugins::{
    certificates, default_storage_class, default_toleration_seconds, limit_ranger, namespace_lifecycle,
    node_restriction, priority, resource_quota, runtime_class, service_account, storage_object_in_use_protection,
    taint_nodes_by_condition, validating_admission_policy,
};
use crate::stage::AdmissionStage;

/// How a stage is made.
pub type Make = fn(&Reader) -> Box<dyn AdmissionStage>;

/// One stage.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Upstream's name.
    pub name: &'static str,
    /// Runs unless it is disabled by name.
    pub enabled: bool,
    /// Makes it.
    pub make: Make,
}

/// Stages in the order in which they run.
pub const STAGES: &[Row] = &[
    on("NamespaceLifecycle", namespace_lifecycle::make),
    on("LimitRanger", limit_ranger::make),
    on("ServiceAccount", service_account::make),
    on("NodeRestriction", node_restriction::make),
    on("TaintNodesByCondition", taint_nodes_by_condition::make),
    on("Priority", priority::make),
    on("DefaultTolerationSeconds", default_toleration_seconds::make),
    on("DefaultStorageClass", default_storage_class::make),
    on("StorageObjectInUseProtection", storage_object_in_use_protection::make),
    on("RuntimeClass", runtime_class::make),
    on("CertificateApproval", certificates::approval::make),
    on("CertificateSigning", certificates::signing::make),
    on("CertificateSubjectRestriction", certificates::subject_restriction::make),
    on("ValidatingAdmissionPolicy", validating_admission_policy::make),
    on("ResourceQuota", resource_quota::make),
];

const fn on(name: &'static str, make: Make) -> Row {
    Row { name, enabled: true, make }
}

/// Makes the stages that are on by default.
#[must_use]
pub fn stages(reader: &Reader) -> Vec<Box<dyn AdmissionStage>> {
    STAGES.iter().filter(|row| row.enabled).map(|row| (row.make)(reader)).collect()
}

#[cfg(test)]
mod tests {
    use super::STAGES;

    /// What upstream's 1.35 runs by default, and NodeRestriction, which every cluster adds, in its order (`pkg/kubeapiserver/options/plugins.go`).
    const UPSTREAM: &[&str] = &[
        "NamespaceLifecycle",
        "LimitRanger",
        "ServiceAccount",
        "NodeRestriction",
        "TaintNodesByCondition",
        "PodSecurity",
        "Priority",
        "DefaultTolerationSeconds",
        "DefaultStorageClass",
        "StorageObjectInUseProtection",
        "PersistentVolumeClaimResize",
        "RuntimeClass",
        "CertificateApproval",
        "CertificateSigning",
        "ClusterTrustBundleAttest",
        "CertificateSubjectRestriction",
        "DefaultIngressClass",
        "PodTopologyLabels",
        "NodeDeclaredFeatureValidator",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionWebhook",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionWebhook",
        "ResourceQuota",
    ];

    #[test]
    fn a_default_stage_of_upstream_is_there_or_the_readme_says_that_it_is_not() {
        let readme = include_str!("../../../README.md");
        let there = |name: &str| STAGES.iter().any(|row| row.name == name && row.enabled);
        for name in UPSTREAM {
            assert_ne!(there(name), readme.contains(name), "{name}: either there, or named in the README as absent");
        }
        let ours: Vec<&str> = STAGES.iter().map(|row| row.name).collect();
        let theirs: Vec<&str> = UPSTREAM.iter().copied().filter(|name| there(name)).collect();
        assert_eq!(ours, theirs, "in upstream's order");
    }
}
