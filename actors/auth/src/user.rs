//! Who a request is from (upstream: `k8s.io/apiserver/pkg/authentication/user`), and the names the system gives to users and groups.

use std::collections::BTreeMap;

/// A request without a credential.
pub const ANONYMOUS: &str = "system:anonymous";
/// Members may do everything; no authorizer is asked.
pub const MASTERS: &str = "system:masters";
/// Everybody who proved who they are.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Everybody else.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// Every kubelet.
pub const NODES: &str = "system:nodes";
/// Prefix of a kubelet's user name.
pub const NODE_PREFIX: &str = "system:node:";
/// Prefix of a ServiceAccount's user name, `system:serviceaccount:<namespace>:<name>`.
pub const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
/// Every ServiceAccount.
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// Extra key: which credential proved the user, `X509SHA256=…` or `JTI=…`.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// Extra key: the pod a token is bound to.
pub const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
/// Extra key: that pod's uid.
pub const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
/// Extra key: the node a token, or its pod, is bound to.
pub const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// Extra key: that node's uid.
pub const NODE_UID: &str = "authentication.kubernetes.io/node-uid";

/// A user as every stage after authentication sees them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// Unique among active users.
    pub name: String,
    /// Unique for ever, where the authenticator knows one.
    pub uid: String,
    /// In the order the authenticator gave them.
    pub groups: Vec<String>,
    /// What else the authenticator knows.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// A user with groups and nothing else.
    pub fn new<G: Into<String>>(name: impl Into<String>, groups: impl IntoIterator<Item = G>) -> Self {
        Self { name: name.into(), groups: groups.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// The user of a request without a credential.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::new(ANONYMOUS, [UNAUTHENTICATED])
    }

    /// A ServiceAccount with its fixed groups, as its tokens prove it: what a controller in this process acts as.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        let mut user = Self::new(service_account_name(namespace, name), service_account_groups(namespace));
        uid.clone_into(&mut user.uid);
        user.authenticated()
    }

    /// The kubelet of a node.
    #[must_use]
    pub fn node(name: &str) -> Self {
        Self::new(format!("{NODE_PREFIX}{name}"), [NODES]).authenticated()
    }

    /// The apiserver itself, for what it writes when it starts and keeps in repair (upstream's loopback user).
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

    /// Adds `system:authenticated`, unless the authenticator has decided that itself.
    #[must_use]
    pub fn authenticated(mut self) -> Self {
        if self.name != ANONYMOUS && !self.in_group(AUTHENTICATED) && !self.in_group(UNAUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// The node a kubelet speaks for: its name has the prefix and it is in `system:nodes`. May be empty.
    #[must_use]
    pub fn node_name(&self) -> Option<&str> {
        self.name.strip_prefix(NODE_PREFIX).filter(|_| self.in_group(NODES))
    }
}

/// The user name of a ServiceAccount.
#[must_use]
pub fn service_account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

/// The groups every ServiceAccount of a namespace is in.
#[must_use]
pub fn service_account_groups(namespace: &str) -> [String; 2] {
    [SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")]
}

/// Namespace and name of a ServiceAccount's user name; `None` for any other user.
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
