//! JSON patch, merge patch, strategic merge patch and server-side apply over [`Obj`](oarlock_schema::Obj).
//!
//! * [`apply_patch`]: the three classic patch types. The patch changes the generic JSON form of the current object, and the result is decoded again, so that
//!   the decoder handles unknown fields, type errors and canonical form.
//! * [`apply`]: server-side apply and the bookkeeping of `metadata.managedFields` for every other write.

pub mod apply;
mod document;
mod errors;
mod go_fmt;
mod json_patch;
mod kind;
mod merge;
mod patch_kind;
mod shown;
mod strategic;
mod unstructured;

pub use document::{Patched, Validation, apply_patch};
pub use patch_kind::PatchKind;
