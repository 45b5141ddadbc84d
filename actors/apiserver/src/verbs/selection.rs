//! Selects objects by label and field selectors, decided on entries without decoding them.

use oarlock_apis::rules::formats::path_segment;
use oarlock_client::ListOptions;
use oarlock_meta::selector::{By, FieldMatcher, LabelMatcher};
use oarlock_meta::{FieldSelector, Status};
use oarlock_schema::{Resource, Str};
use oarlock_store::Entry;

/// Number of comparisons after which a selection lets other tasks run: some tenths of a millisecond. A collection has tens of thousands of objects.
pub(super) const COMPARISONS_PER_TURN: usize = 16 << 10;
/// Number of comparisons that one object takes, if it has no more labels than this: a longer selector costs an object no more than its own labels.
const USUAL_LABELS: usize = 64;

/// The validated selectors of a list or watch.
#[derive(Clone, Debug)]
pub struct Selection {
    namespace: Str,
    labels: LabelMatcher,
    fields: FieldMatcher,
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
            labels: options.label_selector.clone().into(),
            fields: FieldSelector::new(requirements).into(),
        })
    }

    /// Returns the number of comparisons that the decision about one usual entry takes at most.
    #[must_use]
    pub fn comparisons(&self) -> usize {
        1 + self.labels.keys().min(USUAL_LABELS) + self.fields.fields()
    }

    /// Returns the approximate number of bytes of memory that the selectors take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.labels.bytes() + self.fields.bytes()
    }

    /// Whether every object of the namespace is selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Whether an entry is selected.
    #[must_use]
    pub fn matches(&self, entry: &Entry) -> bool {
        (self.namespace.is_empty() || entry.namespace() == self.namespace)
            && self.labels.matches(&entry.labels)
            && self.fields.matches(&By::new(|name: &str| entry.field(name)))
    }

    /// Returns the one object that a `metadata.name` selector names, if an object can have that name.
    #[must_use]
    pub fn single_name(&self) -> Option<&str> {
        let mut exact = self.fields.exact();
        exact.find_map(|(field, name)| (field == "metadata.name" && path_segment(name).is_empty()).then_some(name))
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
        self.fields.exact().find(|(field, _)| !matches!(*field, "metadata.name" | "metadata.namespace"))
    }
}
