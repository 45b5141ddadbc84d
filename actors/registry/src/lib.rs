//! The kind table and the generic registry; the strategies correspond to upstream's.
//!
//! [`table::kind`] gives a resource its strategy; [`prepare`], [`fields`] and [`delete`] hold the rules that all kinds share, [`kinds`] the rules of single
//! kinds; [`index`] extracts what reads filter by; [`key`] gives an object's storage key and [`stored`] its stored form.

pub mod cold;
pub mod delete;
mod field_path;
pub mod fields;
pub mod index;
pub mod indexer;
pub mod key;
pub mod kind;
pub mod kinds;
mod older;
pub mod prepare;
pub mod reader;
pub mod stored;
pub mod table;

/// The objects of an empty cluster, as answered by a live v1.35.0 server (see data/NOTICE).
pub const BOOTSTRAP: &str = include_str!("../data/bootstrap.json");

pub use kind::{Generic, Grace, KindDef, Strategy};
pub use reader::Reader;
pub use table::kind;
