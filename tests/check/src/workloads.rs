//! C1: judges one state of the API, taken after all had time to settle: every wanted object exists as specified, and no other object does.
//!
//! Shares no code with the controllers: who belongs to whom, and which pods a Service means, is worked out here anew.
//!
//! | finding | when |
//! |---|---|
//! | missing | what is wanted is not there |
//! | left over | what nobody wants (any more) is there |
//! | not at spec | a Deployment has other replicas, fewer ready ones, or a status that is behind its spec; a pod has no node or is not ready; a Job is not complete, has another number of successes, or fewer pods that ended well |
//! | duplicate | an owner has more pods than it wants, or a Deployment more than one ReplicaSet with pods; a Job had more successes than it counts |
//! | orphan | an owner, or the namespace, is gone |
//! | stuck | it is being deleted, still; a pod of a finished Job is kept to be counted |
//! | endpoints | a Service's EndpointSlices or Endpoints name others than its ready pods |

mod judge;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

/// What users want. Names are `namespace/name`; only what is in these namespaces is asked about.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Namespaces.
    pub namespaces: BTreeSet<String>,
    /// Deployments, with their replicas.
    pub deployments: BTreeMap<String, u64>,
    /// Jobs that end well, with their completions.
    pub jobs: BTreeMap<String, u64>,
    /// Services.
    pub services: BTreeSet<String>,
    /// Pods without an owner.
    pub pods: BTreeSet<String>,
}

/// What is there, of every namespace.
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

/// What is wrong with something; see the module text.
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
    /// In which way.
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

/// What is wrong with a state; nothing: C1 holds.
#[must_use]
pub fn judge(state: &State, wanted: &Wanted) -> Vec<Wrong> {
    judge::Judge::new(state, wanted).run()
}
