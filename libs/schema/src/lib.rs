//! The schema facts of Kubernetes 1.35, and the value type that follows them.
//!
//! * [`types`]: the graph of struct types, fields and shapes; built-ins are statics made from `data/v1.35.json`.
//! * [`value`]: the tree that decoders build and encoders walk; [`Obj`] is a whole object.
//! * [`canonical`]: the form in which every write ends before comparison, admission and storage.
//! * [`gates`]: upstream's feature gates, and which of them a server has on.
//! * [`views`]: zero-copy typed access, one type per schema type.
//! * [`resources`]: upstream's 66 resources and our own (group `oarlock.dev`), with their verbs, columns and storage facts.
//!
//! See `docs/adr/0002-owned-value-tree.md` for why the tree is made this way.

pub mod canonical;
pub mod gates;
mod obj;
pub mod resources;
pub mod types;
pub mod value;
pub mod views;

pub use gates::FeatureGates;
pub use obj::Obj;
pub use resources::{RESOURCES, Resource, Subresource, TYPES, resource, resource_of_kind, type_named, type_of_kind};
pub use types::{FieldDef, FieldId, Gvk, ListType, Presence, Shape, TypeDef, TypeRef};
pub use value::{Map, Str, Struct, Value};
pub use views::{FromValue, IntOrStr, View};
