//! The kind table and the generic registry: what upstream calls strategies, once.
//!
//! [`table::kind`] gives a resource its row; [`prepare`] and [`delete`] are the rules that all kinds share; [`kinds`] holds what some kinds decide
//! for themselves; [`index`] takes from an object what reads decide on; [`key`] says where it is kept and [`stored`]
//! in which form.

pub mod delete;
pub mod index;
pub mod key;
pub mod kind;
pub mod kinds;
mod older;
pub mod prepare;
pub mod reader;
pub mod rest;
pub mod stored;
pub mod table;

/// Objects that an empty cluster starts with: what a live v1.35.0 server answered (see data/NOTICE).
pub const BOOTSTRAP: &str = include_str!("../data/bootstrap.json");

pub use kind::{Generic, Grace, KindDef, Strategy};
pub use reader::Reader;
pub use table::kind;
