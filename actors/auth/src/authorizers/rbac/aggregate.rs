//! Aggregated ClusterRoles: `admin`, `edit`, `view` and others collect the rules of roles with certain labels. The index does not aggregate; the
//! clusterrole-aggregation controller writes the result into the object, as in upstream.

use oarlock_meta::LabelSelector;

use super::rule::PolicyRule;

/// A ClusterRole whose rules may be collected.
#[derive(Debug, Clone, Copy)]
pub struct AggregatedRole<'a> {
    /// The role's name.
    pub name: &'a str,
    /// The role's labels.
    pub labels: &'a [(String, String)],
    /// The role's rules.
    pub rules: &'a [PolicyRule],
}

/// Returns the rules of the aggregated role `name`: for each selector in turn, from the matching roles by name, every rule not yet collected. The
/// role itself is left out.
#[must_use]
pub fn aggregate(name: &str, selectors: &[LabelSelector], roles: &[AggregatedRole<'_>]) -> Vec<PolicyRule> {
    let mut sorted: Vec<&AggregatedRole<'_>> = roles.iter().filter(|role| role.name != name).collect();
    sorted.sort_by_key(|role| role.name);
    let mut collected: Vec<PolicyRule> = Vec::new();
    for selector in selectors {
        for role in &sorted {
            let labels: Vec<(&str, &str)> = role.labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            if !selector.matches(labels.as_slice()) {
                continue;
            }
            for rule in role.rules {
                if !collected.contains(rule) {
                    collected.push(rule.clone());
                }
            }
        }
    }
    collected
}
