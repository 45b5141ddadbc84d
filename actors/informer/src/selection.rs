//! The part of a resource's objects that an informer reads.

use oarlock_meta::{FieldSelector, LabelSelector};
use oarlock_schema::Str;

/// The objects of a resource that an informer reads, by namespace, labels and fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The namespace; empty for all.
    pub namespace: Str,
    /// The label selector.
    pub labels: LabelSelector,
    /// The field selector.
    pub fields: FieldSelector,
}

impl Selection {
    /// Selects the objects of a namespace.
    #[must_use]
    pub fn namespace(namespace: impl Into<Str>) -> Self {
        Self { namespace: namespace.into(), ..Self::default() }
    }

    /// Selects the objects whose `field` (such as `spec.nodeName`) equals `value`.
    #[must_use]
    pub fn field(field: &str, value: &str) -> Self {
        Self { fields: FieldSelector::equal(field, value), ..Self::default() }
    }

    /// Selects the objects that a label selector matches.
    #[must_use]
    pub fn labels(labels: LabelSelector) -> Self {
        Self { labels, ..Self::default() }
    }
}
