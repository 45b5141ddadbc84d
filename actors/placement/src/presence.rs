//! Receives the heartbeats of the role's members on the bus, asks late members whether they are present, and reports silent members to the coordinator.
//! [`oarlock_mesh::attend`] sends this process's own heartbeats.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use oarlock_bus::{AskError, Bus, HintEvent, Identity, Pattern};
use oarlock_runtime::kind::OnShutdown;
use oarlock_runtime::{ActorKind, Failure, LoopCtx, Phase, clock};
use oarlock_schema::Str;

use crate::crew::{Crew, stopped};
use crate::hearing::Hearing;
use crate::view::speaks;

/// The actor kind of heartbeat listeners. Stops together with the role's controllers.
pub(crate) static PRESENCE: ActorKind =
    ActorKind { name: "placement.presence", on_shutdown: OnShutdown::Finish, phase: Phase::Crew, ..ActorKind::DEFAULT };

/// The most received heartbeats that wait: each member sends four a second, and this process may be busy for a while.
const MAX_WAITING_HEARTBEATS: usize = 4096;
/// The time in which a late member must answer. The bus reports an absent member at once.
const ANSWER_BUDGET: Duration = Duration::from_millis(500);
/// The most changed keys that wait for a subscriber.
const MAX_PENDING_CHANGES: usize = 1024;

/// Receives heartbeats until the actor is stopped, or none if the server has no Assignments. Members without a Lease are forgotten.
///
/// # Errors
/// When the informers cannot be started, or the table of subjects does not allow this role to receive heartbeats.
pub(crate) async fn run(ctx: LoopCtx, crew: Arc<Crew>, bus: Bus) -> Result<(), Failure> {
    if !crew.is_served(&ctx).await {
        return stopped(&ctx).await;
    }
    let (leases, _) = crew.caches().await?;
    if !crew.synced(&ctx).await {
        return Ok(());
    }
    let mut members = leases.subscribe(MAX_PENDING_CHANGES);
    let role = bus.identity().role();
    let expected = || -> BTreeSet<Str> {
        let speaking = leases.list().into_iter().filter(|lease| speaks(&lease.meta));
        speaking.map(|lease| lease.meta.key.name.clone()).collect()
    };
    let mut hints = bus.listen(&Pattern::presence_of(role), MAX_WAITING_HEARTBEATS).await?;
    let mut hearing = Hearing::new(crew.me.clone());
    let mut asked = FuturesUnordered::new();
    let (mut state, mut hears_others) = (bus.state(), false);
    loop {
        ctx.heartbeat();
        let now = clock::now();
        asked.extend(hearing.late(now).into_iter().map(|member| ask(&bus, member)));
        report_silent(&crew, &hearing, &mut hears_others);
        let wake = hearing.next(now).unwrap_or_else(clock::never);
        let turn = async {
            tokio::select! {
                biased;
                now = bus.wait_for(|now| *now != state) => Turn::Link(now),
                heard = hints.next() => Turn::Hint(heard),
                Some(absent) = asked.next(), if !asked.is_empty() => Turn::Answer(absent),
                _ = members.next() => Turn::Members,
                () = clock::sleep_until(wake) => Turn::Time,
            }
        };
        match ctx.or_stop(turn).await {
            None => return Ok(()),
            Some(Turn::Link(now)) => {
                state = now;
                hearing.begin_anew();
                hearing.expect(&expected(), clock::now());
            }
            Some(Turn::Hint(HintEvent::Lost(_))) => {
                hearing.begin_anew();
                hearing.expect(&expected(), clock::now());
            }
            Some(Turn::Hint(HintEvent::Hint(hint))) => {
                if let Some(member) = hint.subject().sender() {
                    hearing.beat(member.name(), clock::now());
                }
            }
            Some(Turn::Members) => hearing.expect(&expected(), clock::now()),
            Some(Turn::Answer(Some(absent))) => hearing.absent(&absent, clock::now()),
            Some(Turn::Answer(None) | Turn::Time) => {}
        }
    }
}

/// The next event of the presence loop.
enum Turn {
    Link(oarlock_bus::State),
    Hint(HintEvent),
    Answer(Option<Str>),
    Members,
    Time,
}

/// Asks a member whether it is present; returns the member's name if the bus knows no process with the name.
fn ask(bus: &Bus, member: Str) -> impl Future<Output = Option<Str>> + use<> {
    let bus = bus.clone();
    async move {
        let identity = Identity::new(bus.identity().role(), member.as_str()).ok()?;
        let answer = oarlock_mesh::is_here(&bus, &identity, ANSWER_BUDGET).await;
        (answer == Err(AskError::NobodyThere)).then_some(member)
    }
}

/// Reports the silent members to the coordinator, and logs changes.
fn report_silent(crew: &Crew, hearing: &Hearing, hears_others: &mut bool) {
    let now = clock::now();
    let others = hearing.others(now);
    if (others > 0) != *hears_others {
        *hears_others = !*hears_others;
        tracing::info!(role = crew.role, others, "{}", if *hears_others { "hears the others" } else { "hears nobody" });
    }
    let silent = hearing.silent(now);
    crew.silent.modify(|known| {
        let changed = **known != silent;
        if changed {
            tracing::info!(role = crew.role, ?silent, "members that are silent");
            *known = Arc::new(silent);
        }
        changed
    });
}
