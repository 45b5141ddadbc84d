//! The membership of this process on the bus: sends heartbeats, receives those of others, and answers questions about rosters, traffic, actors and spans.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use oarlock_bus::proto::bus::v1::Sender;
use oarlock_bus::proto::mesh::v1 as wire;
use oarlock_bus::subjects::Kind;
use oarlock_bus::{AskError, Bus, Decline, HintEvent, Hints, Identity, Pattern, Role, Subject};
use oarlock_runtime::{ActorKind, Failure, Instant, LoopCtx, Phase, System, clock, rng};
use oarlock_telemetry::traces;
use parking_lot::Mutex;

use crate::join_error::JoinError;
use crate::methods::{ACTORS, HERE, INSPECT, MEMBERS, SPANS};
use crate::roster::{Roster, period};
use crate::service::{RequestInfo, Service};
use crate::{member_actors, member_spans};

/// The actor kind that sends and receives heartbeats.
pub(crate) static PRESENCE: ActorKind = ActorKind { name: "mesh.presence", phase: Phase::Crew, ..ActorKind::DEFAULT };

/// The most received heartbeats that wait.
const MAX_WAITING_HEARTBEATS: usize = 4096;
/// The number of questions that are answered concurrently.
const CONCURRENT_QUESTIONS: usize = 16;

/// Starts the actors that send this process's heartbeats, receive those of others if the role may, and answer [`inspect`](mod@crate::inspect).
///
/// # Errors
/// When an actor cannot be started.
pub fn attend<'a>(system: &'a System, bus: &'a Bus) -> BoxFuture<'a, Result<(), JoinError>> {
    Box::pin(begin(system, bus))
}

async fn begin(system: &System, bus: &Bus) -> Result<(), JoinError> {
    let (roster, began) = (Arc::<Mutex<Roster>>::default(), clock::now());
    let (voice, table) = (bus.clone(), roster.clone());
    let key = bus.identity().to_string();
    system.spawn_loop(&PRESENCE, key, move |ctx| exchange_heartbeats(ctx, voice.clone(), table.clone())).await?;

    let own = bus.clone();
    let inspect = move |_: wire::InspectQuestion, _| std::future::ready(Ok::<_, Decline>(carried(&own, began)));
    let (actors_of, of) = (system.clone(), bus.identity().clone());
    let actors = move |question: wire::ActorsQuestion, asked: RequestInfo| {
        let (system, of) = (actors_of.clone(), of.clone());
        async move { member_actors::page(&system, &of, question, asked.deadline).await }
    };
    let spans =
        |question: wire::SpansQuestion, _| std::future::ready(member_spans::page(traces::ring().as_ref(), &question));
    Service::new(Pattern::member(bus.identity()), CONCURRENT_QUESTIONS)
        .method(HERE, |_: wire::Here, _| std::future::ready(Ok::<_, Decline>(wire::Here {})))
        .method(INSPECT, inspect)
        .method(ACTORS, actors)
        .method(SPANS, spans)
        .start(system, bus.clone())
        .await?;

    let role = bus.identity().role();
    let service = Pattern::service(role, MEMBERS)?;
    if Kind::Service.row().may_subscribe(bus.identity(), service.as_str()) {
        let own = bus.identity().clone();
        let members = move |_: wire::MembersQuestion, _| {
            let mut roster = roster.lock();
            roster.record_heartbeat(own.clone(), clock::now());
            std::future::ready(Ok::<_, Decline>(heard(&mut roster)))
        };
        Service::new(service, CONCURRENT_QUESTIONS).method(MEMBERS, members).start(system, bus.clone()).await?;
    }
    Ok(())
}

/// Asks a member to confirm that it is present.
///
/// # Errors
/// [`AskError::NobodyThere`] when the member is absent; after any other error the member may be present.
pub async fn is_here(bus: &Bus, member: &Identity, budget: Duration) -> Result<(), AskError> {
    let subject = Subject::member(member, HERE).map_err(|error| AskError::Denied(error.to_string()))?;
    bus.ask::<_, wire::Here>(&subject, &wire::Here {}, budget).await.map(drop)
}

/// Sends a heartbeat over each new connection at once and then periodically; receives the heartbeats of others if the role may.
async fn exchange_heartbeats(ctx: LoopCtx, bus: Bus, roster: Arc<Mutex<Roster>>) -> Result<(), Failure> {
    let (own, role) = (Subject::presence(bus.identity()), bus.identity().role());
    let mut hints = match role {
        Role::Node => None,
        _ => Some(bus.listen(&Pattern::presence(), MAX_WAITING_HEARTBEATS).await?),
    };
    let mut generation = 0;
    let mut due = clock::now();
    loop {
        if clock::now() >= due {
            if let Err(error) = bus.hint(&own, &wire::Here {}) {
                tracing::debug!(actor = ctx.name(), %error, "not said that it lives");
            }
            due = clock::now() + rng::jitter(period(role), 10);
        }
        let turn = async {
            tokio::select! {
                biased;
                state = bus.wait_for(|state| state.connected && state.generation != generation) => {
                    generation = state.generation;
                    due = clock::now();
                }
                heard = next(hints.as_mut()) => {
                    if let HintEvent::Hint(hint) = heard && let Some(member) = hint.subject().sender() {
                        roster.lock().record_heartbeat(member, clock::now());
                    }
                }
                () = clock::sleep_until(due) => {}
            }
        };
        if ctx.or_stop(turn).await.is_none() {
            return Ok(());
        }
    }
}

async fn next(hints: Option<&mut Hints>) -> HintEvent {
    match hints {
        Some(hints) => hints.next().await,
        None => std::future::pending().await,
    }
}

fn heard(roster: &mut Roster) -> wire::MembersAnswer {
    let row = |(who, ago): (oarlock_bus::Identity, std::time::Duration)| {
        let member = Sender { role: who.role().as_str().to_owned(), name: who.name().to_owned() };
        wire::Heard { member: Some(member), ago_ms: millis(ago) }
    };
    wire::MembersAnswer { members: roster.list(clock::now()).into_iter().map(row).collect() }
}

fn carried(bus: &Bus, began: Instant) -> wire::InspectAnswer {
    let state = bus.state();
    wire::InspectAnswer {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        age_ms: millis(began.elapsed()),
        generation: state.generation,
        connected_ms: millis(Instant::from(state.since).elapsed()),
        kinds: bus.stats(),
    }
}

fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
