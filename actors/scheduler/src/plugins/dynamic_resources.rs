//! DynamicResources: a pod waits until its ResourceClaims are allocated, and goes to a node from which the devices can be reached. Oarlock does not allocate
//! devices yet.
//!
//! Upstream runs this plugin's PostFilter before preemption. For a pod without resource claims the PostFilter has nothing to
//! deallocate; if an earlier PreFilter rejected the pod, the PostFilter finds no state of its own, reports that and ends the chain.

use crate::cluster::{Claims, claimed, device};
use crate::plugin::Plugin;
use crate::post_filter::{PostFilterContext, PostFiltered};

use super::claimed::{self, ClaimCheck, EVENTS};

/// The row of DynamicResources in the table of plugins.
pub(crate) const ROW: Plugin = Plugin {
    name: "DynamicResources",
    weight: 2,
    filter: Some(|cluster, spec| claimed::compile(&cluster.spec(spec)?.spec, CHECK)),
    post_filter: Some(post_filter),
    events: EVENTS,
    hint: Some(|_, pod, event| claimed::hint(pod, event, device)),
    ..Plugin::NONE
};

const CHECK: ClaimCheck =
    ClaimCheck { is: device, refuse: Claims::devices_refuse, elsewhere: Claims::devices_elsewhere };

fn post_filter(context: &mut PostFilterContext<'_>) -> PostFiltered {
    let says = |message: &str, stop| PostFiltered { message: message.to_owned(), stop, ..PostFiltered::default() };
    let diagnosis = context.diagnosis;
    match &diagnosis.rejected {
        Some(_) if !context.is_rejector => says("not found", true),
        None if claimed(&context.pod.spec, device).next().is_some() => says("still not schedulable", false),
        // A pod without claims, or one that the plugin's own PreFilter rejected before it recorded the claims in its state.
        _ => says("no new claims to deallocate", false),
    }
}
