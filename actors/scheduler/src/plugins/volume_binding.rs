//! VolumeBinding, with the part of VolumeRestrictions that looks for missing claims: a pod waits until the claims of its volumes are bound, and
//! goes to a node from which the volumes can be reached.

use crate::cluster::{Claims, volume};
use crate::plugin::Plugin;

use super::claimed::{self, ClaimCheck, EVENTS};

/// The row of VolumeBinding in the table of plugins.
pub(crate) const ROW: Plugin = Plugin {
    name: "VolumeBinding",
    filter: Some(|cluster, spec| claimed::compile(&cluster.spec(spec)?.spec, CHECK)),
    events: EVENTS,
    hint: Some(|_, pod, event| claimed::hint(pod, event, volume)),
    ..Plugin::NONE
};

const CHECK: ClaimCheck =
    ClaimCheck { is: volume, refuse: Claims::volumes_refuse, elsewhere: Claims::volumes_elsewhere };
