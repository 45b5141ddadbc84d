//! Sends proposals over the bus to the holder of the arbiter's unit, and receives them there.
//!
//! A request is addressed to the unit at one epoch, so that a former or later holder does not get it. A few batches that the holder has no room for wait on
//! the bus; further requests are answered as overloaded.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use oarlock_bus::proto::scheduler::v1 as wire;
use oarlock_bus::proto::scheduler::v1::verdict::Said;
use oarlock_bus::{Ask, AskError, Bus, Decline, Pattern, Role, Subject};
use oarlock_meta::Revision;
use oarlock_runtime::LoopCtx;
use tokio::sync::{mpsc, oneshot};

use super::inbox::ReceivedBatch;
use super::proposal_messages::{Batch, ProposalVerdict, Proposed};
use super::proposals::NoVerdict;
use super::set::Config;

/// Timeout of a request: the time for the bindings and for the queue before them.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Bound of batches that wait on the bus.
const MAX_QUEUED: usize = 16;
/// Bound of received batches without an answer.
const MAX_OPEN: usize = 64;
/// Pause when no arbiter can be reached: about the time that a new arbiter needs from its Assignment until it receives requests.
const UNREACHABLE_PAUSE: Duration = Duration::from_millis(25);
const METHOD: &str = "propose";

/// The bus connection for proposals: sends requests, and receives them while this process holds the arbiter's unit.
pub(super) struct ProposalBus {
    bus: Option<Bus>,
    /// The epoch for which this process receives requests, with their channel.
    receiver: Option<(Revision, mpsc::Receiver<ReceivedBatch>)>,
}

impl ProposalBus {
    /// Uses the bus of `config`, if one is configured.
    pub(super) fn new(config: &Config) -> Self {
        Self { bus: config.bus.clone(), receiver: None }
    }

    /// Whether a bus to other processes is configured.
    pub(super) fn is_configured(&self) -> bool {
        self.bus.is_some()
    }

    /// Receives requests to the arbiter at `epoch` from now on; `None` stops receiving.
    pub(super) fn receive_for(&mut self, ctx: &LoopCtx, epoch: Option<Revision>) {
        let Some(bus) = &self.bus else { return };
        if self.receiver.as_ref().map(|(epoch, _)| *epoch) == epoch {
            return;
        }
        // Dropping the channel ends the task that receives for the earlier epoch.
        self.receiver = None;
        let Some(epoch) = epoch else { return };
        let (to, from) = mpsc::channel(1);
        // A failed spawn means that this incarnation is shutting down.
        if ctx.spawn("hear", receive(bus.clone(), epoch, to)).is_ok() {
            self.receiver = Some((epoch, from));
        }
    }

    /// Returns the next received batch; waits forever while this process does not receive requests. Cancel safe.
    pub(super) async fn next(&mut self) -> ReceivedBatch {
        let asked = match &mut self.receiver {
            Some((_, from)) => from.recv().await,
            None => None,
        };
        match asked {
            Some(asked) => asked,
            None => std::future::pending().await,
        }
    }

    /// Sends a batch to the arbiter at the batch's epoch and returns the verdicts.
    pub(super) fn ask(&self, batch: Batch) -> BoxFuture<'static, Result<Vec<ProposalVerdict>, NoVerdict>> {
        let bus = self.bus.clone();
        let ask = async move {
            let Some(bus) = bus else {
                return Err(NoVerdict::Undelivered(UNREACHABLE_PAUSE, "there is no bus".to_owned()));
            };
            let unit = crate::arbiter_unit();
            let subject = Subject::unit(Role::Scheduler, unit.as_str(), batch.epoch, METHOD);
            let subject = subject.map_err(|error| NoVerdict::Undelivered(UNREACHABLE_PAUSE, error.to_string()))?;
            let answer: Result<wire::Verdicts, AskError> = bus.ask(&subject, &question(batch), ANSWER_TIMEOUT).await;
            match answer {
                Ok(verdicts) => Ok(verdicts.verdicts.into_iter().map(verdict).collect()),
                Err(AskError::Overloaded { retry_after }) => {
                    Err(NoVerdict::Undelivered(retry_after, "overloaded".to_owned()))
                }
                Err(error) if error.certainly_not_begun() => {
                    Err(NoVerdict::Undelivered(UNREACHABLE_PAUSE, error.to_string()))
                }
                Err(error) => Err(NoVerdict::Unknown(error.to_string())),
            }
        };
        ask.boxed()
    }
}

