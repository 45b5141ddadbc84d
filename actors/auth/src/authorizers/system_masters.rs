//! Members of `system:masters` may do everything, whatever the policy, so that a broken policy can be repaired.

use crate::grant::Grant;
use crate::user::{MASTERS, UserInfo};

/// Returns a grant for a member of the group, `None` for other users.
pub(super) fn authorize(user: &UserInfo) -> Option<Grant> {
    user.in_group(MASTERS).then_some(Grant::BuiltIn)
}
