//! C1: judges one state of the API, taken after all controllers had time to settle: every wanted object exists as specified, and no other object
//! does.
//!
//! This module shares no code with the controllers: it computes anew which objects an owner has and which pods a Service selects.
//!
//! | finding | when |
//! |---|---|
//! | missing | a wanted object does not exist |
//! | left over | an object exists that is not wanted (any more) |
//! | not at spec | a Deployment has other replicas, fewer ready ones, or a status that is behind its spec; a pod has no node or is not ready; a Job is not complete, has another number of successes, or fewer pods that succeeded |
//! | duplicate | an owner has more pods than it wants, or a Deployment more than one ReplicaSet with pods; a Job had more successes than it counts |
//! | orphan | the owner or the namespace of an object does not exist |
//! | stuck | an object is still being deleted; a pod of a finished Job still has the finalizer that keeps it until it is counted |
//! | endpoints | a Service's EndpointSlices or Endpoints name other pods than its ready ones |

mod judge;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

/// The objects that users want, by `namespace/name`; only these namespaces are judged.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Namespaces.
    pub namespaces: BTreeSet<String>,
    /// Deployments, with their replicas.
    pub deployments: BTreeMap<String, u64>,
    /// Jobs that succeed, with their completions.
    pub jobs: BTreeMap<String, u64>,
    /// Services.
    pub services: BTreeSet<String>,
    /// Pods without an owner.
    pub pods: BTreeSet<String>,
}

/// The objects of all namespaces.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "each is a list of objects of the kind that it names")]
pub struct State {
    pub namespaces: Vec<Value>,
    pub deployments: Vec<Value>,
    pub replica_sets: Vec<Value>,
    pub jobs: Vec<Value>,
    pub pods: Vec<Value>,
    pub services: Vec<Value>,
    pub endpoint_slices: Vec<Value>,
    pub endpoints: Vec<Value>,
}

/// The kind of a violation; the module's table states the kinds in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the module text says what each is")]
pub enum Finding {
    Missing,
    LeftOver,
    NotAtSpec,
    Duplicate,
    Orphan,
    Stuck,
    Endpoints,
}

/// A violation of C1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wrong {
    /// The kind of the violation.
    pub finding: Finding,
    /// The object: kind, namespace, name.
    pub object: String,
    /// The details.
    pub what: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { finding, object, what } = self;
        write!(f, "{finding:?}: {object}: {what}")
    }
}

/// Returns the violations of C1.
#[must_use]
pub fn judge(state: &State, wanted: &Wanted) -> Vec<Wrong> {
    judge::Judge::new(state, wanted).run()
}
