//! The fields of a ServiceAccount that admission uses.

use compact_str::CompactString;
use oarlock_schema::Obj;
use oarlock_schema::views::core_v1::ServiceAccount;

/// The annotation that restricts the account's pods to mounting the listed secrets.
const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";

/// The fields of an account that admission uses.
#[derive(Debug)]
pub(super) struct Account {
    /// The account's name, for error texts.
    pub(super) name: CompactString,
    /// `automountServiceAccountToken`, if set.
    pub(super) automount: Option<bool>,
    /// The pull secrets, in the account's order.
    pub(super) pull_secrets: Vec<CompactString>,
    /// The secrets that pods may mount if `enforce` is set.
    pub(super) secrets: Vec<CompactString>,
    /// Whether pods may mount only the listed secrets.
    pub(super) enforce: bool,
}

impl Account {
    pub(super) fn of(obj: &Obj) -> Self {
        let view = obj.view::<ServiceAccount<'_>>();
        let names = |list: Option<Vec<CompactString>>| list.unwrap_or_default();
        Self {
            name: obj.name().into(),
            automount: view.and_then(ServiceAccount::automount_service_account_token),
            pull_secrets: names(view.map(|a| a.image_pull_secrets().iter().map(|s| s.name().into()).collect())),
            secrets: names(view.map(|a| a.secrets().iter().map(|s| s.name().into()).collect())),
            enforce: obj.meta().annotations().get(ENFORCE).is_some_and(is_true),
        }
    }
}

/// Parses a boolean as Go's `strconv.ParseBool`; unknown texts are false.
fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "TRUE" | "true" | "True")
}
