//! Whether one set of rules includes another (upstream: `component-helpers/auth/rbac/validation`): the requested rules are broken
//! into atoms of one verb, one group, one resource and at most one name, and each atom must be allowed by one held rule.
//!
//! A rule of two kilobytes has a million atoms, and one of a megabyte too many to count. So values that the same held rules include are examined
//! once, and a branch of atoms that one held rule includes is skipped as a whole. Both the listed atoms and the steps are bounded: beyond a bound the
//! answer is a refusal with a cut list. All work per requested value counts as steps, and the rules that include all values of a field are not
//! searched per value.

use std::borrow::Cow;
use std::collections::HashMap;

use compact_str::CompactString;
use oarlock_seeded_bug::seeded_bug;

use super::rule::{ALL, PolicyRule, path_matches};

/// The most atoms that a refusal lists.
pub(super) const MAX_MISSING: usize = 10_000;

/// The most steps of one comparison; a step examines one held rule for one value.
pub(super) const MAX_STEPS: usize = 4_000_000;

/// The requested atoms that the held rules do not allow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Missing {
    /// The first missing atoms, in order.
    pub atoms: Vec<PolicyRule>,
    /// Whether a bound was reached, so that more atoms may be missing than are listed.
    pub cut: bool,
}

impl Missing {
    /// Whether everything requested is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.atoms.is_empty() && !self.cut
    }
}

/// Returns the atoms of `requested` that the rules `held` do not allow.
#[must_use]
pub fn covers(held: &[PolicyRule], requested: &[PolicyRule]) -> Missing {
    counted(held, requested).0
}

/// Compares as [`covers`] does, and returns the number of steps left.
pub(super) fn counted(held: &[PolicyRule], requested: &[PolicyRule]) -> (Missing, usize) {
    let index = Index::of(held);
    let mut search = Search { missing: Missing::default(), steps: MAX_STEPS };
    for rule in requested {
        search.resources(&index, rule);
        search.urls(&index, rule);
        if search.missing.cut {
            break;
        }
    }
    (search.missing, search.steps)
}

fn one(values: &[&CompactString], at: usize) -> Vec<CompactString> {
    values.get(at).map(|word| (*word).clone()).into_iter().collect()
}

/// Positions of held rules, sorted.
type Rules = Vec<u32>;

/// The ratio of set sizes from which a lookup per element of the smaller set is cheaper than a merge.
const LOOKUP_RATIO: usize = 16;

/// Returns the rules that are in both sets.
fn common<'r>(a: &'r [u32], b: &'r [u32]) -> impl Iterator<Item = u32> + use<'r> {
    let (few, many) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let look_up = few.len() * LOOKUP_RATIO < many.len();
    let mut others = many.iter().peekable();
    few.iter().copied().filter(move |rule| {
        if look_up {
            return many.binary_search(rule).is_ok();
        }
        while others.next_if(|next| *next < rule).is_some() {}
        others.peek() == Some(&rule)
    })
}

fn both(a: &[u32], b: &[u32]) -> Rules {
    common(a, b).collect()
}

/// Returns the number of steps that [`common`] takes.
fn steps_of(a: &[u32], b: &[u32]) -> usize {
    1 + (a.len() + b.len()).min(LOOKUP_RATIO * a.len().min(b.len()))
}

fn united(mut a: Rules, b: &[u32]) -> Rules {
    if !b.is_empty() {
        a.extend_from_slice(b);
        a.sort_unstable();
        a.dedup();
    }
    a
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

    fn exactly(&self, word: &str) -> &[u32] {
        self.exact.get(word).map(Vec::as_slice).unwrap_or_default()
    }
}

/// The held rules, indexed by the words of their fields.
#[derive(Default)]
struct Index<'a> {
    verbs: Words<'a>,
    groups: Words<'a>,
    resources: Words<'a>,
    names: Words<'a>,
    urls: Vec<(&'a str, u32)>,
    /// The rules without `resourceNames`, which allow all objects.
    unnamed: Rules,
    all: Rules,
    /// Whether one rule allows every verb on every object.
    everything: bool,
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
        let about_all = |rule: &PolicyRule| {
            let has = |words: &[CompactString]| words.iter().any(|word| word == ALL);
            rule.resource_names.is_empty() && has(&rule.verbs) && has(&rule.api_groups) && has(&rule.resources)
        };
        out.everything = held.iter().any(about_all);
        out
    }

    /// Returns the rules that include a resource: `pods/log` is included in itself, in `*` and in `*/log`.
    fn of_resource(&self, resource: &str) -> Cow<'_, [u32]> {
        let exact = self.resources.exactly(resource);
        match resource.split_once('/') {
            Some((_, below)) => united(exact.to_vec(), self.resources.exactly(&format!("{ALL}/{below}"))).into(),
            None => exact.into(),
        }
    }

    fn of_url(&self, url: &str) -> Rules {
        let rules = self.urls.iter().filter(|(rule, _)| path_matches(rule, url)).map(|(_, at)| *at).collect();
        let mut rules: Rules = rules;
        rules.dedup();
        rules
    }
}

/// The values of one field of a requested rule, grouped into classes: the values of a class are allowed by the same held rules.
struct Dimension<'a> {
    values: Vec<(&'a CompactString, usize)>,
    /// For each class, the held rules that include its values.
    classes: Vec<Cow<'a, [u32]>>,
    /// The held rules that include every value.
    always: &'a [u32],
}

