//! A cache of compiled policies, by generation.

use std::collections::HashMap;
use std::sync::Arc;

use oarlock_meta::Revision;
use oarlock_registry::reader;
use oarlock_schema::Resource;
use oarlock_storage::Key;
use oarlock_store::Entry;
use parking_lot::Mutex;

use super::compiled::{Policy, PolicyId};
use super::evaluate::Policies;

/// How many policies are cached before the cache is cleared.
const CAPACITY: usize = 1024;

/// Compiled policies by generation. A change that keeps the generation (of status, of labels) compiles nothing. Holds at most 1024 policies; a full
/// cache is cleared, which costs one compilation per policy.
#[derive(Debug, Default)]
pub struct CompiledPolicies {
    policies: Mutex<HashMap<Key, (Revision, Arc<Policy>)>>,
}

impl CompiledPolicies {
    /// Returns the policy of an entry; `None` when its bytes do not decode.
    #[must_use]
    pub fn get(&self, resource: &Resource, entry: &Entry) -> Option<Arc<Policy>> {
        let before = match self.policies.lock().get(&entry.key) {
            Some((revision, policy)) if *revision == entry.revision => return Some(Arc::clone(policy)),
            other => other.map(|(_, policy)| Arc::clone(policy)),
        };
        let obj = reader::decode(resource, entry)?;
        let id = Policy::id_of(&obj);
        let same = before.filter(|policy| policy.id == id);
        let policy = same.unwrap_or_else(|| Arc::new(Policy::compile(obj)));
        let mut policies = self.policies.lock();
        if policies.len() >= CAPACITY {
            policies.clear();
        }
        policies.insert(entry.key.clone(), (entry.revision, Arc::clone(&policy)));
        Some(policy)
    }
}

impl Policies for HashMap<PolicyId, Arc<Policy>> {
    fn policy(&self, id: &PolicyId) -> Option<Arc<Policy>> {
        self.get(id).cloned()
    }
}
