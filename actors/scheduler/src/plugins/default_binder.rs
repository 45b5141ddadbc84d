//! DefaultBinder: binds a pod through its `binding` subresource.

use crate::framework::Call;
use crate::plugin::Plugin;

/// The plugin.
pub(crate) const ROW: Plugin = Plugin { name: "DefaultBinder", bind: Some(|_| Some(Call::Bind)), ..Plugin::NONE };
