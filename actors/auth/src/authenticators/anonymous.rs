//! The user of a request without any credential.

use std::sync::{Arc, LazyLock};

use crate::user::UserInfo;

/// Returns `system:anonymous`, created once.
pub(super) fn user() -> Arc<UserInfo> {
    static ANONYMOUS: LazyLock<Arc<UserInfo>> = LazyLock::new(|| Arc::new(UserInfo::anonymous()));
    Arc::clone(&ANONYMOUS)
}
