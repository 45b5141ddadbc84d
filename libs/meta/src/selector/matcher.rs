//! Selectors in the form that decides about many objects.
//!
//! A selector of the length of a request head has twenty thousand requirements, and a watch decides with it about each event. So a matcher gathers the
//! requirements on one key into one rule, with values that are found by binary search, and looks the labels of an object up among the rules or the
//! keys of the rules up among the labels, whichever are fewer.

use compact_str::CompactString;

use super::{FieldRequirement, FieldSelector, LabelRequirement, LabelSelector, Lookup, Operator};

/// A label selector in the form that decides about many objects.
#[derive(Clone, Debug, Default)]
pub struct LabelMatcher {
    /// Sorted by key, one for each.
    rules: Vec<LabelRule>,
    /// Number of keys that an object must have.
    required: usize,
    /// Whether no object fulfils all requirements.
    impossible: bool,
}

/// All requirements on one key.
#[derive(Clone, Debug, Default)]
struct LabelRule {
    key: CompactString,
    required: bool,
    forbidden: bool,
    /// The values of which the label must have one, sorted; `None` for any value.
    allowed: Option<Vec<CompactString>>,
    /// The values that the label must not have, sorted.
    denied: Vec<CompactString>,
    above: Option<i64>,
    below: Option<i64>,
    /// Whether no value fulfils the rule.
    impossible: bool,
}

fn contains(sorted: &[CompactString], value: &str) -> bool {
    sorted.binary_search_by(|one| one.as_str().cmp(value)).is_ok()
}

impl LabelRule {
    fn add(&mut self, requirement: LabelRequirement) {
        let LabelRequirement { operator, values, .. } = requirement;
        match operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => match &mut self.allowed {
                Some(allowed) => allowed.retain(|value| contains(&values, value)),
                None => self.allowed = Some(values.into_vec()),
            },
            Operator::NotIn | Operator::NotEquals => self.denied.extend(values),
            Operator::DoesNotExist => self.forbidden = true,
            Operator::GreaterThan | Operator::LessThan => match values.as_slice() {
                [limit] if let Ok(limit) = limit.parse::<i64>() => {
                    if operator == Operator::GreaterThan {
                        self.above = Some(self.above.map_or(limit, |above| above.max(limit)));
                    } else {
                        self.below = Some(self.below.map_or(limit, |below| below.min(limit)));
                    }
                }
                _ => self.impossible = true,
            },
            Operator::Exists => {}
        }
        self.required |= !matches!(operator, Operator::NotIn | Operator::NotEquals | Operator::DoesNotExist);
    }

    fn accepts(&self, value: &str) -> bool {
        let number = || value.parse::<i64>().ok();
        !self.forbidden
            && self.allowed.as_ref().is_none_or(|allowed| contains(allowed, value))
            && !contains(&self.denied, value)
            && self.above.is_none_or(|limit| number().is_some_and(|value| value > limit))
            && self.below.is_none_or(|limit| number().is_some_and(|value| value < limit))
    }

    fn bytes(&self) -> usize {
        let values = self.allowed.as_ref().map_or(0, Vec::len) + self.denied.len();
        size_of::<Self>() + values * size_of::<CompactString>()
    }
}

impl From<LabelSelector> for LabelMatcher {
    fn from(selector: LabelSelector) -> Self {
        let mut rules: Vec<LabelRule> = Vec::new();
        // The requirements of a selector are sorted by key.
        for requirement in selector.into_requirements() {
            let rule = match rules.pop_if(|last| last.key == requirement.key) {
                Some(rule) => rule,
                None => LabelRule { key: requirement.key.clone(), ..LabelRule::default() },
            };
            rules.push(rule);
            if let Some(rule) = rules.last_mut() {
                rule.add(requirement);
            }
        }
        for rule in &mut rules {
            rule.denied.sort_unstable();
            rule.denied.dedup();
            rule.denied.shrink_to_fit();
        }
        rules.shrink_to_fit();
        let impossible = rules.iter().any(|rule| rule.impossible || rule.required && rule.forbidden);
        Self { required: rules.iter().filter(|rule| rule.required).count(), impossible, rules }
    }
}

