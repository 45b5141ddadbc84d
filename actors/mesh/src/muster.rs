//! Asks everybody which actors run in them.

use std::time::Duration;

use futures::{StreamExt, stream};
use oarlock_bus::proto::mesh::v1::{ActorsAnswer, ActorsQuestion};
use oarlock_bus::{AskError, Bus, Decline, Identity, Role, Subject};
use oarlock_runtime::{ActorStatus, Instant, System, clock};

use crate::inspect::{AT_ONCE, everybody};

/// The method that tells which actors a member has.
pub(crate) const ACTORS: &str = "actors";
/// Actors in one answer: what they show of their state may be long, and a message carries a megabyte.
const PAGE: usize = 128;
/// Actors of one member: a process has some hundred, and who tells of more and more is not believed.
const MOST: usize = 4096;
/// Of the state that an actor shows, in bytes; more is left out.
const SHOWN: usize = 4096;

/// A member, and its actors or why it does not tell.
#[derive(Clone, Debug)]
pub struct Present {
    /// Who.
    pub member: Identity,
    /// How long ago others heard it.
    pub heard: Duration,
    /// What runs in it.
    pub actors: Result<Vec<ActorStatus>, AskError>,
}

/// Asks everybody who was heard lately, but not this process itself; each answer may take `budget`.
///
/// # Errors
/// When nobody tells who is there.
pub async fn muster(bus: &Bus, budget: Duration) -> Result<Vec<Present>, AskError> {
    let mut known = everybody(bus, budget).await?;
    known.remove(bus.identity());
    let ask = |(member, heard): (Identity, Duration)| async move {
        let actors = pages(bus, &member, budget).await;
        Present { member, heard, actors }
    };
    Ok(stream::iter(known).map(ask).buffered(AT_ONCE).collect().await)
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
        if actors.len() > MOST {
            return Err(AskError::Garbled(format!("more than {MOST} actors")));
        }
    }
}

/// Some of this process's actors: of a node, which may share its process with others, its own. Actors have half of the asker's time to show their
/// state, so that one that hangs does not cost the answer of all.
///
/// # Errors
/// [`Decline::Failed`] when a status cannot be written down.
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
    let more = all.len() > after.saturating_add(PAGE);
    let actors = all.into_iter().skip(after).take(PAGE).map(|actor| told(actor).map(Into::into));
    let actors = actors.collect::<Result<_, _>>().map_err(|error| Decline::Failed(error.to_string()))?;
    Ok(ActorsAnswer { actors, more })
}

/// An actor as a message carries it, without a state that is too long for it.
fn told(mut actor: ActorStatus) -> serde_json::Result<Vec<u8>> {
    let length = actor.state.to_string().len();
    if length > SHOWN {
        actor.state = format!("{length} bytes, see /debug/actors of the process").into();
    }
    serde_json::to_vec(&actor)
}
