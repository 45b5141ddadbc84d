//! DefaultBinder: binds by the pod's `binding` subresource.

use crate::framework::{Call, Plugin};

/// The plugin.
pub(crate) const ROW: Plugin = Plugin { name: "DefaultBinder", bind: Some(|_| Some(Call::Bind)), ..Plugin::NONE };
