//! Rules about workloads that several controllers share (upstream `pkg/controller/history` and parts of `pkg/controller`).
//!
//! A StatefulSet and a DaemonSet keep the pod templates that they have had as ControllerRevisions. Upstream's controllers compare the bytes of a
//! revision's data with those of the current template, so another controller keeps the pods only if it writes the same bytes: [`revision`].
//! [`history`] decides which revision a template belongs to, and which revisions are too many.

pub mod history;
pub mod revision;
pub mod safe_text;

pub use history::{History, Revision, Update};
pub use revision::Fingerprint;
