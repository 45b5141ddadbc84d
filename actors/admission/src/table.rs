//! The order of the stages: one row each. Mutating and validating run in the same order; quota comes last, so that nothing is charged for
//! what another stage refuses.

use oarlock_registry::Reader;

use crate::plugins::{
    certificates, default_storage_class, default_toleration_seconds, limit_ranger, namespace_lifecycle, node_restriction, priority,
    resource_quota, runtime_class, service_account, storage_object_in_use_protection, taint_nodes_by_condition,
    validating_admission_policy,
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
