//! Keeps the authorizers in step with the store: one follower per resource that they decide by.

use std::collections::HashMap;

use oarlock_meta::Revision;
use oarlock_runtime::{ActorKind, Failure, LoopCtx, Phase, System, clock};
use oarlock_schema::{Obj, Resource, resource};
use oarlock_storage::Key;
use oarlock_store::{EventKind, Interest};

use crate::server::Server;

/// The row of a follower.
pub(crate) static POLICY: ActorKind =
    ActorKind { name: "apiserver.policy", phase: Phase::Pipeline, ..ActorKind::DEFAULT };

/// (group, plural) of what authorization is decided by.
const FOLLOWED: &[(&str, &str)] = &[
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "roles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("", "pods"),
    ("", "persistentvolumes"),
    ("storage.k8s.io", "volumeattachments"),
    ("resource.k8s.io", "resourceslices"),
];

const BATCH: usize = 1024;
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_secs(5);

/// Loads everything once, then follows.
///
/// # Errors
/// When a follower cannot be spawned.
pub(crate) async fn start(system: &System, server: &Server) -> Result<(), oarlock_runtime::Error> {
    for row in FOLLOWED.iter().filter_map(|(group, plural)| resource(group, "v1", plural)) {
        let server = server.clone();
        load(&server, row);
        system.spawn_loop(&POLICY, row.plural, move |ctx| follow(ctx, server.clone(), row)).await?;
    }
    Ok(())
}

/// What was seen, so that a reload knows what is gone.
type Seen = HashMap<Key, Obj>;

fn load(server: &Server, row: &Resource) -> (Seen, Revision) {
    let Some(prefix) = oarlock_registry::key::prefix(row) else { return (Seen::new(), Revision::ZERO) };
    let snapshot = server.view().list(&prefix);
    let decode = |entry: &std::sync::Arc<oarlock_store::Entry>| {
        Some((entry.key.clone(), oarlock_registry::reader::decode(row, entry)?))
    };
    let seen: Seen = snapshot.iter().filter_map(decode).collect();
    server.authorizers().observe(seen.values());
    (seen, snapshot.revision())
}

async fn follow(ctx: LoopCtx, server: Server, row: &'static Resource) -> Result<(), Failure> {
    let Some(prefix) = oarlock_registry::key::prefix(row) else { return Ok(()) };
    let (mut seen, mut after) = load(&server, row);
    // Pods are many and the graph forgets them by name: only their keys matter, which the events carry.
    loop {
        let Ok(mut cursor) = server.view().watch(&prefix, after, Interest::All, None) else {
            let (fresh, revision) = load(&server, row);
            seen.iter()
                .filter(|(key, _)| !fresh.contains_key(*key))
                .for_each(|(_, obj)| server.authorizers().forget(obj));
            (seen, after) = (fresh, revision);
            continue;
        };
        loop {
            ctx.heartbeat();
            let Some(batch) = ctx.or_stop(cursor.next_batch(BATCH, clock::after(LOOK_EVERY))).await else {
                return Ok(());
            };
            let Ok(batch) = batch else { break };
            after = batch.progress;
            for event in batch.events {
                let Some(obj) = oarlock_registry::reader::decode(row, &event.entry) else { continue };
                if event.kind == EventKind::Deleted {
                    server.authorizers().forget(&obj);
                    seen.remove(&event.entry.key);
                } else {
                    server.authorizers().observe([&obj]);
                    seen.insert(event.entry.key.clone(), obj);
                }
            }
        }
    }
}
