//! Deprecated kinds: every answer carries a warning, whatever the verb (upstream: the API lifecycle of the types).

use oarlock_schema::Resource;

use crate::caller::Caller;

/// Plural, version of the deprecation, and replacement; all of `v1`.
const CORE: &[(&str, &str, &str)] =
    &[("componentstatuses", "v1.19", ""), ("endpoints", "v1.33", "; use discovery.k8s.io/v1 EndpointSlice")];

/// Adds the deprecation warning to a request that has a route.
pub(super) fn warn(caller: &Caller, row: &Resource) {
    let old = CORE.iter().find(|(plural, ..)| row.group.is_empty() && *plural == row.plural);
    if let Some((_, since, instead)) = old {
        caller.warn(format!("{} {} is deprecated in {since}+{instead}", row.group_version(), row.kind));
    }
}
