//! Users of requests (upstream: `k8s.io/apiserver/pkg/authentication/user`), and the system's names of users and groups.

use std::collections::BTreeMap;

/// The user of a request without a credential.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group whose members may do everything, without asking the authorizers.
pub const MASTERS: &str = "system:masters";
/// The group of all authenticated users.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of all other users.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group of all kubelets.
pub const NODES: &str = "system:nodes";
/// The prefix of a kubelet's user name.
pub const NODE_PREFIX: &str = "system:node:";
/// The prefix of a ServiceAccount's user name, `system:serviceaccount:<namespace>:<name>`.
pub const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
/// The group of all ServiceAccounts.
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// The extra key of the credential's id, `X509SHA256=…` or `JTI=…`.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// The extra key of the pod that a token is bound to.
pub const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
/// The extra key of that pod's uid.
pub const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
/// The extra key of the node that a token, or its pod, is bound to.
pub const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// The extra key of that node's uid.
pub const NODE_UID: &str = "authentication.kubernetes.io/node-uid";

/// An authenticated user, as all later stages receive it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// The user name, unique among active users.
    pub name: String,
    /// The uid, unique for ever; empty if the authenticator gives none.
    pub uid: String,
    /// The groups in the authenticator's order.
    pub groups: Vec<String>,
    /// Further attributes from the authenticator.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// Creates a user with groups and nothing else.
    pub fn new<G: Into<String>>(name: impl Into<String>, groups: impl IntoIterator<Item = G>) -> Self {
        Self { name: name.into(), groups: groups.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Returns the user of a request without a credential.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::new(ANONYMOUS, [UNAUTHENTICATED])
    }

    /// Returns a ServiceAccount's user with its fixed groups, as its tokens give it: controllers in this process use it.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        let mut user = Self::new(service_account_name(namespace, name), service_account_groups(namespace));
        uid.clone_into(&mut user.uid);
        user.authenticated()
    }

    /// Returns the user of a node's kubelet.
    #[must_use]
    pub fn node(name: &str) -> Self {
        Self::new(format!("{NODE_PREFIX}{name}"), [NODES]).authenticated()
    }

    /// Returns the apiserver's own user, for the objects that it creates and repairs (upstream's loopback user).
    #[must_use]
    pub fn apiserver() -> Self {
        Self::new("system:apiserver", [AUTHENTICATED, MASTERS])
    }

    /// Whether the user is in `group`.
    #[must_use]
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// Sets an extra key to one value.
    #[must_use]
    pub fn with_extra(mut self, key: &str, value: impl Into<String>) -> Self {
        self.extra.insert(key.to_owned(), vec![value.into()]);
        self
    }

    /// Adds `system:authenticated`, unless the authenticator has set that group or its opposite.
    #[must_use]
    pub fn authenticated(mut self) -> Self {
        if self.name != ANONYMOUS && !self.in_group(AUTHENTICATED) && !self.in_group(UNAUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// Returns the node of a kubelet, a user with the name prefix and in `system:nodes`. The node name may be empty.
    #[must_use]
    pub fn node_name(&self) -> Option<&str> {
        self.name.strip_prefix(NODE_PREFIX).filter(|_| self.in_group(NODES))
    }
}

/// Returns the user name of a ServiceAccount.
#[must_use]
pub fn service_account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

/// Returns the groups of every ServiceAccount of a namespace.
#[must_use]
pub fn service_account_groups(namespace: &str) -> [String; 2] {
    [SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")]
}

/// Splits a ServiceAccount's user name into namespace and name; `None` for other users.
#[must_use]
pub fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    let label = namespace.len() <= 63 && !namespace.contains('.');
    let valid = label
        && oarlock_meta::names::subdomain_errors(namespace).is_empty()
        && oarlock_meta::names::subdomain_errors(name).is_empty();
    valid.then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_account_names_split_only_when_well_formed() {
        assert_eq!(
            split_service_account("system:serviceaccount:kube-system:job.controller"),
            Some(("kube-system", "job.controller"))
        );
        for bad in [
            "alice",
            "system:serviceaccount:a",
            "system:serviceaccount:a:b:c",
            "system:serviceaccount::b",
            "system:serviceaccount:a:",
            "system:serviceaccount:a.b:c",
            "system:serviceaccount:A:c",
        ] {
            assert_eq!(split_service_account(bad), None, "{bad}");
        }
    }

    #[test]
    fn authenticated_is_added_once_and_never_to_the_anonymous() {
        assert_eq!(UserInfo::new("a", ["g"]).authenticated().authenticated().groups, ["g", AUTHENTICATED]);
        assert_eq!(UserInfo::anonymous().authenticated().groups, [UNAUTHENTICATED]);
    }

    #[test]
    fn a_node_needs_both_name_and_group() {
        assert_eq!(UserInfo::new("system:node:a", [NODES]).node_name(), Some("a"));
        assert_eq!(UserInfo::new("system:node:a", ["x"]).node_name(), None);
        assert_eq!(UserInfo::new("a", [NODES]).node_name(), None);
    }
}
