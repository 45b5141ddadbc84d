//! Keeps the authorizers in step with the store: one follower per resource that they decide by.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use compact_str::CompactString;
use memchr::memmem::find;
use oarlock_meta::Revision;
use oarlock_runtime::{ActorKind, Failure, LoopCtx, Phase, System, clock};
use oarlock_schema::{Obj, Resource, resource};
use oarlock_storage::Key;
use oarlock_store::{Entry, EventKind, Interest, ReadError};

use crate::server::Server;
use crate::start::error::StartError;

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
pub(crate) async fn start(system: &System, server: &Server) -> Result<(), StartError> {
    for row in FOLLOWED.iter().filter_map(|(group, plural)| resource(group, "v1", plural)) {
        let server = server.clone();
        load(&server, row).await?;
        system.spawn_loop(&POLICY, row.plural, move |ctx| follow(ctx, server.clone(), row)).await?;
    }
    Ok(())
}

/// Uids of what was seen, so that a reload knows what is gone.
type Seen = HashMap<Key, CompactString>;

async fn load(server: &Server, row: &Resource) -> Result<(Seen, Revision), ReadError> {
    let Some(prefix) = oarlock_registry::key::prefix(row) else { return Ok((Seen::default(), Revision::ZERO)) };
    let snapshot = server.view().list(prefix);
    let mut seen = Seen::default();
    let entries: Vec<Arc<Entry>> = snapshot.iter().cloned().collect();
    for some in entries.chunks(BATCH) {
        // What was replaced meanwhile comes again as an event.
        let ready = server.view().ready(some.to_vec()).await?;
        let objects: Vec<Obj> = ready.iter().flatten().filter_map(|entry| note(&mut seen, row, entry)).collect();
        server.authorizers().observe(&objects);
    }
    Ok((seen, snapshot.revision()))
}

/// Notes an object that was created or changed and decodes it, if what authorization is decided by can have changed.
fn note(seen: &mut Seen, row: &Resource, entry: &Arc<Entry>) -> Option<Obj> {
    if row.plural == "pods" {
        // A pod concerns its node only, and for good. What it refers to changes with these fields alone (upstream's `updatePod`).
        if entry.fields.get("spec.nodeName").is_none_or(str::is_empty) {
            return None;
        }
        let same = seen.get(&entry.key).is_some_and(|uid| *uid == entry.uid);
        let may_refer = |body: &Bytes| {
            ["\"ephemeralContainers\"", "\"resourceClaimStatuses\""]
                .iter()
                .any(|field| find(body, field.as_bytes()).is_some())
        };
        if same && entry.bytes().is_some_and(|body| !may_refer(body)) {
            return None;
        }
    }
    let obj = oarlock_registry::reader::decode(row, entry)?;
    seen.insert(entry.key.clone(), entry.uid.clone());
    Some(obj)
}

async fn follow(ctx: LoopCtx, server: Server, row: &'static Resource) -> Result<(), Failure> {
    let Some(prefix) = oarlock_registry::key::prefix(row) else { return Ok(()) };
    let forget = |key: &Key| server.authorizers().forget(row, key.namespace(), key.name());
    let (mut seen, mut after) = load(&server, row).await?;
    loop {
        let Ok(mut cursor) = server.view().watch(prefix, after, Interest::All, None) else {
            let (fresh, revision) = load(&server, row).await?;
            seen.keys().filter(|key| !fresh.contains_key(*key)).for_each(forget);
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
                if event.kind == EventKind::Deleted {
                    if seen.remove(&event.entry.key).is_some() {
                        forget(&event.entry.key);
                    }
                } else if let Some(obj) = note(&mut seen, row, &event.entry) {
                    server.authorizers().observe([&obj]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use oarlock_schema::resource;
    use oarlock_storage::Key;

    use super::*;

    fn entry(row: &Resource, json: &str) -> Arc<Entry> {
        let obj = oarlock_codec::json::decode(json.as_bytes(), row.ty, oarlock_codec::Mode::Strict).unwrap().value;
        let key = Key::namespaced("/registry/pods/", "default", "web");
        let encoded = oarlock_registry::stored::encode(&key, &mut obj.clone());
        Arc::new(Entry::new(key, &encoded.value, Revision(7), encoded.parts))
    }

    fn pod(uid: &str, spec: &str) -> String {
        format!(r#"{{"metadata":{{"name":"web","namespace":"default","uid":"{uid}"}},"spec":{{{spec}}}}}"#)
    }

    #[test]
    fn a_pod_is_read_when_it_gets_its_node_and_when_it_may_refer_to_more() {
        let row = resource("", "v1", "pods").unwrap();
        let mut seen = Seen::default();
        let mut read = |uid: &str, spec: &str| note(&mut seen, row, &entry(row, &pod(uid, spec))).is_some();
        let containers = r#""containers":[{"name":"c","image":"i"}]"#;
        let bound = format!(r#""nodeName":"n",{containers}"#);
        assert!(!read("1", containers), "unbound");
        assert!(read("1", &bound), "bound");
        assert!(!read("1", &bound), "its status changes");
        let debugged = format!(r#"{bound},"ephemeralContainers":[{{"name":"d","image":"i"}}]"#);
        assert!(read("1", &debugged), "a container was added");
        assert!(read("2", &bound), "another pod of the name");
    }
}
