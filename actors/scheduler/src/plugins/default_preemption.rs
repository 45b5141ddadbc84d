//! DefaultPreemption: who may preempt, and where removing pods of lower priority could help.
//!
//! Choosing victims is not done yet: a node with pods of lower priority gets its own text, every other node
//! upstream's.

use crate::bits::BitSet;
use crate::cluster::Cluster;
use crate::column::NodeIx;
use crate::framework::{Diagnosis, Plugin, PostFiltered, Reason, Tally};
use crate::message;
use crate::model::PodInfo;

/// The plugin.
pub(crate) const ROW: Plugin = Plugin { name: "DefaultPreemption", post_filter: Some(post_filter), ..Plugin::NONE };

const NEVER: &str = "preemption: not eligible due to preemptionPolicy=Never.";
const UNHELPFUL: Reason = Reason::Text("Preemption is not helpful for scheduling");
const NO_VICTIMS: Reason = Reason::Text("No preemption victims found for incoming pod");
const NOT_DONE: Reason = Reason::Text("preemption is not available in this scheduler");

fn post_filter(cluster: &Cluster, pod: &PodInfo, diagnosis: &Diagnosis) -> PostFiltered {
    if pod.never_preempts {
        return PostFiltered { message: NEVER.to_owned(), ..PostFiltered::default() };
    }
    let mut hopeless = cluster.nodes.live.clone();
    let (mut empty, mut loaded) = (BitSet::default(), BitSet::default());
    if diagnosis.rejected.is_none() {
        hopeless.intersect_with(&diagnosis.tally.unresolvable);
        empty.copy_from(&cluster.nodes.live);
        empty.subtract(&hopeless);
        loaded.fill((0..cluster.nodes.slots()).map(|slot| cluster.lowest_priority(NodeIx(slot as u32)) < pod.priority));
        loaded.intersect_with(&empty);
        empty.subtract(&loaded);
    }
    let mut tally = Tally::default();
    for (reason, nodes) in [(UNHELPFUL, &hopeless), (NO_VICTIMS, &empty), (NOT_DONE, &loaded)] {
        tally.add_all(reason, nodes, true);
    }
    let text = message::unavailable(diagnosis.nodes, &tally.text(&cluster.names));
    PostFiltered { message: format!("preemption: {text}"), ..PostFiltered::default() }
}
