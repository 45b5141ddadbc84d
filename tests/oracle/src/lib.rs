//! The oracle: compares Oarlock's answers with those of a real kube-apiserver 1.35 to the same requests.
//!
//! * [`case`]: the scripts under `cases/`; [`generate`] makes the steps that every resource has in common, [`scenario`] puts all of them in order.
//! * [`play`]: sends a scenario's steps to a server, over [`transport`].
//! * [`normalise`]: replaces what no two servers choose alike (uids, revisions, times) by stable names.
//! * [`recorded`]: answers as sorted JSON under `recorded/`; [`compare`] tells where two differ.
//! * [`known`]: the differences that are known, with a reason each; the list may only shrink.
//! * [`check`]: all of it together, against an `oarlock` that [`server`] starts.

pub mod case;
pub mod check;
pub mod compare;
pub mod generate;
pub mod known;
mod merge_patch;
pub mod normalise;
pub mod play;
pub mod recorded;
pub mod scenario;
pub mod server;
pub mod transport;

use std::path::{Path, PathBuf};

/// This package's folder, where cases and answers lie.
#[must_use]
pub fn home() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}
