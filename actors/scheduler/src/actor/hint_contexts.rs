//! Trace contexts of received hints: which hint brought a pod to this process.

use std::collections::VecDeque;

use oarlock_telemetry::traces::opentelemetry::trace::SpanContext;
use parking_lot::Mutex;

/// Bound of remembered hints. Up to fifty messages a second are sent, unless they are full, so a pod may wait for five seconds until its link is lost.
const MAX_REMEMBERED: usize = 256;

/// Contexts of the hints that brought pods, in the order of the hints' revisions. A pod's span `queue` is linked with the context of the pod's hint.
#[derive(Default)]
pub(super) struct HintContexts(Mutex<VecDeque<HintContext>>);

/// The context of one hint, with the stretch of changes that the hint brought.
struct HintContext {
    series: u64,
    from: u64,
    to: u64,
    context: SpanContext,
}

impl HintContexts {
    /// Remembers the context of a hint that brought the changes of a series after the revision `from` and up to `to`.
    pub(super) fn remember(&self, series: u64, (from, to): (u64, u64), context: SpanContext) {
        let mut known = self.0.lock();
        // Revisions of different series are not comparable.
        if known.back().is_some_and(|last| last.series != series || last.to > from) {
            known.clear();
        }
        if known.len() == MAX_REMEMBERED {
            known.pop_front();
        }
        known.push_back(HintContext { series, from, to, context });
    }

    /// Returns the context of the hint that brought the state of an object at this revision; `None` of a state that came without a context, or too long ago.
    pub(super) fn of(&self, revision: u64) -> Option<SpanContext> {
        let known = self.0.lock();
        let hint = known.get(known.partition_point(|hint| hint.to < revision))?;
        (hint.from < revision).then(|| hint.context.clone())
    }
}

#[cfg(test)]
mod tests {
    use oarlock_telemetry::traces::Change;
    use oarlock_telemetry::traces::opentelemetry::trace::TraceId;

    use super::*;

    fn context(uid: &str) -> SpanContext {
        Change::new(uid, 1).context()
    }

    fn trace(contexts: &HintContexts, revision: u64) -> Option<TraceId> {
        contexts.of(revision).map(|context| context.trace_id())
    }

    #[test]
    fn a_state_has_the_context_of_the_hint_that_brought_it() {
        let contexts = HintContexts::default();
        assert_eq!(trace(&contexts, 1), None);
        contexts.remember(5, (10, 12), context("a"));
        contexts.remember(5, (14, 20), context("b"));
        let of = |revision| trace(&contexts, revision);
        let [a, b] = ["a", "b"].map(|uid| Some(context(uid).trace_id()));
        assert_eq!([9, 10, 11, 12, 13, 14, 15, 20, 21].map(of), [None, None, a, a, None, None, b, b, None]);
        // Another series, then revisions that do not follow.
        contexts.remember(6, (20, 22), context("c"));
        assert_eq!((of(11), of(21)), (None, Some(context("c").trace_id())));
        contexts.remember(6, (19, 21), context("d"));
        assert_eq!((of(20), of(22)), (Some(context("d").trace_id()), None));
    }

    #[test]
    fn the_latest_hints_are_remembered() {
        let contexts = HintContexts::default();
        let most = MAX_REMEMBERED as u64;
        (0..most + 3).for_each(|number| contexts.remember(5, (number, number + 1), context("a")));
        assert_eq!(contexts.0.lock().len(), MAX_REMEMBERED);
        assert_eq!((contexts.of(3), contexts.of(4).is_some(), contexts.of(most + 3).is_some()), (None, true, true));
    }
}
