//! Asks everybody what they have carried.

mod table;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt, stream};
use oarlock_bus::proto::mesh::v1::{InspectAnswer, InspectQuestion, MembersAnswer, MembersQuestion};
use oarlock_bus::{AskError, Bus, Identity, Role, Subject};

use crate::member::{INSPECT, MEMBERS};

pub use table::table;

/// Members that are asked at once.
pub(crate) const AT_ONCE: usize = 64;

/// A member, as it tells of itself or as others do.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Who.
    pub member: Identity,
    /// How long ago others heard it, as the one who heard it last tells.
    pub heard: Duration,
    /// What it tells, or why it does not.
    pub answer: Result<InspectAnswer, AskError>,
}

/// Asks one member of each role who is there, and then everybody; each answer may take `budget`. Members that were heard within the last minute (nodes: six)
/// are there, whether they answer or not.
///
/// # Errors
/// When nobody told who is there, and for somebody that had another reason than that nobody of the role is there.
pub async fn inspect(bus: &Bus, budget: Duration) -> Result<Vec<Report>, AskError> {
    let known = everybody(bus, budget).await?;
    let ask = |(member, heard): (Identity, Duration)| async move {
        let answer = match Subject::member(&member, INSPECT) {
            Ok(subject) => bus.ask(&subject, &InspectQuestion {}, budget).await,
            Err(error) => Err(AskError::Denied(error.to_string())),
        };
        Report { member, heard, answer }
    };
    Ok(stream::iter(known).map(ask).buffered(AT_ONCE).collect().await)
}

/// Everybody who was heard lately, and how long ago.
pub(crate) async fn everybody(bus: &Bus, budget: Duration) -> Result<BTreeMap<Identity, Duration>, AskError> {
    let roles = Role::ALL.into_iter().filter(|role| !matches!(role, Role::Node | Role::Inspector));
    let asked = stream::iter(roles).map(|role| members(bus, role, budget)).buffered(AT_ONCE).collect::<Vec<_>>().await;
    let mut known: BTreeMap<Identity, Duration> = BTreeMap::new();
    let mut failure = None;
    for answer in asked {
        match answer {
            Ok(members) => members.into_iter().for_each(|(member, heard)| {
                known.entry(member).and_modify(|known| *known = heard.min(*known)).or_insert(heard);
            }),
            Err(AskError::NobodyThere) => {}
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) if known.is_empty() => Err(error),
        _ => Ok(known),
    }
}

/// Whom some member of a role has heard.
async fn members(bus: &Bus, role: Role, budget: Duration) -> Result<Vec<(Identity, Duration)>, AskError> {
    let subject = Subject::service(role, MEMBERS).map_err(|error| AskError::Denied(error.to_string()))?;
    let answer: MembersAnswer = bus.ask(&subject, &MembersQuestion {}, budget).await?;
    let member = |heard: oarlock_bus::proto::mesh::v1::Heard| {
        let member = heard.member?;
        let role = Role::from_token(&member.role)?;
        Some((Identity::new(role, &member.name).ok()?, Duration::from_millis(heard.ago_ms)))
    };
    Ok(answer.members.into_iter().filter_map(member).collect())
}
