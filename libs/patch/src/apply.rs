//! Server-side apply, and the ownership of an object's fields.
//!
//! Every write is recorded in `metadata.managedFields`: an entry per manager, operation, version and subresource with the set of fields that the manager
//! owns. [`apply`] merges a configuration by the schema and refuses to change fields of other managers; [`track_create`] and [`track_update`] record the
//! owners after all other writes.
//!
//! A field set is a trie ([`FieldSet`]) written as `fieldsV1`. For creates, the most frequent write, the text is written directly from the object.
//!
//! Not implemented: entries of other versions are compared by path instead of being converted first, which is exact as long as
//! the versions agree on paths; field sets are not reconciled when a list becomes atomic or granular in a later schema.

mod atom;
mod check;
mod compare;
mod conflict;
mod create;
mod element;
mod managers;
mod merge;
mod own;
mod remove;
mod run;
mod set;
#[cfg(test)]
mod tests;
mod track;
pub mod wire;

pub use compare::{Comparison, compare_structs};
pub use element::Element;
pub use managers::{Entry, Identity, Managers};
pub use run::{Applied, apply};
pub use set::{FieldSet, Node, path_text};
pub use track::{Versions, Writer, manager_name, track_create, track_update};
