//! Which nodes a pod's node selector and required node affinity allow (upstream `component-helpers/scheduling/corev1/nodeaffinity`).
//!
//! A term with a requirement that cannot be parsed matches no node; neither does an empty term. Keys and values are not checked again: the API
//! has validated them as labels.

use oarlock_schema::Str;
use oarlock_schema::views::List;
use oarlock_schema::views::core_v1::{NodeSelectorRequirement, NodeSelectorTerm, PodSpec};

/// What a requirement asks of the value of its label. `V` is how the values are kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op<V> {
    /// The label is there with one of these values.
    In(V),
    /// The label is absent, or has none of these values.
    NotIn(V),
    /// The label is there.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The value is a number above this one.
    Gt(i64),
    /// The value is a number below this one.
    Lt(i64),
}

impl<V> Op<V> {
    /// The same operator over values that are kept otherwise.
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

    /// Whether a label's value, or its absence, is accepted. `listed` finds the value among others, `number` is the number that it spells.
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

/// The operator of a requirement of `matchExpressions`; `None` when it cannot be parsed.
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

/// What a requirement of `matchFields` asks of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field<'a> {
    /// The node's name is this one, or is another one.
    Name {
        /// Whether it is this one.
        wanted: bool,
        /// The name.
        name: &'a str,
    },
    /// Every node meets it: nodes have no such field, so it has no value that is excluded.
    Always,
    /// No node meets it.
    Never,
}

/// Reads a requirement of `matchFields`: nodes have the one field `metadata.name`, and it is compared with one value.
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

/// Whether a term has no requirement at all, so that it matches no node.
#[must_use]
pub fn is_empty(term: NodeSelectorTerm<'_>) -> bool {
    term.match_expressions().is_empty() && term.match_fields().is_empty()
}

/// Node selector and required node affinity of a pod, for parts that keep texts (upstream `GetRequiredNodeAffinity`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequiredNodes {
    selector: Box<[(Str, Str)]>,
    /// One of these must match; `None` when there is no required affinity.
    terms: Option<Box<[Term]>>,
}

/// A requirement on one label.
type Label = (Str, Op<Box<[Str]>>);

/// A term that some node can match.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Term {
    labels: Box<[Label]>,
    /// Names of nodes, and whether the node is to have them.
    names: Box<[(Str, bool)]>,
}

impl RequiredNodes {
    /// Reads what a pod requires of its node.
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
    /// `None` for a term that no node matches.
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
