//! Commands about StatefulSets: creation in order, scales, updates, rollbacks, claims.

use oarlock_testkit::Cluster;

use super::crew::await_nodes;
use crate::swaps::sets;

#[test]
fn stateful_sets_live_their_lives() {
    let cluster = Cluster::up(&["--ephemeral"]);
    let kubectl = cluster.kubectl();
    await_nodes(&kubectl);
    sets::tell(&kubectl);
}
