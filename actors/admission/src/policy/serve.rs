//! The service that evaluates policies for API servers, the counterpart of [`RemoteEvaluator`](super::RemoteEvaluator).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use oarlock_bus::proto::admission::v1::policy_answer::Said;
use oarlock_bus::proto::admission::v1::{PolicyAnswer, PolicyQuestion, Rights, Unknown};
use oarlock_bus::{BadName, Bus, Decline, Pattern, Role};
use oarlock_cel::{AccessQuery, Authorizer, Decision};
use oarlock_mesh::Service;
use oarlock_runtime::System;
use parking_lot::Mutex;

use super::compiled::{Policy, PolicyId, digest};
use super::evaluate::judge;
use super::question::Question;
use super::remote::POLICIES;

/// How many policies are cached before the cache is cleared.
const CAPACITY: usize = 1024;

/// The service could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The service's name is invalid.
    #[error(transparent)]
    Name(#[from] BadName),
    /// The runtime refused to spawn the actor.
    #[error("actor that judges")]
    Spawn(#[from] oarlock_runtime::Error),
}

/// Starts an actor that evaluates policies for other processes, `permits` requests at a time.
///
/// # Errors
/// [`ServeError`] when the service cannot be started.
pub async fn serve(system: &System, bus: Bus, permits: usize) -> Result<(), ServeError> {
    let cache = Arc::new(PolicyCache::default());
    let answer = move |question: PolicyQuestion, _| std::future::ready(cache.answer(&question));
    let pattern = Pattern::service(Role::Admission, POLICIES)?;
    Service::new(pattern, permits).method(POLICIES, answer).start(system, bus).await?;
    Ok(())
}

/// The cache of policies that were sent to this process.
#[derive(Debug, Default)]
struct PolicyCache {
    policies: Mutex<HashMap<Bytes, Arc<Policy>>>,
}

impl PolicyCache {
    fn answer(&self, question: &PolicyQuestion) -> Result<PolicyAnswer, Decline> {
        question.policies.iter().try_for_each(|body| self.learn(body))?;
        let review: Question =
            serde_json::from_slice(&question.review).map_err(|error| Decline::Malformed(error.to_string()))?;
        let known: Option<HashMap<PolicyId, Arc<Policy>>> = {
            let policies = self.policies.lock();
            let known = |digest| policies.get(digest).map(|policy| (policy.id.clone(), Arc::clone(policy)));
            question.digests.iter().map(known).collect()
        };
        let Some(known) = known else { return Ok(PolicyAnswer { said: Some(Said::Unknown(Unknown {})) }) };
        let rights = UsageRecorder::default();
        let answer = judge(&review, &known, Some(&rights));
        let said = if rights.0.into_inner() {
            Said::Rights(Rights {})
        } else {
            let outcome = serde_json::to_vec(&answer).map_err(|error| Decline::Failed(error.to_string()))?;
            Said::Outcome(outcome.into())
        };
        Ok(PolicyAnswer { said: Some(said) })
    }

    /// Compiles a policy and caches it by the digest of its contents, so that the sender does not matter.
    fn learn(&self, body: &Bytes) -> Result<(), Decline> {
        let digest = digest(body);
        if self.policies.lock().contains_key(&digest) {
            return Ok(());
        }
        let policy = Arc::new(Policy::read(body).map_err(|error| Decline::Malformed(error.to_string()))?);
        let mut policies = self.policies.lock();
        if policies.len() >= CAPACITY {
            policies.clear();
        }
        policies.insert(digest, policy);
        Ok(())
    }
}

/// An authorizer that allows nothing and records whether it was used.
#[derive(Debug, Default)]
struct UsageRecorder(AtomicBool);

impl Authorizer for UsageRecorder {
    fn check(&self, _: &AccessQuery) -> Decision {
        self.0.store(true, Ordering::Relaxed);
        Decision { allowed: false, reason: String::new(), error: None }
    }
}
