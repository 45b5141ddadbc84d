//! A plugin's row of functions, and the set of plugins that a scheduler runs.

use crate::cluster::Cluster;
use crate::column::NodeIx;
use crate::event::Event;
use crate::filters::FilterPlugin;
use crate::framework::{Call, CompileFilter, CompileScore, Reason, SortKey};
use crate::model::PodInfo;
use crate::post_filter::{PostFilterContext, PostFiltered};

/// Reserve: reserves what the pod needs besides the resources in the columns.
pub(crate) type Reserve = fn(&mut Cluster, &PodInfo, NodeIx) -> Result<(), Reason>;
/// Permit: the last check before binding; an error releases the node.
pub(crate) type Permit = fn(&Cluster, &PodInfo, NodeIx) -> Result<(), Reason>;

/// One plugin: its function at each extension point (`None`: the plugin does not use the point).
pub(crate) struct Plugin {
    /// Upstream's name.
    pub(crate) name: &'static str,
    /// Default weight of the score.
    pub(crate) weight: i32,
    /// PreEnqueue: returns why a pod must not enter the active queue, if so.
    pub(crate) pre_enqueue: Option<fn(&PodInfo) -> Option<String>>,
    /// QueueSort: returns the sort key of a pod queued at the given time.
    pub(crate) queue_sort: Option<fn(&PodInfo, u64) -> SortKey>,
    /// PreFilter and Filter.
    pub(crate) filter: Option<CompileFilter>,
    /// PostFilter: handles a pod that fits on no node.
    pub(crate) post_filter: Option<fn(&mut PostFilterContext<'_>) -> PostFiltered>,
    /// PreScore, Score and NormalizeScore.
    pub(crate) score: Option<CompileScore>,
    /// Reserves what the pod needs besides the resources in the columns.
    pub(crate) reserve: Option<Reserve>,
    /// Releases the reservation; must have no effect when nothing was reserved.
    pub(crate) unreserve: Option<fn(&mut Cluster, &PodInfo, NodeIx)>,
    /// The last check before binding; an error releases the node.
    pub(crate) permit: Option<Permit>,
    /// Writes that must be done before the binding.
    pub(crate) pre_bind: Option<fn(&PodInfo) -> Vec<Call>>,
    /// The binding; the first plugin that returns one binds.
    pub(crate) bind: Option<fn(&PodInfo) -> Option<Call>>,
    /// PostBind: runs after a successful binding.
    pub(crate) post_bind: Option<fn(&mut Cluster, &PodInfo)>,
    /// The kinds of events for which `hint` runs (upstream: `EventsToRegister`), bits of [`crate::event::kind`].
    pub(crate) events: u8,
    /// Whether an event may make a pod schedulable that this plugin rejected (upstream: queueing hints).
    pub(crate) hint: Option<fn(&Cluster, &PodInfo, &Event<'_>) -> bool>,
}

impl Plugin {
    /// A plugin that does nothing anywhere: the base of every row.
    pub(crate) const NONE: Self = Self {
        name: "",
        weight: 0,
        pre_enqueue: None,
        queue_sort: None,
        filter: None,
        post_filter: None,
        score: None,
        reserve: None,
        unreserve: None,
        permit: None,
        pre_bind: None,
        bind: None,
        post_bind: None,
        events: 0,
        hint: None,
    };
}

/// The plugins of a scheduler in the order in which they run. A plugin's index is its bit in sets of plugins.
#[derive(Clone, Copy)]
pub(crate) struct Plugins(&'static [&'static Plugin]);

impl Plugins {
    /// A scheduler's plugins; at most 32, the bits of a set.
    pub(crate) const fn new(rows: &'static [&'static Plugin]) -> Self {
        Self(rows)
    }

    /// Returns the plugins in order.
    pub(crate) fn iter(self) -> std::iter::Copied<std::slice::Iter<'static, &'static Plugin>> {
        self.0.iter().copied()
    }

    /// Returns the plugins with one extension point, in order, each with its index.
    pub(crate) fn with<T>(
        self,
        point: impl Fn(&'static Plugin) -> Option<T>,
    ) -> impl DoubleEndedIterator<Item = (usize, T)> {
        self.0.iter().enumerate().filter_map(move |(at, plugin)| Some((at, point(plugin)?)))
    }

    /// Returns the set of the plugins for which `holds` is true.
    pub(crate) fn that(self, holds: impl Fn(&Plugin) -> bool) -> u32 {
        self.0.iter().enumerate().filter(|(_, plugin)| holds(plugin)).fold(0, |set, (at, _)| set | 1 << at)
    }

    /// Returns the plugins of a set of indexes.
    pub(crate) fn members(self, set: u32) -> impl Iterator<Item = &'static Plugin> {
        self.0.iter().enumerate().filter(move |(at, _)| set & (1 << at) != 0).map(|(_, plugin)| *plugin)
    }

    /// Returns the plugins that filter nodes.
    pub(crate) fn filters(self) -> impl Iterator<Item = FilterPlugin> {
        let row = |(index, plugin): (usize, &&'static Plugin)| {
            Some(FilterPlugin { index, name: plugin.name, compile: plugin.filter? })
        };
        self.0.iter().enumerate().filter_map(row)
    }

    /// Returns a pod's sort key in the active queue, from the first plugin with a QueueSort function.
    pub(crate) fn sort_key(self, pod: &PodInfo, queued: u64) -> SortKey {
        let sorter = self.0.iter().find_map(|plugin| plugin.queue_sort);
        sorter.map_or_else(|| (std::cmp::Reverse(0), queued), |sort| sort(pod, queued))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intern::Interner;
    use crate::table::PLUGINS;

    const FIRST: Plugin = Plugin { name: "First", weight: 1, ..Plugin::NONE };
    const SECOND: Plugin =
        Plugin { name: "Second", weight: 2, queue_sort: Some(|_, at| (std::cmp::Reverse(0), at + 1)), ..Plugin::NONE };

    #[test]
    fn a_set_holds_a_bit_for_each_plugin_in_order() {
        let plugins = Plugins::new(&[&FIRST, &SECOND]);
        assert_eq!(plugins.that(|plugin| plugin.weight > 1), 0b10);
        let names = |set| plugins.members(set).map(|plugin| plugin.name).collect::<Vec<_>>();
        assert_eq!((names(0b10), names(0b11), names(0)), (vec!["Second"], vec!["First", "Second"], vec![]));
        let sorters: Vec<usize> = plugins.with(|plugin| plugin.queue_sort).map(|(at, _)| at).collect();
        assert_eq!(sorters, [1]);
        let pod = crate::testing::pod(&mut Interner::default(), "p", "");
        assert_eq!(plugins.sort_key(&pod, 7).1, 8);
        assert_eq!(Plugins::new(&[&FIRST]).sort_key(&pod, 7).1, 7);
    }

    #[test]
    fn the_plugins_of_the_table_fit_into_a_set() {
        assert!(PLUGINS.iter().len() <= u32::BITS as usize);
    }
}
