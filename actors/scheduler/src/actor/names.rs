//! Names of objects as text, for API calls: the engine knows them as symbols of the process's interner.

use std::sync::Arc;

use crate::intern::{Interner, Sym};
use crate::model::PodInfo;

/// Returns a pod's namespace.
pub(super) fn namespace(pod: &PodInfo) -> Arc<str> {
    text(pod.spec.namespace)
}

/// Returns a symbol's text.
pub(super) fn text(symbol: Sym) -> Arc<str> {
    Interner::process().text(symbol)
}
