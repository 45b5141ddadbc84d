//! DefaultPreemption: a pod that fits on no node may preempt pods of lower priority (the search is in [`crate::preempt`]).

use crate::plugin::Plugin;
use crate::post_filter::{Nominating, PostFilterContext, PostFiltered};
use crate::preempt;
use crate::texts;

/// The row of DefaultPreemption in the table of plugins.
pub(crate) const ROW: Plugin = Plugin { name: "DefaultPreemption", post_filter: Some(post_filter), ..Plugin::NONE };

const NEVER: &str = "preemption: not eligible due to preemptionPolicy=Never.";
const WAITS: &str = "preemption: not eligible due to a terminating pod on the nominated node.";

fn post_filter(context: &mut PostFilterContext<'_>) -> PostFiltered {
    let says = |message: &str| PostFiltered { message: message.to_owned(), ..PostFiltered::default() };
    if context.pod.never_preempts {
        return says(NEVER);
    }
    if preempt::has_to_wait(context.cluster, context.pod, context.diagnosis) {
        return says(WAITS);
    }
    match preempt::find(context) {
        Ok(preemption) => PostFiltered { nominating: Nominating::Preempt(preemption), ..PostFiltered::default() },
        Err(tally) => {
            let text = texts::unavailable(context.diagnosis.nodes, &tally.text(&context.cluster.names));
            PostFiltered { nominating: Nominating::Nowhere, ..says(&format!("preemption: {text}")) }
        }
    }
}
