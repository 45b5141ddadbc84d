//! Feeds the authorizers with the stored objects that authorization depends on: one actor per resource.

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

/// The actor that follows one resource.
pub(crate) static AUTHORIZER_FEED: ActorKind =
    ActorKind { name: "apiserver.policy", phase: Phase::Pipeline, ..ActorKind::DEFAULT };

/// Group and plural of the resources that authorization depends on.
const FOLLOWED_RESOURCES: &[(&str, &str)] = &[
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "roles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("", "pods"),
    ("", "persistentvolumes"),
    ("storage.k8s.io", "volumeattachments"),
    ("resource.k8s.io", "resourceslices"),
];

const MAX_BATCH: usize = 1024;
const BATCH_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// Loads all followed resources into the authorizers, then starts the actors that follow them.
///
/// # Errors
/// When a load fails or an actor cannot be spawned.
pub(crate) async fn start(system: &System, server: &Server) -> Result<(), StartError> {
    for row in FOLLOWED_RESOURCES.iter().filter_map(|(group, plural)| resource(group, "v1", plural)) {
        let server = server.clone();
        load(&server, row).await?;
        system.spawn_loop(&AUTHORIZER_FEED, row.plural, move |ctx| follow(ctx, server.clone(), row)).await?;
    }
    Ok(())
}

/// Uids of the objects that the authorizers know, by which a reload finds the deleted ones.
type KnownUids = HashMap<Key, CompactString>;

async fn load(server: &Server, row: &Resource) -> Result<(KnownUids, Revision), ReadError> {
    let Some(prefix) = oarlock_registry::key::prefix(row) else { return Ok((KnownUids::default(), Revision::ZERO)) };
    let snapshot = server.view().list(prefix);
    let mut known = KnownUids::default();
    let entries: Vec<Arc<Entry>> = snapshot.iter().cloned().collect();
    for chunk in entries.chunks(MAX_BATCH) {
        // An object that was replaced meanwhile arrives again as an event.
        let ready = server.view().ready(chunk.to_vec()).await?;
        let objects: Vec<Obj> = ready.iter().flatten().filter_map(|entry| note(&mut known, row, entry)).collect();
        server.authorizers().observe(&objects);
    }
    Ok((known, snapshot.revision()))
}

/// Records and decodes a created or changed object; `None` when the change cannot affect authorization.
fn note(known: &mut KnownUids, row: &Resource, entry: &Arc<Entry>) -> Option<Obj> {
    if row.plural == "pods" {
        // A pod matters to its node only, and the node never changes. The objects that a pod refers to change with these two fields alone (upstream's
        // `updatePod`).
        if entry.fields.get("spec.nodeName").is_none_or(str::is_empty) {
            return None;
        }
        let same = known.get(&entry.key).is_some_and(|uid| *uid == entry.uid);
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
    known.insert(entry.key.clone(), entry.uid.clone());
    Some(obj)
}

async fn follow(ctx: LoopCtx, server: Server, row: &'static Resource) -> Result<(), Failure> {
    let Some(prefix) = oarlock_registry::key::prefix(row) else { return Ok(()) };
    let forget = |key: &Key| server.authorizers().forget(row, key.namespace(), key.name());
    let (mut known, mut after) = load(&server, row).await?;
    loop {
        let Ok(mut cursor) = server.view().watch(prefix, after, Interest::All, None) else {
            let (fresh, revision) = load(&server, row).await?;
            known.keys().filter(|key| !fresh.contains_key(*key)).for_each(forget);
            (known, after) = (fresh, revision);
            continue;
        };
        loop {
            ctx.heartbeat();
            let Some(batch) = ctx.or_stop(cursor.next_batch(MAX_BATCH, clock::after(BATCH_TIMEOUT))).await else {
                return Ok(());
            };
            let Ok(batch) = batch else { break };
            after = batch.progress;
            for event in batch.events {
                if event.kind == EventKind::Deleted {
                    if known.remove(&event.entry.key).is_some() {
                        forget(&event.entry.key);
                    }
                } else if let Some(obj) = note(&mut known, row, &event.entry) {
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
        let mut known = KnownUids::default();
        let mut read = |uid: &str, spec: &str| note(&mut known, row, &entry(row, &pod(uid, spec))).is_some();
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
