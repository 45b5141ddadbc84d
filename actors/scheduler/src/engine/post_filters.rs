//! Runs the PostFilters for a pod that fits on no node: finds out whether a preemption helps, and composes the pod's message.

use std::sync::Arc;

use crate::class::Choose;
use crate::filters::Filters;
use crate::framework::Diagnosis;
use crate::model::PodInfo;
use crate::post_filter::{Nominating, PostFilterContext};
use crate::texts;

use super::Engine;

impl Engine {
    /// Runs the PostFilters for a pod for which the shard has just found no node; returns the pod's message and the change of its nomination. If a PostFilter
    /// nominates the pod, the other PostFilters' messages are left out.
    pub(super) fn run_post_filters(
        &mut self,
        pod: &Arc<PodInfo>,
        diagnosis: &Diagnosis,
        choose: &mut Choose<'_>,
    ) -> (String, Nominating) {
        let (cluster, none) = (&mut self.cluster, Filters::default());
        let mut text = match &diagnosis.rejected {
            Some(reason) => texts::unavailable(diagnosis.nodes, reason),
            None => texts::unavailable(diagnosis.nodes, &diagnosis.tally.text(&cluster.names)),
        };
        let filters = self.shard.filters(pod).unwrap_or(&none);
        let mut context = PostFilterContext { cluster, pod, diagnosis, filters, is_rejector: false, choose };
        let mut messages = Vec::new();
        let mut nominating = Nominating::AsBefore;
        for (at, post_filter) in self.plugins.with(|plugin| plugin.post_filter) {
            context.is_rejector = diagnosis.rejectors & (1 << at) != 0;
            let result = post_filter(&mut context);
            match result.nominating {
                Nominating::Preempt(_) => return (text, result.nominating),
                Nominating::Nowhere => nominating = Nominating::Nowhere,
                Nominating::AsBefore => {}
            }
            if !result.message.is_empty() {
                messages.push(result.message);
            }
            if result.stop {
                break;
            }
        }
        if !messages.is_empty() {
            text.push(' ');
            text.push_str(&messages.join(", "));
        }
        (text, nominating)
    }
}
