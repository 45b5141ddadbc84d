//! Projections of selectors, affinity terms and spread constraints.

use oarlock_pods::node_affinity::{self, Field};
use oarlock_schema::views::core_v1::{
    NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, TopologySpreadConstraint,
};
use oarlock_schema::views::meta_v1::LabelSelector;
use oarlock_schema::views::{List, Map};

use crate::intern::{Interner, Sym};
use crate::labels::{Labels, Op, Requirement, Selector};
use crate::model::{Matcher, NameField, NodeTerm, PodTerm, Spread};

/// Returns a map as labels.
pub(super) fn labels<'a>(map: Map<'a, &'a str>, names: &Interner) -> Labels {
    Labels::new(map.iter().map(|(key, value)| (names.intern(key), names.intern(value))).collect())
}

/// Returns a map of labels as requirements of equality.
pub(super) fn equalities<'a>(map: Map<'a, &'a str>, names: &Interner) -> Vec<Requirement> {
    map.iter().map(|(key, value)| Requirement::equals(names.intern(key), names.intern(value))).collect()
}

fn values<'a>(list: List<'a, &'a str>, names: &Interner) -> Box<[Sym]> {
    let mut values: Vec<Sym> = list.iter().map(|value| names.intern(value)).collect();
    values.sort_unstable();
    values.dedup();
    values.into()
}

/// Returns a label selector. An absent selector, or one that upstream cannot parse, matches nothing.
pub(super) fn selector(selector: Option<LabelSelector<'_>>, names: &Interner) -> Selector {
    let Some(selector) = selector else { return Selector::Nothing };
    let mut requirements = equalities(selector.match_labels(), names);
    for expression in selector.match_expressions().iter() {
        let op = match expression.operator() {
            "In" => Op::In(values(expression.values(), names)),
            "NotIn" => Op::NotIn(values(expression.values(), names)),
            "Exists" => Op::Exists,
            "DoesNotExist" => Op::DoesNotExist,
            _ => return Selector::Nothing,
        };
        requirements.push(Requirement { key: names.intern(expression.key()), op });
    }
    Selector::All(requirements.into())
}

/// Adds the requirements of a spread constraint's `matchLabelKeys` for a pod with the labels `own` (KEP-3243).
fn merged<'a>(selector: Selector, keys: List<'a, &'a str>, own: &Labels, names: &Interner) -> Selector {
    let Selector::All(requirements) = selector else { return selector };
    let mut requirements = requirements.into_vec();
    for key in keys.iter().map(|key| names.intern(key)) {
        let Some(value) = own.get(key) else { continue };
        let requirement = Requirement { key, op: Op::In(Box::new([value])) };
        // The API server merged the keys into the selector when the pod was created; the pod's labels may have changed since.
        if !requirements.contains(&requirement) {
            requirements.push(requirement);
        }
    }
    Selector::All(requirements.into())
}

/// Returns one term of pod affinity. The API server has merged `matchLabelKeys` and `mismatchLabelKeys` into the selector, with the pod's labels at creation
/// (KEP-3633).
pub(super) fn pod_term(term: PodAffinityTerm<'_>, namespace: Sym, names: &Interner) -> PodTerm {
    let chosen = selector(term.label_selector(), names);
    let silent = term.namespaces().is_empty() && term.namespace_selector().is_none();
    let namespaces = if silent { Box::new([namespace]) as Box<[Sym]> } else { values(term.namespaces(), names) };
    let namespace_selector = selector(term.namespace_selector(), names);
    let matcher = Matcher { selector: chosen, namespaces, namespace_selector };
    PodTerm { topology: names.intern(term.topology_key()), matcher }
}

fn node_requirement(expression: NodeSelectorRequirement<'_>, names: &Interner) -> Option<Requirement> {
    let op = node_affinity::op(expression)?.map(|all| values(all, names));
    Some(Requirement { key: names.intern(expression.key()), op })
}

/// Returns one term of a node selector. A term without requirements, or one that cannot be parsed, matches no node.
pub(super) fn node_term(term: NodeSelectorTerm<'_>, names: &Interner) -> NodeTerm {
    let never = NodeTerm { never: true, ..NodeTerm::default() };
    if node_affinity::is_empty(term) {
        return never;
    }
    let labels: Option<Vec<_>> =
        term.match_expressions().iter().map(|expression| node_requirement(expression, names)).collect();
    let mut fields = Vec::new();
    for requirement in term.match_fields().iter() {
        match node_affinity::field(requirement) {
            Field::Name { wanted, name } => fields.push(NameField { wanted, name: names.intern(name) }),
            Field::Always => {}
            Field::Never => return never,
        }
    }
    labels.map_or(never, |labels| NodeTerm { labels: labels.into(), fields: fields.into(), never: false })
}

/// Returns one topology spread constraint.
pub(super) fn spread(rule: TopologySpreadConstraint<'_>, own: &Labels, names: &Interner) -> Spread {
    let chosen = selector(rule.label_selector(), names);
    Spread {
        topology: names.intern(rule.topology_key()),
        max_skew: i32::try_from(rule.max_skew()).unwrap_or(i32::MAX),
        hard: rule.when_unsatisfiable() != "ScheduleAnyway",
        selector: merged(chosen, rule.match_label_keys(), own, names),
        min_domains: rule.min_domains().map_or(1, |domains| i32::try_from(domains).unwrap_or(i32::MAX)),
        honor_affinity: rule.node_affinity_policy() != Some("Ignore"),
        honor_taints: rule.node_taints_policy() == Some("Honor"),
    }
}
