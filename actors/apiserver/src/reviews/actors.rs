//! The resource `actors`: the actors in all processes of the crew, as each process reports them at this moment. Nothing is stored.

use std::time::Duration;

use oarlock_client::{List, ListOptions, Object, Reply};
use oarlock_mesh::member_actors;
use oarlock_meta::{Revision, Status};
use oarlock_runtime::{ActorStatus, Life, clock};
use oarlock_schema::views::oarlock_v1::ActorMut;
use oarlock_schema::{Obj, canonical};

use crate::server::Server;
use crate::target::Target;

/// How long a process may take to report its actors.
const REPORT_TIMEOUT: Duration = Duration::from_millis(500);

/// Lists the selected actors by name.
///
/// # Errors
/// None today: a process that does not report becomes an item of the list.
pub(super) async fn list(server: &Server, target: &Target<'_>, options: &ListOptions) -> Result<Reply, Status> {
    const LABELS: [(&str, &str); 0] = [];
    let mut actors = all(server, target).await;
    actors.retain(|actor| {
        let fields = [("metadata.name", actor.meta().name())];
        options.label_selector.matches(&LABELS) && options.field_selector.matches(&fields)
    });
    let items = actors.iter().map(shown).collect();
    Ok(Reply::List(List { revision: server.view().applied(), items, ..List::default() }))
}

/// Returns one actor.
///
/// # Errors
/// 404 for an unknown name.
pub(super) async fn get(server: &Server, target: &Target<'_>) -> Result<Reply, Status> {
    let actors = all(server, target).await;
    let found = actors.iter().find(|actor| actor.meta().name() == target.name);
    let found = found.ok_or_else(|| Status::not_found(&target.resource().group_resource(), target.name))?;
    Ok(Reply::Object { object: shown(found), created: false })
}

/// Returns the actors of this process and, if there is a bus, of every process on it. A process that does not report becomes one item that says so.
async fn all(server: &Server, target: &Target<'_>) -> Vec<Obj> {
    let here = server.system().observe(clock::after(REPORT_TIMEOUT)).await;
    let bus = server.state().bus();
    let process = bus.as_ref().map_or(server.config().identity.as_str(), |bus| bus.identity().name());
    let mut actors: Vec<Obj> = here.iter().map(|status| actor(target, process, status)).collect();
    if let Some(bus) = &bus {
        match member_actors::list(bus, REPORT_TIMEOUT).await {
            Ok(present) => present.iter().for_each(|present| match &present.actors {
                Ok(statuses) => actors.extend(statuses.iter().map(|it| actor(target, present.member.name(), it))),
                Err(error) => {
                    let why = format!("{error}; heard {} ms ago", present.heard.as_millis());
                    actors.push(unknown(target, present.member.name(), &why));
                }
            }),
            Err(error) => actors.push(unknown(target, "bus", &error.to_string())),
        }
    }
    actors.sort_by(|a, b| a.meta().name().cmp(b.meta().name()));
    actors
}

/// Builds the item for a process that does not report its actors.
fn unknown(target: &Target<'_>, process: &str, why: &str) -> Obj {
    let mut obj = Obj::new(target.resource().ty);
    let mut actor = ActorMut::new(&mut obj);
    actor.metadata_mut().set_name(process);
    let mut shown = actor.status_mut();
    shown.set_process(process);
    shown.set_life("Unknown");
    shown.set_last_error(why);
    canonical::canonicalize(&mut obj);
    obj
}

fn actor(target: &Target<'_>, process: &str, status: &ActorStatus) -> Obj {
    let mut obj = Obj::new(target.resource().ty);
    let mut actor = ActorMut::new(&mut obj);
    // A slash would end the name in a URL path.
    let name = format!("{}.{}.{process}", status.kind, status.key).replace('/', ":");
    actor.metadata_mut().set_name(name);
    let mut shown = actor.status_mut();
    shown.set_process(process);
    shown.set_actor_kind(status.kind.as_str());
    shown.set_key(status.key.as_str());
    shown.set_phase(status.phase.name());
    shown.set_life(life(status.life));
    shown.set_incarnation(number(status.incarnation));
    shown.set_restarts(number(status.restarts));
    shown.set_handled(i64::try_from(status.handled).unwrap_or(i64::MAX));
    shown.set_waiting(number(status.queue_depth));
    shown.set_most_waiting(number(status.queue_peak));
    shown.set_mailbox(number(status.mailbox));
    if let Some(oldest) = status.oldest_message_ms {
        shown.set_oldest_milliseconds(i64::try_from(oldest).unwrap_or(i64::MAX));
    }
    shown.set_last_error(status.last_error.as_deref().unwrap_or_default());
    if !status.state.is_null() {
        shown.set_state(status.state.to_string());
    }
    canonical::canonicalize(&mut obj);
    obj
}

fn shown(obj: &Obj) -> Object {
    Object::new(obj.ty(), oarlock_codec::json::encode(obj).bytes.into(), Revision::ZERO)
}

fn life(life: Life) -> &'static str {
    match life {
        Life::Starting => "Starting",
        Life::Running => "Running",
        Life::BackingOff => "BackingOff",
        Life::Stopping => "Stopping",
        Life::Ended => "Ended",
    }
}

fn number<N: TryInto<i64>>(number: N) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}