/// Forwards requests to the arbiter at one epoch to the scheduler's loop, until the loop drops the channel; then waits until every request is answered.
async fn receive(bus: Bus, epoch: Revision, to: mpsc::Sender<ReceivedBatch>) {
    let pattern = Pattern::unit(Role::Scheduler, crate::arbiter_unit().as_str(), epoch);
    let asks = match pattern {
        Ok(pattern) => bus.serve(&pattern, MAX_QUEUED).await.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let mut asks = match asks {
        Ok(asks) => asks,
        // Without proposals every shard becomes silent, and this process schedules its pods.
        Err(error) => return tracing::error!(error, epoch = epoch.get(), "proposals cannot be received"),
    };
    let mut open: FuturesUnordered<BoxFuture<'static, ()>> = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            () = to.closed() => break,
            Some(()) = open.next(), if !open.is_empty() => {}
            ask = asks.next(), if open.len() < MAX_OPEN => {
                let Some(ask) = ask else { break };
                let (answer, answered) = oneshot::channel();
                match read(&ask) {
                    // Blocks until the loop has room; later requests wait on the bus meanwhile.
                    Ok(batch) => match to.send(ReceivedBatch { batch, answer }).await {
                        Ok(()) => open.push(reply(ask, answered).boxed()),
                        Err(_) => open.push(decline(ask, Decline::WrongEpoch { current: None }).boxed()),
                    },
                    Err(why) => open.push(decline(ask, why).boxed()),
                }
            }
        }
    }
    drop(asks);
    while let Some(()) = open.next().await {}
}

async fn reply(ask: Ask, answered: oneshot::Receiver<Vec<ProposalVerdict>>) {
    let Ok(verdicts) = answered.await else { return decline(ask, Decline::WrongEpoch { current: None }).await };
    let verdicts = verdicts.into_iter().map(|verdict| wire::Verdict { said: Some(said(verdict)) }).collect();
    // A proposer that gets no answer checks by itself what became of the pods.
    let _ = ask.answer(&wire::Verdicts { verdicts }).await;
}

async fn decline(ask: Ask, why: Decline) {
    let _ = ask.decline(why).await;
}

fn read(ask: &Ask) -> Result<Batch, Decline> {
    if ask.subject().method() != METHOD {
        return Err(Decline::UnknownMethod);
    }
    let epoch = ask.subject().epoch().ok_or_else(|| Decline::Malformed("the subject has no epoch".to_owned()))?;
    let wire::Proposals { seen, shards, proposals } = ask.body()?;
    if proposals.len() > super::proposals::MAX_BATCH {
        return Err(Decline::Malformed(format!(
            "{} proposals are more than {}",
            proposals.len(),
            super::proposals::MAX_BATCH
        )));
    }
    let proposals = proposals.into_iter().map(|proposal| Proposed {
        namespace: proposal.namespace,
        name: proposal.name,
        uid: proposal.uid,
        version: Revision(proposal.version),
        node: proposal.node,
        victims: proposal.victims,
    });
    Ok(Batch { epoch, seen: Revision(seen), shards, proposals: proposals.collect() })
}

fn question(batch: Batch) -> wire::Proposals {
    let proposals = batch.proposals.into_iter().map(|proposed| wire::Proposal {
        namespace: proposed.namespace,
        name: proposed.name,
        uid: proposed.uid,
        version: proposed.version.get(),
        node: proposed.node,
        victims: proposed.victims,
    });
    wire::Proposals { seen: batch.seen.get(), shards: batch.shards, proposals: proposals.collect() }
}

fn said(verdict: ProposalVerdict) -> Said {
    match verdict {
        ProposalVerdict::Bound => Said::Bound(wire::Bound {}),
        ProposalVerdict::Nominated { revision } => Said::Nominated(wire::Nominated { revision: revision.get() }),
        ProposalVerdict::Refused { constraint, text, seen } => {
            Said::Refused(wire::Refused { constraint, text, seen: seen.get() })
        }
        ProposalVerdict::Failed { text } => Said::Failed(wire::Failed { text }),
        ProposalVerdict::Stale => Said::Stale(wire::Stale {}),
    }
}

/// Decodes a verdict. An unknown verdict of a later release counts as `Stale`: the pod is checked, and proposed again if it is still unbound.
fn verdict(verdict: wire::Verdict) -> ProposalVerdict {
    match verdict.said {
        Some(Said::Bound(wire::Bound {})) => ProposalVerdict::Bound,
        Some(Said::Nominated(wire::Nominated { revision })) => {
            ProposalVerdict::Nominated { revision: Revision(revision) }
        }
        Some(Said::Refused(wire::Refused { constraint, text, seen })) => {
            ProposalVerdict::Refused { constraint, text, seen: Revision(seen) }
        }
        Some(Said::Failed(wire::Failed { text })) => ProposalVerdict::Failed { text },
        Some(Said::Stale(wire::Stale {})) | None => ProposalVerdict::Stale,
    }
}
