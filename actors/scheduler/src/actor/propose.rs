//! The proposing side of the scheduler: a process that holds shards but not the arbiter's unit finds nodes for its pods and proposes them to the arbiter.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use oarlock_client::{Client, ListOptions};
use oarlock_informer::{Cache, NotCaughtUp};
use oarlock_meta::{Revision, Status};
use oarlock_runtime::{Failure, Instant, clock};

use crate::engine::Authority;
use crate::model::PodInfo;
use crate::project::PodView;
use crate::queue::Stamp;

use super::attempt_metrics::Attempt;
use super::proposal_messages::ProposalVerdict;
use super::proposals::{self, Answered, NoVerdict, Preempts, Sent};
use super::set::SYNC_WARNING;
use super::{DECISIONS_PER_TURN, Shell, condition, spans};

/// Longest pause after a proposal reached a process that is no longer the arbiter; ends earlier when the new arbiter is known.
const STALE_PAUSE: Duration = Duration::from_millis(50);
/// How long the loop waits for the cache to show the outcome of a proposal without an answer.
const CATCH_UP_LIMIT: Duration = Duration::from_secs(1);

impl Shell {
    /// Returns the arbiter's epoch if another process is the arbiter and a bus is configured.
    pub(super) fn proposes(&self) -> Option<Revision> {
        let elsewhere = self.duties.arbiter().is_none() && self.proposal_bus.is_configured();
        self.duties.elsewhere().filter(|_| elsewhere)
    }

    /// Finds nodes for waiting pods and sends the proposals; returns the number of pods.
    pub(super) fn propose(&mut self) -> Result<usize, Failure> {
        let Some(epoch) = self.proposes() else { return Ok(0) };
        let (mut decided, at) = (0, clock::now());
        while decided < DECISIONS_PER_TURN && self.proposals.has_room(at) {
            let Some(decision) = self.look(Authority::Remote) else { break };
            decided += 1;
            self.act(decision);
        }
        while let Some(batch) = self.proposals.next_batch(at) {
            self.status.proposals.sent += batch.len() as u64;
            let seen = self.intake.pods().revision();
            let asked = proposals::batch(&batch, epoch, seen, self.duties.shards().0);
            // An arbiter that dies never answers, so a change of the arbiter's epoch ends the request before its timeout. The new arbiter knows every earlier
            // binding, and refuses a pod that is bound.
            let (ask, moved) = (self.proposal_bus.ask(asked), self.duties.moved_from(epoch));
            let ask = async move {
                tokio::select! {
                    biased;
                    result = ask => result,
                    () = moved => Err(NoVerdict::AskAgain),
                }
            };
            let task = self.ctx.spawn("propose", ask)?;
            let answered = async move {
                let result = match task.await {
                    Ok(result) => result,
                    Err(error) => Err(NoVerdict::Unknown(error.to_string())),
                };
                Answered { batch, result }
            };
            self.proposals.sent(answered.boxed());
        }
        Ok(decided)
    }

    /// Handles the result of a batch.
    pub(super) fn answered(&mut self, Answered { mut batch, result }: Answered) -> Result<(), Failure> {
        let (now, at) = (self.now(), clock::now());
        let count = batch.len();
        if result.is_err() {
            // Taken, since a batch of unknown outcome comes here again after the look at the cache.
            batch.iter_mut().for_each(|sent| spans::unanswered(&sent.popped, &sent.node, sent.began.take()));
        }
        match result {
            Ok(verdicts) => {
                let silent = std::iter::repeat_with(|| ProposalVerdict::Stale);
                for (sent, verdict) in batch.into_iter().zip(verdicts.into_iter().chain(silent)) {
                    self.judged(sent, verdict, (now, at));
                }
            }
            Err(NoVerdict::Undelivered(pause, why)) => {
                tracing::debug!(proposals = count, why, "proposals not delivered");
                self.status.proposals.undelivered += count as u64;
                self.proposals.pause(at + pause);
                batch.iter().for_each(|sent| self.try_again(sent, (now, at + pause)));
            }
            Err(NoVerdict::Unknown(why)) if count > 0 => {
                tracing::info!(proposals = count, why, "proposals of unknown outcome, waiting for the cache");
                self.status.proposals.unknown += count as u64;
                let task = self.ctx.spawn("look", look(self.set.client.clone(), self.intake.pods()))?;
                let looked = async move {
                    // The result does not matter: the arbiter refuses a pod that is bound.
                    let _ = task.await;
                    Answered { batch, result: Err(NoVerdict::AskAgain) }
                };
                self.proposals.sent(looked.boxed());
                return Ok(());
            }
            Err(NoVerdict::Unknown(_)) => self.proposals.pause(at + STALE_PAUSE),
            Err(NoVerdict::AskAgain) => batch.iter().for_each(|sent| self.try_again(sent, (now, at))),
        }
        self.proposals.settled(count);
        Ok(())
    }

