//! Finds references to API objects, which a static pod must not have because it runs without an API server (upstream `podutil.HasAPIObjectReference`).

use oarlock_schema::{Obj, Struct, Value};

/// Schema types that refer to API objects, with the kind of object; the first match is reported.
const REFERENCES: &[(&[&str], &str)] = &[
    (
        &[
            "core/v1.AzureFileVolumeSource",
            "core/v1.LocalObjectReference",
            "core/v1.SecretEnvSource",
            "core/v1.SecretKeySelector",
            "core/v1.SecretProjection",
            "core/v1.SecretVolumeSource",
        ],
        "secrets",
    ),
    (
        &[
            "core/v1.ConfigMapEnvSource",
            "core/v1.ConfigMapKeySelector",
            "core/v1.ConfigMapProjection",
            "core/v1.ConfigMapVolumeSource",
        ],
        "configmaps",
    ),
    (&["core/v1.PodResourceClaim"], "resourceclaims"),
    (&["core/v1.CSIVolumeSource"], "csidrivers (via CSI volumes)"),
    (&["core/v1.GlusterfsVolumeSource"], "endpoints (via glusterFS volumes)"),
    (&["core/v1.PersistentVolumeClaimVolumeSource"], "persistentvolumeclaims"),
    (&["core/v1.EphemeralVolumeSource"], "persistentvolumeclaims (via ephemeral volumes)"),
    (&["core/v1.ServiceAccountTokenProjection"], "serviceaccounts (via projected volumes)"),
    (&["core/v1.ClusterTrustBundleProjection"], "clustertrustbundles"),
    (&["core/v1.PodCertificateProjection"], "podcertificates"),
];

/// Returns the kind of the first API object that a pod refers to, if any.
pub(super) fn find(pod: &Obj) -> Option<&'static str> {
    let account = pod.at(&["spec", "serviceAccountName"]).and_then(Value::as_str).unwrap_or("");
    if !account.is_empty() {
        return Some("serviceaccounts");
    }
    let mut first = REFERENCES.len();
    visit(pod, &mut |node| {
        let at = REFERENCES.iter().position(|(types, _)| types.contains(&node.ty().name));
        first = first.min(at.unwrap_or(first));
    });
    REFERENCES.get(first).map(|(_, what)| *what)
}

fn visit(node: &Struct, see: &mut impl FnMut(&Struct)) {
    see(node);
    for (_, value) in node.iter() {
        visit_value(value, see);
    }
}

fn visit_value(value: &Value, see: &mut impl FnMut(&Struct)) {
    match value {
        Value::Struct(node) => visit(node, see),
        Value::List(items) => items.iter().for_each(|item| visit_value(item, see)),
        Value::Map(map) => map.iter().for_each(|(_, item)| visit_value(item, see)),
        _ => {}
    }
}
