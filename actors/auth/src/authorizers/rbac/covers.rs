//! Whether one set of rules includes another (upstream: `component-helpers/auth/rbac/validation`): the requested rules are broken
//! into atoms of one verb, one group, one resource and at most one name, and each atom must be allowed by one held rule.
//!
//! A rule of two kilobytes can have a million atoms, one of a megabyte more than can be counted. So values that the same held rules allow are looked at once,
//! combinations that one held rule allows as a whole are not enumerated, and the number of listed atoms and of steps is bounded: beyond the bounds the answer
//! is a refusal whose list is incomplete.

use std::collections::HashMap;

use compact_str::CompactString;
use oarlock_seeded_bug::seeded_bug;

use super::rule::{ALL, PolicyRule, path_matches};

/// How many atoms a refusal lists at most.
pub(super) const MAX_MISSING: usize = 10_000;

/// How many steps one comparison may take; a step looks at one held rule for one value.
const MAX_STEPS: usize = 4_000_000;

/// The part of the requested rules that is not held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Missing {
    /// The first atoms, in order.
    pub atoms: Vec<PolicyRule>,
    /// A bound was reached: more atoms may be missing than are listed.
    pub cut: bool,
}

impl Missing {
    /// Whether everything that was requested is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.atoms.is_empty() && !self.cut
    }
}

/// The part of `requested` that the rules `held` do not allow.
#[must_use]
pub fn covers(held: &[PolicyRule], requested: &[PolicyRule]) -> Missing {
    let index = Index::of(held);
    let mut search = Search { missing: Missing::default(), steps: MAX_STEPS };
    for rule in requested {
        if search.missing.cut {
            break;
        }
        let verbs = || Dimension::of(&rule.verbs, |verb| index.verbs.of(verb));
        let groups = Dimension::of(&rule.api_groups, |group| index.groups.of(group));
        let resources = Dimension::of(&rule.resources, |resource| index.of_resource(resource));
        let (start, names) = if rule.resource_names.is_empty() {
            (index.unnamed.clone(), None)
        } else {
            (index.all.clone(), Some(Dimension::of(&rule.resource_names, |name| index.of_name(name))))
        };
        let dimensions: Vec<Dimension<'_>> = [groups, resources, verbs()].into_iter().chain(names).collect();
        search.among(&dimensions, start, &|values| PolicyRule {
            verbs: one(values, 2),
            api_groups: one(values, 0),
            resources: one(values, 1),
            resource_names: one(values, 3),
            ..PolicyRule::default()
        });
        let urls = Dimension::of(&rule.non_resource_urls, |url| index.of_url(url));
        search.among(&[urls, verbs()], index.unnamed.clone(), &|values| PolicyRule {
            verbs: one(values, 1),
            non_resource_urls: one(values, 0),
            ..PolicyRule::default()
        });
    }
    search.missing
}

fn one(values: &[&CompactString], at: usize) -> Vec<CompactString> {
    values.get(at).map(|word| (*word).clone()).into_iter().collect()
}

/// Positions of held rules, sorted.
type Rules = Vec<u32>;

fn both(a: &Rules, b: &Rules) -> Rules {
    let mut other = b.iter().peekable();
    let shared = a.iter().filter(|rule| {
        while other.next_if(|next| next < rule).is_some() {}
        other.peek() == Some(rule)
    });
    shared.copied().collect()
}

/// For each word of one field, the held rules that contain it.
#[derive(Default)]
struct Words<'a> {
    exact: HashMap<&'a str, Rules>,
}

impl<'a> Words<'a> {
    fn add(&mut self, words: &'a [CompactString], rule: u32) {
        for word in words {
            let rules = self.exact.entry(word).or_default();
            if rules.last() != Some(&rule) {
                rules.push(rule);
            }
        }
    }

    fn exactly(&self, word: &str) -> Rules {
        self.exact.get(word).cloned().unwrap_or_default()
    }

    /// The rules with the word or the wildcard.
    fn of(&self, word: &str) -> Rules {
        united([self.exactly(word), self.exactly(ALL)])
    }
}