impl LabelMatcher {
    /// Whether every object is selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the number of keys that the selector names.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.rules.len()
    }

    /// Returns the approximate number of bytes of memory that the matcher takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.rules.iter().map(LabelRule::bytes).sum()
    }

    /// Whether an object with these labels, which are sorted by name and distinct, fulfils all requirements.
    pub fn matches<N: AsRef<str>, V: AsRef<str>>(&self, labels: &[(N, V)]) -> bool {
        if self.impossible || self.required > labels.len() {
            return false;
        }
        if labels.len() >= self.rules.len() {
            return self.rules.iter().all(|rule| {
                let at = labels.binary_search_by(|(name, _)| name.as_ref().cmp(rule.key.as_str()));
                let value = at.ok().and_then(|at| labels.get(at)).map(|(_, value)| value.as_ref());
                value.map_or(!rule.required, |value| rule.accepts(value))
            });
        }
        let mut required = 0;
        for (name, value) in labels {
            let at = self.rules.binary_search_by(|rule| rule.key.as_str().cmp(name.as_ref()));
            let Some(rule) = at.ok().and_then(|at| self.rules.get(at)) else { continue };
            if !rule.accepts(value.as_ref()) {
                return false;
            }
            required += usize::from(rule.required);
        }
        required == self.required
    }
}

/// A field selector in the form that decides about many objects.
#[derive(Clone, Debug, Default)]
pub struct FieldMatcher {
    /// Sorted by field, one for each.
    rules: Vec<FieldRule>,
}

/// All requirements on one field.
#[derive(Clone, Debug, Default)]
struct FieldRule {
    field: CompactString,
    /// The value that the field must have; `None` for any value.
    exact: Option<CompactString>,
    /// The values that the field must not have, sorted.
    denied: Vec<CompactString>,
    /// Whether no value fulfils the rule.
    impossible: bool,
}

impl From<FieldSelector> for FieldMatcher {
    fn from(selector: FieldSelector) -> Self {
        let mut requirements = selector.into_requirements();
        requirements.sort_by(|a, b| a.field.cmp(&b.field));
        let mut rules: Vec<FieldRule> = Vec::new();
        for FieldRequirement { field, value, equal } in requirements {
            let mut rule = rules.pop_if(|last| last.field == field).unwrap_or_default();
            rule.field = field;
            match equal {
                true => {
                    rule.impossible |= rule.exact.as_ref().is_some_and(|exact| *exact != value);
                    rule.exact = Some(value);
                }
                false => rule.denied.push(value),
            }
            rules.push(rule);
        }
        for rule in &mut rules {
            rule.denied.sort_unstable();
            rule.denied.dedup();
            rule.denied.shrink_to_fit();
        }
        Self { rules }
    }
}

impl FieldMatcher {
    /// Whether every object is selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the number of fields that the selector names.
    #[must_use]
    pub fn fields(&self) -> usize {
        self.rules.len()
    }

    /// Returns the approximate number of bytes of memory that the matcher takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let bytes = |rule: &FieldRule| size_of::<FieldRule>() + rule.denied.len() * size_of::<CompactString>();
        self.rules.iter().map(bytes).sum()
    }

    /// Whether an object with these fields fulfils all requirements. A missing field counts as empty, as upstream.
    pub fn matches(&self, fields: &(impl Lookup + ?Sized)) -> bool {
        self.rules.iter().all(|rule| {
            let value = fields.lookup(&rule.field).unwrap_or_default();
            !rule.impossible && rule.exact.as_ref().is_none_or(|exact| exact == value) && !contains(&rule.denied, value)
        })
    }

    /// Returns each field with the single value that the selector requires, sorted by field.
    pub fn exact(&self) -> impl Iterator<Item = (&str, &str)> {
        self.rules.iter().filter_map(|rule| Some((rule.field.as_str(), rule.exact.as_deref()?)))
    }
}
