//! Aggregated ClusterRoles: `admin`, `edit`, `view` and whoever asks for it collect the rules of roles with certain labels. The index
//! knows nothing of that; whoever keeps the roles (upstream: the clusterrole-aggregation controller) writes the result into the object.

use oarlock_meta::LabelSelector;

use super::rule::PolicyRule;

/// A ClusterRole that may be collected from.
#[derive(Debug, Clone, Copy)]
pub struct AggregatedRole<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a [(String, String)],
    /// Its rules.
    pub rules: &'a [PolicyRule],
}

/// The rules of the aggregated role `name`: for each selector in turn, of the roles it matches by name, every rule that is not there
/// yet. The role itself is left out.
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
