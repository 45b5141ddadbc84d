//! Asks all members of the bus for the actors in their processes, and answers that question.

use std::time::Duration;

use futures::{StreamExt, stream};
use oarlock_bus::proto::mesh::v1::{ActorsAnswer, ActorsQuestion};
use oarlock_bus::{AskError, Bus, Decline, Identity, Role, Subject};
use oarlock_runtime::{ActorStatus, Instant, System, clock};

use crate::inspect::{CONCURRENT_ASKS, everybody};
use crate::methods::ACTORS;

/// The most actors in one answer: a message carries a megabyte, and the state of an actor may be long.
const PAGE_ACTORS: usize = 128;
/// The most actors that are accepted of one member; a process has some hundred. Bounds the pages that a faulty member can send.
const MAX_ACTORS: usize = 4096;
/// The longest state of an actor in an answer, in bytes of JSON; a longer state is replaced by a hint.
const MAX_STATE_BYTES: usize = 4096;

/// A member of the bus with its actors, or why the member did not answer.
#[derive(Clone, Debug)]
pub struct Present {
    /// The member.
    pub member: Identity,
    /// The time since the member's last heartbeat.
    pub heard: Duration,
    /// The actors in the member's process.
    pub actors: Result<Vec<ActorStatus>, AskError>,
}

/// Asks all members with a recent heartbeat, except this process; each answer may take `budget`.
///
/// # Errors
/// When no roster of members was received.
pub async fn muster(bus: &Bus, budget: Duration) -> Result<Vec<Present>, AskError> {
    let mut known = everybody(bus, budget).await?;
    known.remove(bus.identity());
    let ask = |(member, heard): (Identity, Duration)| async move {
        let actors = pages(bus, &member, budget).await;
        Present { member, heard, actors }
    };
    Ok(stream::iter(known).map(ask).buffered(CONCURRENT_ASKS).collect().await)
}

async fn pages(bus: &Bus, member: &Identity, budget: Duration) -> Result<Vec<ActorStatus>, AskError> {
    let subject = Subject::member(member, ACTORS).map_err(|error| AskError::Denied(error.to_string()))?;
    let mut actors = Vec::new();
    loop {
        let after = u32::try_from(actors.len()).unwrap_or(u32::MAX);
        let page: ActorsAnswer = bus.ask(&subject, &ActorsQuestion { after }, budget).await?;
        let page_of = page.actors.len();
        for actor in &page.actors {
            actors.push(serde_json::from_slice(actor).map_err(|error| AskError::Garbled(error.to_string()))?);
        }
        if page_of == 0 || !page.more {
            return Ok(actors);
        }
        if actors.len() > MAX_ACTORS {
            return Err(AskError::Garbled(format!("more than {MAX_ACTORS} actors")));
        }
    }
}

/// Returns one page of this process's actors; for a node, which may share its process with other nodes, only the node's own actors. Actors have half of
/// the time until `deadline` to report their state, so that one actor that hangs does not prevent the answer.
///
/// # Errors
/// [`Decline::Failed`] when a status cannot be encoded.
pub(crate) async fn page(
    system: &System,
    of: &Identity,
    question: ActorsQuestion,
    deadline: Instant,
) -> Result<ActorsAnswer, Decline> {
    let mut all = system.observe(clock::after(deadline.remaining() / 2)).await;
    if of.role() == Role::Node {
        all.retain(|actor| actor.key.split('/').any(|part| part == of.name()));
    }
    let after = usize::try_from(question.after).unwrap_or(usize::MAX);
    let more = all.len() > after.saturating_add(PAGE_ACTORS);
    let actors = all.into_iter().skip(after).take(PAGE_ACTORS).map(|actor| encode(actor).map(Into::into));
    let actors = actors.collect::<Result<_, _>>().map_err(|error| Decline::Failed(error.to_string()))?;
    Ok(ActorsAnswer { actors, more })
}

/// Encodes an actor's status for a message; a state that is too long is replaced by a hint.
fn encode(mut actor: ActorStatus) -> serde_json::Result<Vec<u8>> {
    let length = actor.state.to_string().len();
    if length > MAX_STATE_BYTES {
        actor.state = format!("{length} bytes, see /debug/actors of the process").into();
    }
    serde_json::to_vec(&actor)
}
