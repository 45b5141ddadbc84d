//! Defaults, validation and warnings of every API type.
//!
//! Rules belong to schema types, not to resources: `src/<group>/<type>.rs` contains the special rules of one struct type, [`table`] has its row, and
//! [`walk`] visits an object once and calls the rules of each node's type, so that a PodSpec is checked wherever one occurs, with the right
//! path. Facts of the schema data (constant defaults) are applied by the walk and not repeated in code.
//!
//! * [`default`]: sets the defaults of fields that clients left out, before admission.
//! * [`validate`], [`validate_create`], [`validate_update`], [`validate_change`]: every error of an object or of a change, with upstream's texts.
//! * [`DisabledFields`]: drops fields whose feature gates are off.
//! * [`warnings`]: texts for `Warning: 299` headers.

pub mod admissionregistration;
pub mod apiextensions;
pub mod apiregistration;
pub mod apps;
pub mod autoscaling;
pub mod batch;
mod by_address;
pub mod certificates;
mod constant;
pub mod coordination;
pub mod core;
mod disabled;
pub mod discovery;
pub mod flowcontrol;
pub mod kind;
pub mod last_change;
pub mod meta;
pub mod networking;
pub mod policy;
pub mod rbac;
pub mod resource;
mod rule_set;
pub mod rules;
pub mod scheduling;
pub mod storage;
pub mod table;
mod type_rules;
pub(crate) mod walk;

use std::sync::LazyLock;

use rule_set::RuleSet;

pub use disabled::DisabledFields;
pub use kind::KindRules;
pub use type_rules::TypeRules;
pub use walk::{default, name_warnings, validate, validate_change, validate_create, validate_update, warnings};

/// The rules of the table, prepared at the first use.
static RULES: LazyLock<RuleSet> = LazyLock::new(|| RuleSet::new(table::TYPES, table::KINDS));
