//! Whether one set of rules includes another (upstream: `component-helpers/auth/rbac/validation`): the requested rules are broken
//! into atoms of one verb, one group, one resource and at most one name, and each atom must be allowed by one held rule.

use compact_str::CompactString;

use super::rule::{ALL, PolicyRule, has, has_or_all, path_matches};

/// The atoms of `requested` that `held` does not include, in order; empty when all are covered.
#[must_use]
pub fn covers(held: &[PolicyRule], requested: &[PolicyRule]) -> Vec<PolicyRule> {
    let mut missing = Vec::new();
    for rule in requested {
        each_atom(rule, |atom| {
            if !held.iter().any(|own| includes(own, &atom)) {
                missing.push(atom);
            }
        });
    }
    missing
}

fn each_atom(rule: &PolicyRule, mut visit: impl FnMut(PolicyRule)) {
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let atom = PolicyRule {
                    verbs: vec![verb.clone()],
                    api_groups: vec![group.clone()],
                    resources: vec![resource.clone()],
                    ..PolicyRule::default()
                };
                if rule.resource_names.is_empty() {
                    visit(atom);
                } else {
                    for name in &rule.resource_names {
                        visit(PolicyRule { resource_names: vec![name.clone()], ..atom.clone() });
                    }
                }
            }
        }
    }
    for url in &rule.non_resource_urls {
        for verb in &rule.verbs {
            visit(PolicyRule {
                verbs: vec![verb.clone()],
                non_resource_urls: vec![url.clone()],
                ..PolicyRule::default()
            });
        }
    }
}

fn includes(own: &PolicyRule, atom: &PolicyRule) -> bool {
    let all = |held: &[CompactString], asked: &[CompactString]| asked.iter().all(|word| has_or_all(held, word));
    let names = own.resource_names.is_empty()
        || (!atom.resource_names.is_empty() && atom.resource_names.iter().all(|name| has(&own.resource_names, name)));
    names
        && all(&own.verbs, &atom.verbs)
        && all(&own.api_groups, &atom.api_groups)
        && atom.resources.iter().all(|resource| includes_resource(&own.resources, resource))
        && atom.non_resource_urls.iter().all(|url| own.non_resource_urls.iter().any(|rule| path_matches(rule, url)))
}

/// `pods/log` is included in itself, in `*` and in `*/log`.
fn includes_resource(held: &[CompactString], resource: &str) -> bool {
    has_or_all(held, resource)
        || resource.split_once('/').is_some_and(|(_, subresource)| {
            held.iter().any(|own| own.strip_prefix(ALL).and_then(|r| r.strip_prefix('/')) == Some(subresource))
        })
}
