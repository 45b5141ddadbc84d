//! What admission needs to know of an account.

use compact_str::CompactString;
use oarlock_schema::Obj;
use oarlock_schema::views::core_v1::ServiceAccount;

/// Asks that pods of the account mount only the secrets it lists.
const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";

/// An account as admission sees it.
#[derive(Debug)]
pub(super) struct Account {
    /// Its name, for texts.
    pub(super) name: CompactString,
    /// Whether it says something about token volumes.
    pub(super) automount: Option<bool>,
    /// Pull secrets, in its order.
    pub(super) pull_secrets: Vec<CompactString>,
    /// Secrets that its pods may mount if it is strict.
    pub(super) secrets: Vec<CompactString>,
    /// It is strict.
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

/// Go's `strconv.ParseBool`; anything it does not know is no.
fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "TRUE" | "true" | "True")
}
