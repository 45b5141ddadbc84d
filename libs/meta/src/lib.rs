//! The vocabulary of the Kubernetes API: group-version-kinds, names, quantities, selectors, times, Status.
//!
//! All types are pure values without any I/O, and every other crate uses them. Texts that clients see are upstream's.

pub mod cause;
pub mod field;
pub mod gvk;
pub mod ids;
pub mod names;
pub mod quantity;
pub mod quote;
pub mod revision;
pub mod selector;
pub mod status;
pub mod time;

pub use field::{ErrorList, FieldError, FieldErrorKind, Path};
pub use gvk::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};
pub use ids::Uid;
pub use quantity::Quantity;
pub use revision::Revision;
pub use selector::{FieldSelector, LabelSelector};
pub use status::{Cause, Reason, Status};
pub use time::{GoDuration, MicroTime, Time};
