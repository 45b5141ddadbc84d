//! The table of stages and their order. The mutating and the validating half run in the same order; quota comes last, so that a request refused by
//! another stage is not charged.

use oarlock_registry::Reader;

use crate::plugins::{
    certificates, default_storage_class, default_toleration_seconds, limit_ranger, namespace_lifecycle,
    node_restriction, priority, resource_quota, runtime_class, service_account, storage_object_in_use_protection,
    taint_nodes_by_condition, validating_admission_policy,
};
use crate::stage::AdmissionStage;

/// The constructor of a stage.
pub type Make = fn(&Reader) -> Box<dyn AdmissionStage>;

/// The table's row for one stage.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Upstream's name of the stage.
    pub name: &'static str,
    /// Whether the stage runs by default.
    pub enabled: bool,
    /// The constructor.
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

/// Creates the stages that run by default.
#[must_use]
pub fn stages(reader: &Reader) -> Vec<Box<dyn AdmissionStage>> {
    STAGES.iter().filter(|row| row.enabled).map(|row| (row.make)(reader)).collect()
}

#[cfg(test)]
mod tests {
    use super::STAGES;

    /// The stages that upstream's 1.35 runs by default, plus NodeRestriction, which every cluster adds, in upstream's order
    /// (`pkg/kubeapiserver/options/plugins.go`).
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
