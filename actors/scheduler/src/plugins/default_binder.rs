//! DefaultBinder: binds a pod through its `binding` subresource.

use crate::framework::Call;
use crate::plugin::Plugin;

/// The row of DefaultBinder in the table of plugins.
pub(crate) const ROW: Plugin = Plugin { name: "DefaultBinder", bind: Some(|_| Some(Call::Bind)), ..Plugin::NONE };
