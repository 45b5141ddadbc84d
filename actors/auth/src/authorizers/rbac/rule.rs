//! Rules of roles, and whether a rule allows a request (upstream: `pkg/apis/rbac/v1/evaluation_helpers.go`).

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use crate::attributes::Attributes;

/// The wildcard of verbs, groups, resources and paths.
pub(super) const ALL: &str = "*";

/// `rbac.authorization.k8s.io/v1` PolicyRule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    /// The allowed verbs.
    pub verbs: Vec<CompactString>,
    /// The API groups of the resources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<CompactString>,
    /// `pods`, `pods/log`, `*/scale` or `*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<CompactString>,
    /// The names of the allowed objects; empty means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<CompactString>,
    /// The allowed paths, possibly with a `*` at the end.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<CompactString>,
}

impl PolicyRule {
    /// Creates a rule about resources.
    #[must_use]
    pub fn resources(verbs: &[&str], groups: &[&str], resources: &[&str]) -> Self {
        Self { verbs: list(verbs), api_groups: list(groups), resources: list(resources), ..Self::default() }
    }

    /// Creates a rule about paths.
    #[must_use]
    pub fn paths(verbs: &[&str], paths: &[&str]) -> Self {
        Self { verbs: list(verbs), non_resource_urls: list(paths), ..Self::default() }
    }

    /// Restricts the rule to these object names.
    #[must_use]
    pub fn named(mut self, names: &[&str]) -> Self {
        self.resource_names = list(names);
        self
    }

    /// Whether the rule allows the request.
    #[must_use]
    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        if !has_or_all(&self.verbs, attributes.verb) {
            return false;
        }
        if !attributes.resource_request {
            return self.non_resource_urls.iter().any(|rule| path_matches(rule, attributes.path));
        }
        has_or_all(&self.api_groups, attributes.group)
            && self.resources.iter().any(|rule| resource_matches(rule, attributes.resource, attributes.subresource))
            && (self.resource_names.is_empty() || has(&self.resource_names, attributes.name))
    }
}

fn list(words: &[&str]) -> Vec<CompactString> {
    words.iter().map(|word| CompactString::from(*word)).collect()
}

pub(super) fn has(list: &[CompactString], word: &str) -> bool {
    list.iter().any(|known| known == word)
}

pub(super) fn has_or_all(list: &[CompactString], word: &str) -> bool {
    list.iter().any(|known| known == ALL || known == word)
}

fn resource_matches(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == ALL {
        return true;
    }
    if subresource.is_empty() {
        return rule == resource;
    }
    match rule.strip_suffix(subresource).and_then(|rest| rest.strip_suffix('/')) {
        Some(before) => before == resource || before == ALL,
        None => false,
    }
}

/// Whether a path matches. All trailing `*` are removed before the comparison, as in upstream.
pub(super) fn path_matches(rule: &str, path: &str) -> bool {
    rule == path || (rule.ends_with('*') && path.starts_with(rule.trim_end_matches('*')))
}