type Make<'m> = &'m dyn Fn(&[&CompactString]) -> PolicyRule;

struct Search {
    missing: Missing,
    steps: usize,
}

impl Search {
    fn resources(&mut self, index: &Index<'_>, rule: &PolicyRule) {
        if index.everything {
            return;
        }
        let start = if rule.resource_names.is_empty() { &index.unnamed } else { &index.all };
        let mut dimensions = vec![
            self.words(&rule.api_groups, &index.groups),
            self.dimension(&rule.resources, index.resources.exactly(ALL), 0, |resource| index.of_resource(resource)),
            self.words(&rule.verbs, &index.verbs),
        ];
        if !rule.resource_names.is_empty() {
            let names = |name: &str| index.names.exactly(name).into();
            dimensions.push(self.dimension(&rule.resource_names, &index.unnamed, 0, names));
        }
        self.among(&dimensions, start, &|values| PolicyRule {
            verbs: one(values, 2),
            api_groups: one(values, 0),
            resources: one(values, 1),
            resource_names: one(values, 3),
            ..PolicyRule::default()
        });
    }

    fn urls(&mut self, index: &Index<'_>, rule: &PolicyRule) {
        if rule.non_resource_urls.is_empty() {
            return;
        }
        let urls = self.dimension(&rule.non_resource_urls, &[], index.urls.len(), |url| index.of_url(url).into());
        let dimensions = [urls, self.words(&rule.verbs, &index.verbs)];
        self.among(&dimensions, &index.unnamed, &|values| PolicyRule {
            verbs: one(values, 1),
            non_resource_urls: one(values, 0),
            ..PolicyRule::default()
        });
    }

    /// Groups values by the rules that contain the word or the wildcard.
    fn words<'a>(&mut self, values: &'a [CompactString], words: &'a Words<'_>) -> Dimension<'a> {
        self.dimension(values, words.exactly(ALL), 0, |word| words.exactly(word).into())
    }

    /// Groups values by the rules that include them. `each` is the number of steps of a lookup, besides one per rule found.
    fn dimension<'a>(
        &mut self,
        values: &'a [CompactString],
        always: &'a [u32],
        each: usize,
        rules_of: impl Fn(&str) -> Cow<'a, [u32]>,
    ) -> Dimension<'a> {
        let mut known: HashMap<Cow<'a, [u32]>, usize> = HashMap::new();
        let mut out = Dimension { values: Vec::new(), classes: Vec::new(), always };
        for value in values {
            if self.missing.cut {
                break;
            }
            let rules = rules_of(value);
            self.step(1 + each + rules.len());
            let class = *known.entry(rules).or_insert_with_key(|rules| {
                out.classes.push(rules.clone());
                out.classes.len() - 1
            });
            out.values.push((value, class));
        }
        out
    }

    /// Searches all combinations of the dimensions' values for atoms that none of `rules` includes.
    fn among(&mut self, dimensions: &[Dimension<'_>], rules: &[u32], make: Make<'_>) {
        if self.missing.cut || dimensions.iter().any(|dimension| dimension.values.is_empty()) {
            return;
        }
        // For each depth, the rules that include every value of this and all later dimensions.
        let mut whole: Vec<Rules> = Vec::new();
        for dimension in dimensions.iter().rev() {
            let below = whole.last().map_or(rules, Vec::as_slice);
            let each = self.in_each(below, &dimension.classes);
            self.step(steps_of(below, dimension.always));
            whole.push(united(each, &both(below, dimension.always)));
        }
        whole.reverse();
        self.descend(dimensions, &whole, rules, &mut Vec::new(), make);
    }

    /// Returns the rules that are in every class; none when the steps run out.
    fn in_each(&mut self, rules: &[u32], classes: &[Cow<'_, [u32]>]) -> Rules {
        let Some((first, others)) = classes.split_first() else { return Rules::new() };
        self.step(steps_of(rules, first));
        let mut each = both(rules, first);
        for class in others {
            if each.is_empty() {
                break;
            }
            self.step(steps_of(&each, class));
            if self.missing.cut {
                return Rules::new();
            }
            each = both(&each, class);
        }
        each
    }

    /// Adds the missing atoms that begin with the values `chosen`, which `rules` allow so far. Returns whether any are missing.
    fn descend<'a>(
        &mut self,
        dimensions: &[Dimension<'a>],
        whole: &[Rules],
        rules: &[u32],
        chosen: &mut Vec<&'a CompactString>,
        make: Make<'_>,
    ) -> bool {
        let (Some((dimension, rest)), Some((covering, whole))) = (dimensions.split_first(), whole.split_first()) else {
            if rules.is_empty() {
                self.add(make(chosen));
            }
            return rules.is_empty();
        };
        self.step(steps_of(rules, covering) + steps_of(rules, dimension.always));
        if common(rules, covering).next().is_some() {
            return false;
        }
        let always = both(rules, dimension.always);
        let mut covered = vec![false; dimension.classes.len()];
        let mut any = false;
        for (value, class) in &dimension.values {
            if self.missing.cut {
                return true;
            }
            let Some(exact) = dimension.classes.get(*class) else { continue };
            self.step(1);
            if covered.get(*class).copied().unwrap_or_default() {
                continue;
            }
            self.step(steps_of(rules, exact) + always.len());
            chosen.push(value);
            let found = self.descend(rest, whole, &united(both(rules, exact), &always), chosen, make);
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
