//! DynamicResources: so far only its part in the text of an unschedulable pod without claims.
//!
//! Upstream's PostFilter chain runs it before preemption. For a pod without resource claims it has nothing to
//! deallocate; when PreFilter never ran it finds no state of its own, says so and ends the chain.

use crate::framework::{Plugin, PostFiltered, Stranded};

/// The plugin.
pub(crate) const ROW: Plugin =
    Plugin { name: "DynamicResources", weight: 2, post_filter: Some(post_filter), ..Plugin::NONE };

fn post_filter(stranded: &mut Stranded<'_>) -> PostFiltered {
    let stop = stranded.diagnosis.rejected.is_some();
    let message = if stop { "not found" } else { "no new claims to deallocate" };
    PostFiltered { message: message.to_owned(), stop, ..PostFiltered::default() }
}
