//! Selects objects by label and field selectors, decided on entries without decoding them.

use oarlock_apis::rules::formats::path_segment;
use oarlock_client::ListOptions;
use oarlock_meta::selector::By;
use oarlock_meta::{FieldSelector, LabelSelector, Status};
use oarlock_schema::{Resource, Str};
use oarlock_store::Entry;

/// Number of comparisons after which a selection lets other tasks run: some tenths of a millisecond. A selector of the length of a request head has
/// thousands of requirements, and a collection tens of thousands of objects.
pub(super) const COMPARISONS_PER_TURN: usize = 16 << 10;

/// The validated selectors of a list or watch.
#[derive(Clone, Debug)]
pub struct Selection {
    namespace: Str,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    /// Validates the selectors of a list or watch.
    ///
    /// # Errors
    /// 400 for a field label that the resource does not know.
    pub fn new(resource: &Resource, namespace: &str, options: &ListOptions) -> Result<Self, Status> {
        let mut requirements = options.field_selector.requirements().to_vec();
        for requirement in &mut requirements {
            let label = requirement.field.as_str();
            if !matches!(label, "metadata.name" | "metadata.namespace") && !resource.selectable.contains(&label) {
                return Err(unknown_label(resource, label));
            }
            requirement.field = oarlock_registry::index::stored_label(resource, label).into();
        }
        Ok(Self {
            namespace: namespace.into(),
            labels: options.label_selector.clone(),
            fields: FieldSelector::new(requirements),
        })
    }

    /// Returns the number of comparisons that the decision about one entry takes at most.
    #[must_use]
    pub fn comparisons(&self) -> usize {
        1 + self.labels.requirements().len() + self.fields.requirements().len()
    }

    /// Whether every object of the namespace is selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an entry is selected.
    #[must_use]
    pub fn matches(&self, entry: &Entry) -> bool {
        (self.namespace.is_empty() || entry.namespace() == self.namespace)
            && (self.labels.is_empty() || self.labels.matches(&By::new(|name: &str| entry.label(name))))
            && (self.fields.is_empty()
                || self.fields.matches(&By::new(|name: &str| Some(entry.field(name).unwrap_or("")))))
    }

    /// Returns the one object that a `metadata.name` selector names, if an object can have that name.
    #[must_use]
    pub fn single_name(&self) -> Option<&str> {
        self.fields.exact("metadata.name").filter(|name| path_segment(name).is_empty())
    }
}

/// Returns the error for an unknown field label. Upstream's text depends on whether the kind has a conversion function for field labels.
fn unknown_label(resource: &Resource, label: &str) -> Status {
    if resource.selectable.iter().any(|l| !matches!(*l, "metadata.name" | "metadata.namespace")) {
        Status::bad_request(format!("field label not supported: {label}"))
    } else {
        Status::bad_request(format!(
            "\"{label}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        ))
    }
}

impl Selection {
    /// Returns a field whose value the View can use to wake only the interested watchers, such as `spec.nodeName` for a kubelet's pods.
    #[must_use]
    pub fn indexed_field(&self) -> Option<(&str, &str)> {
        self.fields
            .requirements()
            .iter()
            .filter(|r| !matches!(r.field.as_str(), "metadata.name" | "metadata.namespace"))
            .find_map(|r| Some((r.field.as_str(), self.fields.exact(&r.field)?)))
    }
}
