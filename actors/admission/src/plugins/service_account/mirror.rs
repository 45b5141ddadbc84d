//! Mirror pods: the API's copies of static pods. They stay as the kubelet wrote them and may not refer to objects that require an account.

use oarlock_schema::views::core_v1::Pod;

use crate::plugins::references;

/// Checks a mirror pod.
pub(super) fn check(pod: Pod<'_>) -> Result<(), &'static str> {
    if !pod.spec().service_account_name().is_empty() || !pod.spec().service_account().is_empty() {
        return Err("a mirror pod may not reference service accounts");
    }
    if references::to_secrets(pod) {
        return Err("a mirror pod may not reference secrets");
    }
    let takes_token = |v: oarlock_schema::views::core_v1::Volume<'_>| {
        v.projected().is_some_and(|p| p.sources().iter().any(|s| s.service_account_token().is_some()))
    };
    if pod.spec().volumes().iter().any(takes_token) {
        return Err("a mirror pod may not use ServiceAccountToken volume projections");
    }
    Ok(())
}
