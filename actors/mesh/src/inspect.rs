//! Asks all members of the bus for their traffic statistics.

mod table;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt, stream};
use oarlock_bus::proto::mesh::v1::{InspectAnswer, InspectQuestion, MembersAnswer, MembersQuestion};
use oarlock_bus::{AskError, Bus, Identity, Role, Subject};

use crate::methods::{INSPECT, MEMBERS};

pub use table::table;

/// The number of members that are asked concurrently.
pub(crate) const CONCURRENT_ASKS: usize = 64;

/// The traffic of one member, as reported by the member, or why the member did not answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The member.
    pub member: Identity,
    /// The time since the member's last heartbeat, as reported by the member that received it last.
    pub heard: Duration,
    /// The member's answer, or why there is none.
    pub answer: Result<InspectAnswer, AskError>,
}

/// Asks one member of each role for its roster, and then all members; each answer may take `budget`. The reports include members that do not answer, if a
/// heartbeat was received within the last minute (nodes: six minutes).
///
/// # Errors
/// When no roster was received, and at least one request for a roster failed for another reason than that the role has no member.
pub async fn inspect(bus: &Bus, budget: Duration) -> Result<Vec<Report>, AskError> {
    let known = everybody(bus, budget).await?;
    let ask = |(member, heard): (Identity, Duration)| async move {
        let answer = match Subject::member(&member, INSPECT) {
            Ok(subject) => bus.ask(&subject, &InspectQuestion {}, budget).await,
            Err(error) => Err(AskError::Denied(error.to_string())),
        };
        Report { member, heard, answer }
    };
    Ok(stream::iter(known).map(ask).buffered(CONCURRENT_ASKS).collect().await)
}

/// Returns all members in the rosters, each with the time since its last heartbeat.
pub(crate) async fn everybody(bus: &Bus, budget: Duration) -> Result<BTreeMap<Identity, Duration>, AskError> {
    let roles = Role::ALL.into_iter().filter(|role| !matches!(role, Role::Node | Role::Inspector));
    let asked =
        stream::iter(roles).map(|role| members(bus, role, budget)).buffered(CONCURRENT_ASKS).collect::<Vec<_>>().await;
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

/// Asks one member of a role for its roster.
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
