//! Nodes: a kubelet registers its node together with the status, so the main endpoint accepts a status on creation.

use oarlock_schema::Obj;

use crate::kind::{Request, Strategy};

/// Strategy of nodes.
#[derive(Debug)]
pub struct NodeStrategy;

impl Strategy for NodeStrategy {
    fn prepare_create(&self, _request: &Request<'_>, _obj: &mut Obj) {}
}