fn united<const N: usize>(sets: [Rules; N]) -> Rules {
    let mut out: Rules = sets.into_iter().flatten().collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// The held rules, indexed by the words of their fields.
#[derive(Default)]
struct Index<'a> {
    verbs: Words<'a>,
    groups: Words<'a>,
    resources: Words<'a>,
    names: Words<'a>,
    urls: Vec<(&'a str, u32)>,
    /// Rules without `resourceNames`, which allow all objects.
    unnamed: Rules,
    all: Rules,
}

impl<'a> Index<'a> {
    fn of(held: &'a [PolicyRule]) -> Self {
        let mut out = Self::default();
        for (rule, at) in held.iter().zip(0_u32..) {
            out.verbs.add(&rule.verbs, at);
            out.groups.add(&rule.api_groups, at);
            out.resources.add(&rule.resources, at);
            out.names.add(&rule.resource_names, at);
            out.urls.extend(rule.non_resource_urls.iter().map(|url| (url.as_str(), at)));
            if rule.resource_names.is_empty() {
                out.unnamed.push(at);
            }
            out.all.push(at);
        }
        out
    }

    /// The rules that allow a resource: `pods/log` is allowed by itself, by `*` and by `*/log`.
    fn of_resource(&self, resource: &str) -> Rules {
        let below = resource.split_once('/').map(|(_, below)| self.resources.exactly(&format!("{ALL}/{below}")));
        united([self.resources.of(resource), below.unwrap_or_default()])
    }

    fn of_name(&self, name: &str) -> Rules {
        united([self.names.exactly(name), self.unnamed.clone()])
    }

    fn of_url(&self, url: &str) -> Rules {
        united([self.urls.iter().filter(|(rule, _)| path_matches(rule, url)).map(|(_, at)| *at).collect()])
    }
}

/// The values of one field of a requested rule, grouped into classes: values of one class are allowed by the same held rules.
struct Dimension<'a> {
    values: Vec<(&'a CompactString, usize)>,
    classes: Vec<Rules>,
}

impl<'a> Dimension<'a> {
    fn of(values: &'a [CompactString], rules_of: impl Fn(&str) -> Rules) -> Self {
        let mut known: HashMap<Rules, usize> = HashMap::new();
        let mut classes = Vec::new();
        let class_of = |value: &'a CompactString| {
            let rules = rules_of(value);
            let class = *known.entry(rules).or_insert_with_key(|rules| {
                classes.push(rules.clone());
                classes.len() - 1
            });
            (value, class)
        };
        let values = values.iter().map(class_of).collect();
        Self { values, classes }
    }
}

type Make<'m> = &'m dyn Fn(&[&CompactString]) -> PolicyRule;

struct Search {
    missing: Missing,
    steps: usize,
}

impl Search {
    /// Looks for atoms that none of `rules` allows, among all combinations of the dimensions' values.
    fn among(&mut self, dimensions: &[Dimension<'_>], rules: Rules, make: Make<'_>) {
        if dimensions.iter().any(|dimension| dimension.values.is_empty()) {
            return;
        }
        // For each depth, the rules that allow every value of this dimension and of all that follow it.
        let mut whole = vec![rules.clone()];
        for dimension in dimensions.iter().rev() {
            let below = whole.last().cloned().unwrap_or_default();
            whole.push(dimension.classes.iter().fold(below, |all, class| both(&all, class)));
        }
        whole.reverse();
        self.descend(dimensions, &whole, &rules, &mut Vec::new(), make);
    }

    /// Adds the missing atoms that begin with the values `chosen`, which `rules` allow so far. Returns whether there are any.
    fn descend<'a>(
        &mut self,
        dimensions: &[Dimension<'a>],
        whole: &[Rules],
        rules: &Rules,
        chosen: &mut Vec<&'a CompactString>,
        make: Make<'_>,
    ) -> bool {
        let (Some((dimension, rest)), Some((covering, whole))) = (dimensions.split_first(), whole.split_first()) else {
            if rules.is_empty() {
                self.add(make(chosen));
            }
            return rules.is_empty();
        };
        if !both(rules, covering).is_empty() {
            return false;
        }
        let mut covered = vec![false; dimension.classes.len()];
        let mut any = false;
        for (value, class) in &dimension.values {
            if self.missing.cut {
                return true;
            }
            let Some(with) = dimension.classes.get(*class) else { continue };
            self.step(1 + rules.len() + with.len());
            if covered.get(*class).copied().unwrap_or_default() {
                continue;
            }
            chosen.push(value);
            let found = self.descend(rest, whole, &both(rules, with), chosen, make);
            chosen.pop();
            any |= found;
            if let Some(covered) = covered.get_mut(*class) {
                *covered = !found;
            }
        }
        any
    }

    fn add(&mut self, atom: PolicyRule) {
        if self.missing.atoms.len() < MAX_MISSING || seeded_bug!("every_atom_is_listed") {
            self.missing.atoms.push(atom);
        } else {
            self.missing.cut = true;
        }
    }

    fn step(&mut self, steps: usize) {
        match self.steps.checked_sub(steps) {
            Some(left) => self.steps = left,
            None => self.missing.cut |= !seeded_bug!("every_atom_is_listed"),
        }
    }
}
