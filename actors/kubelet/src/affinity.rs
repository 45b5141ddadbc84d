//! Whether a node is one that a pod may run on: node selector, required node affinity, tolerations of `NoExecute` taints.

use std::collections::BTreeMap;

use oarlock_informer::{Fields, MANAGED, Project, ResourceName};
use oarlock_schema::views::List;
use oarlock_schema::views::core_v1::{Node, NodeSelectorRequirement, PodSpec};
use oarlock_schema::{Obj, Str};

/// One condition on a label, or on the field `metadata.name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Condition {
    key: Str,
    operator: Str,
    values: Box<[Str]>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Term {
    labels: Box<[Condition]>,
    fields: Box<[Condition]>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Toleration {
    key: Str,
    exists: bool,
    value: Str,
    effect: Str,
}

/// What a pod demands of its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Constraints {
    selector: Box<[(Str, Str)]>,
    /// One must hold; `None` demands nothing.
    terms: Option<Box<[Term]>>,
    tolerations: Box<[Toleration]>,
}

/// What matters of a node: its labels and the taints that evict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) name: Str,
    /// Sorted by key.
    pub(crate) labels: Vec<(Str, Str)>,
    /// Key and value of the `NoExecute` taints.
    pub(crate) taints: Vec<(Str, Str)>,
}

impl Project for Place {
    const RESOURCE: ResourceName = ResourceName::core("nodes");
    // A node's status is most of it, and no part of its place.
    const FIELDS: Fields = Fields::But(&[MANAGED, &["status"]]);

    fn project(obj: &Obj) -> Self {
        Self::read(obj.view().unwrap_or_else(|| Node::from_option(None)))
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

impl Place {
    pub(crate) fn read(node: Node<'_>) -> Self {
        let taints = node.spec().taints();
        Self {
            name: node.metadata().name().into(),
            labels: node.metadata().labels().iter().map(|(k, v)| (k.into(), v.into())).collect(),
            taints: taints
                .iter()
                .filter(|taint| taint.effect() == "NoExecute")
                .map(|taint| (taint.key().into(), taint.value().into()))
                .collect(),
        }
    }

    /// The kubelet's own node before the API has said anything of it: its name and the labels that it registers with, and no taints.
    pub(crate) fn own(name: Str, labels: BTreeMap<String, String>) -> Self {
        let labels = labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        Self { name, labels, taints: Vec::new() }
    }

    fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(known, _)| known.as_str().cmp(key)).ok()?;
        self.labels.get(at).map(|(_, value)| value.as_str())
    }
}

impl Constraints {
    pub(crate) fn read(spec: PodSpec<'_>) -> Self {
        let affinity = spec.affinity().and_then(|affinity| affinity.node_affinity());
        let required = affinity.and_then(|nodes| nodes.required_during_scheduling_ignored_during_execution());
        let conditions = |list: List<'_, NodeSelectorRequirement<'_>>| {
            let read = |r: NodeSelectorRequirement<'_>| Condition {
                key: r.key().into(),
                operator: r.operator().into(),
                values: r.values().iter().map(Str::from).collect(),
            };
            list.iter().map(read).collect::<Box<[Condition]>>()
        };
        let terms = required.map(|selector| {
            let terms = selector.node_selector_terms();
            terms
                .iter()
                .map(|term| Term {
                    labels: conditions(term.match_expressions()),
                    fields: conditions(term.match_fields()),
                })
                .collect()
        });
        Self {
            selector: spec.node_selector().iter().map(|(k, v)| (Str::from(k), Str::from(v))).collect(),
            terms,
            tolerations: spec
                .tolerations()
                .iter()
                .map(|t| Toleration {
                    key: t.key().into(),
                    exists: t.operator() == "Exists",
                    value: t.value().into(),
                    effect: t.effect().into(),
                })
                .collect(),
        }
    }

    /// Whether labels and name fit (upstream `nodeaffinity.GetRequiredNodeAffinity().Match`).
    pub(crate) fn fits(&self, node: &Place) -> bool {
        let selected = self.selector.iter().all(|(key, value)| node.label(key) == Some(value));
        selected && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.holds(node)))
    }

    /// Whether every `NoExecute` taint is tolerated.
    pub(crate) fn tolerates(&self, node: &Place) -> bool {
        let tolerates = |t: &Toleration, key: &str, value: &str| {
            (t.effect.is_empty() || t.effect == "NoExecute")
                && (t.key.is_empty() && t.exists || t.key == key && (t.exists || t.value == value))
        };
        node.taints.iter().all(|(key, value)| self.tolerations.iter().any(|t| tolerates(t, key, value)))
    }
}

impl Term {
    /// A term without conditions holds nowhere.
    fn holds(&self, node: &Place) -> bool {
        let any = !self.labels.is_empty() || !self.fields.is_empty();
        let name = |key: &str| (key == "metadata.name").then_some(node.name.as_str());
        any && self.labels.iter().all(|c| c.holds(node.label(&c.key)))
            && self.fields.iter().all(|c| c.holds(name(&c.key)))
    }
}

impl Condition {
    fn holds(&self, value: Option<&str>) -> bool {
        let listed = || value.is_some_and(|value| self.values.iter().any(|one| one == value));
        let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
        let than = || number(value).zip(number(self.values.first().map(Str::as_str)));
        match self.operator.as_str() {
            "In" => listed(),
            "NotIn" => !listed(),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => than().is_some_and(|(have, bound)| have > bound),
            "Lt" => than().is_some_and(|(have, bound)| have < bound),
            _ => false,
        }
    }
}
