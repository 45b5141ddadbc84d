//! Nodes: a kubelet registers itself with its status, so the main endpoint takes one on creation.

use oarlock_schema::Obj;

use crate::kind::{Request, Strategy};

/// Strategy of nodes.
#[derive(Debug)]
pub struct NodeStrategy;

impl Strategy for NodeStrategy {
    fn prepare_create(&self, _request: &Request<'_>, _obj: &mut Obj) {}
}
