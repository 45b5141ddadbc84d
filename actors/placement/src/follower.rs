//! The follower: keeps the process's placement equal to the Assignments.

use std::collections::BTreeMap;
use std::sync::Arc;

use oarlock_informer::Notice;
use oarlock_mesh::Holder;
use oarlock_runtime::{ActorKind, Failure, LoopCtx, Phase};

use crate::crew::{Crew, stopped};
use crate::metrics;

/// The actor kind of followers of the Assignments.
pub(crate) static FOLLOWER: ActorKind =
    ActorKind { name: "placement.follower", phase: Phase::Informers, ..ActorKind::DEFAULT };

/// The most changed keys that wait for a subscriber.
const MAX_PENDING_CHANGES: usize = 1024;

/// Keeps the process's placement equal to the Assignments.
pub(crate) async fn run(ctx: LoopCtx, crew: Arc<Crew>, holder: Holder) -> Result<(), Failure> {
    if !crew.is_served(&ctx).await {
        if !ctx.is_stopping() {
            tracing::warn!(role = crew.role, "the API server knows no Assignments: run only one process of this role");
            holder.set_everything();
        }
        return stopped(&ctx).await;
    }
    let (_, assignments) = crew.caches().await?;
    let mut changes = assignments.subscribe(MAX_PENDING_CHANGES);
    if !crew.synced(&ctx).await {
        return Ok(());
    }
    loop {
        let of_role = |name: &str| crew.units.iter().find(|unit| unit.as_str() == name).cloned();
        let (mut held, mut held_by_any) = (BTreeMap::new(), BTreeMap::new());
        for assignment in assignments.list() {
            let Some(unit) = of_role(assignment.meta.name()) else { continue };
            if assignment.value.holder == crew.me {
                held.insert(unit.clone(), assignment.meta.revision);
            }
            held_by_any.insert(unit, assignment.meta.revision);
        }
        ctx.publish(&held.iter().map(|(unit, epoch)| (unit.as_str(), epoch.get())).collect::<BTreeMap<_, _>>());
        metrics::held(crew.role, &crew.units, &held);
        holder.set_among(held, held_by_any);
        match ctx.or_stop(changes.next()).await {
            None => return Ok(()),
            Some(Notice::Resync | Notice::Changes(_)) => {}
        }
    }
}
