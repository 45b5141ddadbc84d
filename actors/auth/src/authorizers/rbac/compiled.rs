//! Compiled roles: rules without wildcards are found by the hash of (verb, group, resource, subresource); the few rules with wildcards or paths are
//! tried one by one.

use std::hash::{BuildHasher as _, Hasher};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;

use super::rule::{ALL, PolicyRule};
use crate::attributes::Attributes;

/// The most combinations of a rule that are hashed; a rule with more is tried like a wildcard rule.
const MAX_COMBINATIONS: usize = 4096;

/// The hash key of a request. Computed once per request and used in every role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKey {
    /// A resource request.
    Resource(u64),
    /// A resource with a slash in its name, which an access review may contain; such a request is not found by hash.
    Odd,
    /// A non-resource request.
    Path,
}

impl RequestKey {
    pub(super) fn of(attributes: &Attributes<'_>) -> Self {
        if !attributes.resource_request {
            Self::Path
        } else if attributes.resource.contains('/') {
            Self::Odd
        } else {
            Self::Resource(hash(attributes.verb, attributes.group, attributes.resource, attributes.subresource))
        }
    }
}

/// Hashes a combination. A collision costs a comparison but no wrong answer, because candidates are compared in full.
fn hash(verb: &str, group: &str, resource: &str, subresource: &str) -> u64 {
    FixedState::default().hash_one((verb, group, resource, subresource))
}

/// A hasher for keys that are hashes already.
#[derive(Debug, Default, Clone, Copy)]
struct Unhashed(u64);

impl Hasher for Unhashed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 << 8) | u64::from(*byte);
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

type ByHash = HashMap<u64, SmallVec<[u32; 2]>, std::hash::BuildHasherDefault<Unhashed>>;

/// A compiled role. Immutable.
#[derive(Debug, Default)]
pub(super) struct Role {
    rules: Vec<PolicyRule>,
    exact: ByHash,
    patterns: Vec<u32>,
    paths: Vec<u32>,
}

impl Role {
    pub(super) fn compile(rules: Vec<PolicyRule>) -> Self {
        let mut role = Self { rules, ..Self::default() };
        for (position, rule) in (0_u32..).zip(&role.rules) {
            if !rule.non_resource_urls.is_empty() {
                role.paths.push(position);
            }
            if rule.resources.is_empty() || rule.api_groups.is_empty() || rule.verbs.is_empty() {
                continue;
            }
            if needs_trying(rule) {
                role.patterns.push(position);
                continue;
            }
            for verb in &rule.verbs {
                for group in &rule.api_groups {
                    for resource in &rule.resources {
                        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                        let found = role.exact.entry(hash(verb, group, resource, subresource)).or_default();
                        if found.last() != Some(&position) {
                            found.push(position);
                        }
                    }
                }
            }
        }
        role
    }

    pub(super) fn rules(&self) -> &[PolicyRule] {
        &self.rules
    }

    pub(super) fn allows(&self, attributes: &Attributes<'_>, key: RequestKey) -> bool {
        let allows = |position: &u32| self.rules.get(*position as usize).is_some_and(|rule| rule.allows(attributes));
        match key {
            RequestKey::Path => self.paths.iter().any(allows),
            RequestKey::Odd => self.rules.iter().any(|rule| rule.allows(attributes)),
            RequestKey::Resource(hash) => {
                self.exact.get(&hash).is_some_and(|found| found.iter().any(allows)) || self.patterns.iter().any(allows)
            }
        }
    }
}

fn needs_trying(rule: &PolicyRule) -> bool {
    let wild = rule.verbs.iter().chain(&rule.api_groups).any(|word| word == ALL)
        || rule.resources.iter().any(|resource| resource == ALL || resource.starts_with("*/"));
    wild || rule.verbs.len() * rule.api_groups.len() * rule.resources.len() > MAX_COMBINATIONS
}
