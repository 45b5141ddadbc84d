//! This process as a member: a Lease that is renewed as long as it lives, marked when it leaves, and gone when it has left.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oarlock_client::{DeleteOptions, PatchType, WriteOptions, decode};
use oarlock_mesh::Holder;
use oarlock_meta::{MicroTime, Revision, Status};
use oarlock_runtime::kind::OnShutdown;
use oarlock_runtime::{ActorKind, Failure, LoopCtx, Phase, clock, rng};
use serde_json::{Value, json};

use crate::start::{Crew, stopped};
use crate::view::{BUS, LEAVING, NAMESPACE, ROLE};

/// The row of members. They leave while their crew still works, so that somebody else takes over from a hand that is still there.
pub(crate) static MEMBER: ActorKind = ActorKind {
    name: "placement.member",
    on_shutdown: OnShutdown::Finish,
    phase: Phase::Announce,
    ..ActorKind::DEFAULT
};

/// For how long a Lease stands (upstream's leader election: 15 s).
pub(crate) const LASTS: Duration = Duration::from_secs(15);
/// It is renewed so often.
const RENEW: Duration = Duration::from_secs(4);
/// After a failure.
const RETRY: Duration = Duration::from_secs(1);
/// A member that leaves waits so long for others to take over what it holds.
const HAND_OVER: Duration = Duration::from_secs(3);

/// Renews until it is stopped, then leaves.
///
/// # Errors
/// When the caches cannot be had; the actor is then restarted.
pub(crate) async fn run(ctx: LoopCtx, crew: Arc<Crew>, standing: Holder) -> Result<(), Failure> {
    if !crew.is_served(&ctx).await {
        return stopped(&ctx).await;
    }
    loop {
        // From before it is asked for: the others see the renewal later than that.
        let asked = clock::now();
        let renewed = ctx.protected(renew(&crew)).await;
        ctx.heartbeat();
        let pause = match renewed {
            Ok(revision) => {
                standing.renewed(asked, LASTS, revision);
                ctx.protected(reclaim(&crew, &standing)).await?;
                rng::jitter(RENEW, 10)
            }
            Err(status) => {
                tracing::warn!(member = crew.me.as_str(), %status, "lease not renewed");
                RETRY
            }
        };
        if !ctx.sleep(pause).await {
            // What is done outside is over before anybody is told to take over.
            ctx.protected(standing.cease()).await;
            return ctx.protected(leave(&crew)).await;
        }
    }
}

fn spec(crew: &Crew) -> Value {
    let now = MicroTime::from_unix_micros(clock::wall().as_microsecond()).to_string();
    json!({"holderIdentity": crew.me.as_str(), "leaseDurationSeconds": LASTS.as_secs(), "renewTime": now})
}

/// Writes the Assignments again that reach outside and are older than this Lease without a gap: whoever wanted to take them over meanwhile has, or cannot any more.
async fn reclaim(crew: &Crew, standing: &Holder) -> Result<(), Failure> {
    let (_, assignments) = crew.caches().await?;
    for unit in &crew.outside {
        let held = assignments.named("", unit.as_str()).filter(|held| held.value.holder == crew.me);
        let Some(epoch) = held.map(|held| held.meta.revision).filter(|epoch| standing.is_void(*epoch)) else {
            continue;
        };
        match crew.assign(unit.as_str(), &crew.me, Some(epoch)).await {
            Ok(epoch) => tracing::info!(%unit, epoch = epoch.get(), "claims the unit again"),
            Err(status) => tracing::info!(%unit, %status, "does not claim the unit again"),
        }
    }
    Ok(())
}

/// The revision at which the Lease was renewed.
async fn renew(crew: &Crew) -> Result<Revision, Status> {
    match patch(crew, &json!({"spec": spec(crew)})).await {
        Err(status) if status.is_not_found() => {}
        other => return other,
    }
    let mut labels = BTreeMap::from([(ROLE, crew.role)]);
    if crew.speaks {
        labels.insert(BUS, "true");
    }
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": crew.me.as_str(), "namespace": NAMESPACE, "labels": labels},
        "spec": spec(crew),
    });
    let lease = decode(crew.leases.ty, lease.to_string().as_bytes())?;
    Ok(crew.client.create(crew.leases, lease).await?.revision)
}

async fn patch(crew: &Crew, body: &Value) -> Result<Revision, Status> {
    let body = (PatchType::Merge, body.to_string());
    let patched = crew.client.patch(crew.leases, "", (NAMESPACE, &crew.me), body, WriteOptions::default()).await?;
    Ok(patched.revision)
}

/// Says that it ends, waits until nothing is its own any more if there is somebody to take it, and takes its Lease away.
async fn leave(crew: &Crew) -> Result<(), Failure> {
    let (leases, assignments) = crew.caches().await?;
    let deadline = clock::after(HAND_OVER);
    let said = json!({"metadata": {"labels": {LEAVING: "true"}}});
    let said = clock::timeout_at(deadline, patch(crew, &said)).await;
    let alone = leases.list().iter().all(|lease| lease.meta.name() == crew.me.as_str());
    let mut progress = assignments.watch_progress();
    if matches!(said, Ok(Ok(_))) && !alone {
        let mine = || assignments.list().iter().filter(|unit| unit.value.holder == crew.me).count();
        while mine() > 0 && clock::timeout_at(deadline, progress.changed()).await.is_ok() {}
        if mine() > 0 {
            tracing::warn!(member = crew.me.as_str(), units = mine(), "leaves before others have taken over");
        }
    }
    let gone = crew.client.delete(crew.leases, NAMESPACE, &crew.me, DeleteOptions::default());
    if let Ok(Err(status)) = clock::timeout(RETRY, gone).await {
        tracing::warn!(member = crew.me.as_str(), %status, "its lease stays until it runs out");
    }
    Ok(())
}
