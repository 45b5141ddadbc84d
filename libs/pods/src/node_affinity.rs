//! Decides which nodes a pod's node selector and required node affinity allow (upstream `component-helpers/scheduling/corev1/nodeaffinity`).
//!
//! A term with a requirement that cannot be parsed matches no node; neither does an empty term. Keys and values are not checked again, because the API has
//! validated the labels.

use oarlock_schema::Str;
use oarlock_schema::views::List;
use oarlock_schema::views::core_v1::{NodeSelectorRequirement, NodeSelectorTerm, PodSpec};

/// The operator of a requirement with its values. `V` is the storage of the values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op<V> {
    /// The label is present with one of these values.
    In(V),
    /// The label is absent, or has none of these values.
    NotIn(V),
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The value is a number above this one.
    Gt(i64),
    /// The value is a number below this one.
    Lt(i64),
}

impl<V> Op<V> {
    /// Returns the same operator over another storage of the values.
    pub fn map<W>(self, values: impl FnOnce(V) -> W) -> Op<W> {
        match self {
            Self::In(all) => Op::In(values(all)),
            Self::NotIn(all) => Op::NotIn(values(all)),
            Self::Exists => Op::Exists,
            Self::DoesNotExist => Op::DoesNotExist,
            Self::Gt(bound) => Op::Gt(bound),
            Self::Lt(bound) => Op::Lt(bound),
        }
    }

    /// Whether the operator accepts a label's value, or its absence. `listed` searches the values for the label's value, `number` parses the label's value.
    pub fn accepts<T>(
        &self,
        value: Option<T>,
        listed: impl FnOnce(&V, T) -> bool,
        number: impl FnOnce(T) -> Option<i64>,
    ) -> bool {
        match (self, value) {
            (Self::In(all), Some(value)) => listed(all, value),
            (Self::NotIn(all), Some(value)) => !listed(all, value),
            (Self::NotIn(_) | Self::DoesNotExist, None) | (Self::Exists, Some(_)) => true,
            (Self::Gt(bound), Some(value)) => number(value).is_some_and(|number| number > *bound),
            (Self::Lt(bound), Some(value)) => number(value).is_some_and(|number| number < *bound),
            (Self::In(_) | Self::Exists | Self::Gt(_) | Self::Lt(_), None) | (Self::DoesNotExist, Some(_)) => false,
        }
    }
}

/// Returns the operator of a requirement of `matchExpressions`; `None` when the requirement cannot be parsed.
#[must_use]
pub fn op<'a>(requirement: NodeSelectorRequirement<'a>) -> Option<Op<List<'a, &'a str>>> {
    let values = requirement.values();
    let number = || values.get(0).filter(|_| values.len() == 1)?.parse().ok();
    match requirement.operator() {
        "In" if !values.is_empty() => Some(Op::In(values)),
        "NotIn" if !values.is_empty() => Some(Op::NotIn(values)),
        "Exists" if values.is_empty() => Some(Op::Exists),
        "DoesNotExist" if values.is_empty() => Some(Op::DoesNotExist),
        "Gt" => number().map(Op::Gt),
        "Lt" => number().map(Op::Lt),
        _ => None,
    }
}

/// A parsed requirement of `matchFields`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field<'a> {
    /// The node's name equals, or does not equal, `name`.
    Name {
        /// Whether the name must be equal.
        wanted: bool,
        /// The name to compare with.
        name: &'a str,
    },
    /// Every node matches: nodes lack the field, so no excluded value can occur.
    Always,
    /// No node matches.
    Never,
}

/// Reads a requirement of `matchFields`. Nodes have the single field `metadata.name`, which is compared with one value.
#[must_use]
pub fn field(requirement: NodeSelectorRequirement<'_>) -> Field<'_> {
    let values = requirement.values();
    let wanted = requirement.operator() == "In";
    match values.get(0).filter(|_| values.len() == 1) {
        Some(name) if wanted || requirement.operator() == "NotIn" => match requirement.key() {
            "metadata.name" => Field::Name { wanted, name },
            _ if wanted => Field::Never,
            _ => Field::Always,
        },
        _ => Field::Never,
    }
}

/// Whether a term has no requirement, so that the term matches no node.
#[must_use]
pub fn is_empty(term: NodeSelectorTerm<'_>) -> bool {
    term.match_expressions().is_empty() && term.match_fields().is_empty()
}

/// The node selector and required node affinity of a pod, for components that store texts (upstream `GetRequiredNodeAffinity`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequiredNodes {
    selector: Box<[(Str, Str)]>,
    /// The alternatives, one of which must match; `None` without a required affinity.
    terms: Option<Box<[Term]>>,
}

/// A requirement on one label.
type Label = (Str, Op<Box<[Str]>>);

/// A term that can match some node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Term {
    labels: Box<[Label]>,
    /// Names of nodes, each with whether the node's name must be equal.
    names: Box<[(Str, bool)]>,
}

impl RequiredNodes {
    /// Reads the node selector and required node affinity of a pod.
    #[must_use]
    pub fn read(spec: PodSpec<'_>) -> Self {
        let affinity = spec.affinity().and_then(|affinity| affinity.node_affinity());
        let required = affinity.and_then(|nodes| nodes.required_during_scheduling_ignored_during_execution());
        Self {
            selector: spec.node_selector().iter().map(|(key, value)| (key.into(), value.into())).collect(),
            terms: required.map(|required| required.node_selector_terms().iter().filter_map(Term::read).collect()),
        }
    }

    /// Whether a node with this name and these labels is allowed.
    pub fn matches<'n>(&self, name: &str, label: impl Fn(&str) -> Option<&'n str>) -> bool {
        self.selector.iter().all(|(key, value)| label(key) == Some(value))
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(name, &label)))
    }
}

impl Term {
    /// Reads a term; `None` for a term that no node matches.
    fn read(term: NodeSelectorTerm<'_>) -> Option<Self> {
        if is_empty(term) {
            return None;
        }
        let mut names = Vec::new();
        for requirement in term.match_fields().iter() {
            match field(requirement) {
                Field::Name { wanted, name } => names.push((name.into(), wanted)),
                Field::Always => {}
                Field::Never => return None,
            }
        }
        let label = |requirement: NodeSelectorRequirement<'_>| {
            let op = op(requirement)?.map(|values| values.iter().map(Str::from).collect());
            Some((requirement.key().into(), op))
        };
        let labels = term.match_expressions().iter().map(label).collect::<Option<_>>()?;
        Some(Self { labels, names: names.into() })
    }

    fn matches<'n>(&self, name: &str, label: &impl Fn(&str) -> Option<&'n str>) -> bool {
        let labelled = |(key, op): &Label| {
            op.accepts(label(key), |values, value| values.iter().any(|one| one == value), |value| value.parse().ok())
        };
        self.labels.iter().all(labelled) && self.names.iter().all(|(known, wanted)| (known == name) == *wanted)
    }
}
