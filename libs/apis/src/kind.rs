//! Metadata rules that differ between kinds: the form of names.

use oarlock_meta::names;

/// The name format of a kind; returns what is wrong with a name (upstream: `ValidateNameFunc`). `prefix` says that the name is a
/// `generateName`, whose last character may be a hyphen.
pub type NameForm = fn(name: &str, prefix: bool) -> Vec<String>;

/// The rules of one top-level kind.
#[derive(Clone, Copy, Debug)]
pub struct KindRules {
    /// Schema name, such as `core/v1.Service`.
    pub ty: &'static str,
    /// Format of `metadata.name`.
    pub name: NameForm,
}

/// The rules of kinds without a row: names are DNS subdomains.
pub const DEFAULT: KindRules = KindRules { ty: "", name: subdomain };

/// The rules of kinds that differ only in the format of their names.
pub const NAME_FORMAT_RULES: &[KindRules] = &[
    KindRules { ty: "apiregistration/v1.APIService", name: path_segment },
    KindRules { ty: "apps/v1.StatefulSet", name: label },
    KindRules { ty: "certificates/v1.CertificateSigningRequest", name: path_segment },
    KindRules { ty: "core/v1.Event", name: path_segment },
    KindRules { ty: "core/v1.Namespace", name: label },
    KindRules { ty: "core/v1.Service", name: label_1035 },
    KindRules { ty: "networking/v1.IPAddress", name: ip },
    KindRules { ty: "policy/v1.PodDisruptionBudget", name: path_segment },
    KindRules { ty: "rbac/v1.ClusterRole", name: path_segment },
    KindRules { ty: "rbac/v1.ClusterRoleBinding", name: path_segment },
    KindRules { ty: "rbac/v1.Role", name: path_segment },
    KindRules { ty: "rbac/v1.RoleBinding", name: path_segment },
];

/// Returns what is wrong with a name as an RFC 1123 subdomain.
#[must_use]
pub fn subdomain(name: &str, prefix: bool) -> Vec<String> {
    names::subdomain_errors(masked(name, prefix).as_str())
}

/// Returns what is wrong with a name as an RFC 1123 label.
#[must_use]
pub fn label(name: &str, prefix: bool) -> Vec<String> {
    crate::rules::formats::dns1123_label(masked(name, prefix).as_str())
}

/// Returns what is wrong with a name as an RFC 1035 label.
#[must_use]
pub fn label_1035(name: &str, prefix: bool) -> Vec<String> {
    crate::rules::formats::dns1035_label(masked(name, prefix).as_str())
}

/// Returns what is wrong with a name as one segment of a URL path, the weakest format.
#[must_use]
pub fn path_segment(name: &str, _prefix: bool) -> Vec<String> {
    crate::rules::formats::path_segment(name)
}

/// Returns what is wrong with a name as an IP address in its canonical form (upstream `ValidateIPAddressName`).
#[must_use]
pub fn ip(name: &str, _prefix: bool) -> Vec<String> {
    crate::rules::address::strict(name).into_iter().collect()
}

/// Completes a `generateName` that ends in a hyphen to a valid name, since random characters follow the prefix.
fn masked(name: &str, prefix: bool) -> String {
    match name.strip_suffix('-') {
        Some(head) if prefix => format!("{head}a"),
        _ => name.to_owned(),
    }
}
