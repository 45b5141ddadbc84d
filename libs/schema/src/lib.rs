//! The schema of Kubernetes 1.35 as data, and the value type whose trees follow the schema.
//!
//! * [`types`]: the graph of struct types, fields and shapes; built-ins are statics made from `data/v1.35.json`.
//! * [`value`]: the value tree that decoders build and encoders walk; [`Obj`] is a whole object.
//! * [`canonical`]: the normal form that every write takes before comparison, admission and storage.
//! * [`gates`]: upstream's feature gates, and the gates that a server has enabled.
//! * [`views`]: zero-copy typed access, one type per schema type.
//! * [`resources`]: upstream's 66 resources and Oarlock's own (group `oarlock.dev`), with their verbs, columns and storage facts.
//!
//! `docs/adr/0002-owned-value-tree.md` explains the design of the tree.

pub mod canonical;
pub mod gates;
mod name_hash;
mod obj;
pub mod resources;
pub mod types;
pub mod value;
pub mod version;
pub mod views;

pub use gates::FeatureGates;
pub use obj::Obj;
pub use resources::{RESOURCES, Resource, Subresource, TYPES, resource, resource_of_kind, type_named, type_of_kind};
pub use types::{FieldDef, FieldId, Gvk, ListType, Presence, Shape, TypeDef, TypeRef};
pub use value::{Map, Str, Struct, Value};
pub use views::{FromValue, IntOrStr, View};