    fn judged(&mut self, sent: Sent, verdict: ProposalVerdict, (now, at): (Stamp, Instant)) {
        spans::proposed(&sent.popped, &sent.node, sent.began, &verdict);
        let pod = &sent.popped.pod;
        match verdict {
            ProposalVerdict::Nominated { revision } => {
                self.status.proposals.nominated += 1;
                self.proposals.done(&pod.uid);
                if let Some(Preempts { unfit, .. }) = sent.preempts {
                    self.preempted(pod, unfit, revision.get(), now);
                }
            }
            ProposalVerdict::Bound => {
                self.status.proposals.bound += 1;
                self.ended(&sent.popped, Attempt::Scheduled);
                self.proposals.done(&pod.uid);
                self.reporter.settled(pod);
                // The engine counts the pod as placed until the cache shows the binding.
                self.engine.queue.remove(&pod.uid);
            }
            ProposalVerdict::Refused { constraint, text, seen } => {
                *self.status.proposals.refused.entry(constraint).or_default() += 1;
                self.engine.withdraw(&pod.uid, now);
                self.attempt_failed(&sent);
                match self.proposals.refused(&pod.uid, at) {
                    Some(again) => self.proposals.park(&pod.uid, again, seen),
                    None => {
                        self.fail(pod, format!("refused again and again: {text} at {seen}"), now);
                    }
                }
                self.intake.remind(&mut self.engine, pod, now);
            }
            ProposalVerdict::Failed { text } => {
                self.status.proposals.failed += 1;
                self.attempt_failed(&sent);
                self.engine.withdraw(&pod.uid, now);
                self.fail(pod, text, now);
                self.intake.remind(&mut self.engine, pod, now);
            }
            ProposalVerdict::Stale => {
                self.status.proposals.undelivered += 1;
                self.try_again(&sent, (now, at + STALE_PAUSE));
            }
        }
    }

    /// Records the end of an attempt whose proposal was not carried out. An attempt that proposed a preemption ended when no node was found.
    fn attempt_failed(&self, sent: &Sent) {
        if sent.preempts.is_none() {
            self.ended(&sent.popped, Attempt::Error);
        }
    }

    fn fail(&mut self, pod: &Arc<PodInfo>, text: String, now: Stamp) {
        self.proposals.done(&pod.uid);
        self.engine.queue.failed(&pod.uid, now);
        self.status.failed += 1;
        self.report(pod, |reporter, claim| reporter.failed(claim, pod, text));
    }

    /// Parks a pod whose proposal had no meaningful result; at the given time the pod is scheduled again, from the state at that time.
    fn try_again(&mut self, sent: &Sent, (now, at): (Stamp, Instant)) {
        self.attempt_failed(sent);
        let pod = &sent.popped.pod;
        self.engine.withdraw(&pod.uid, now);
        self.proposals.park(&pod.uid, at, Revision::ZERO);
        self.intake.remind(&mut self.engine, pod, now);
    }

    /// Returns a pod to the queue whose proposal was not sent.
    pub(super) fn give_back(&mut self, pod: &PodInfo, now: Stamp) {
        self.engine.withdraw(&pod.uid, now);
        self.intake.remind(&mut self.engine, pod, now);
        self.engine.queue.again(&pod.uid);
    }
}

/// Waits, for [`CATCH_UP_LIMIT`] at most, until the cache shows every binding that was written before this call. The wait is bounded because a cache
/// without pod events does not reach the latest revision.
async fn look(client: Client, pods: Arc<Cache<PodView>>) {
    let looked = async {
        while let Err(error) = latest(&client, &pods).await {
            tracing::info!(%error, "the latest bindings cannot be read");
            clock::sleep(STALE_PAUSE).await;
        }
    };
    // After the timeout the arbiter's refusal of bound pods suffices.
    let _ = clock::timeout(CATCH_UP_LIMIT, looked).await;
}

/// Why the latest bindings cannot be read.
#[derive(Debug, thiserror::Error)]
enum LatestError {
    /// The API does not name its latest revision.
    #[error(transparent)]
    List(#[from] Status),
    /// The cache has not reached that revision in time.
    #[error(transparent)]
    Cache(#[from] NotCaughtUp),
}

/// Waits until `cache` shows every binding that was written before this call.
async fn latest(client: &Client, cache: &Cache<PodView>) -> Result<(), LatestError> {
    let options = ListOptions { limit: 1, ..ListOptions::default() };
    let latest = client.list(condition::pods()?, "", options).await?.revision;
    Ok(cache.at_least(latest, clock::after(SYNC_WARNING)).await?)
}
