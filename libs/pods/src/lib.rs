//! Rules about pods that several components and the API server share (upstream's counterpart is `k8s.io/component-helpers`).
//!
//! The rules read the schema's views, which every component has while projecting or checking an object. How a component stores the results is its own choice:
//! sums are generic over the storage of amounts ([`Accounting`]), tolerations and node selectors over the storage of texts ([`Toleration`],
//! [`node_affinity::Op`]), so a scheduler that works on symbols and an admission stage that works on exact quantities follow the same rule.

pub mod amounts;
pub mod budget;
pub mod conditions;
pub mod daemon;
pub mod node_affinity;
pub mod pod_level;
pub mod qos;
pub mod requests;
pub mod resource_list;
pub mod selector;
pub mod sidecar;
pub mod termination;
pub mod toleration;

pub use amounts::Amounts;
pub use qos::QosClass;
pub use requests::{Accounting, RequirementKind, Sum};
pub use resource_list::ResourceList;
pub use toleration::{Effect, Taint, Toleration};
