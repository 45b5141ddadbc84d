//! The membership of this process: a Lease that is renewed, labelled when the process is shutting down, and then deleted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oarlock_client::{DeleteOptions, PatchType, WriteOptions, decode};
use oarlock_mesh::Holder;
use oarlock_meta::{MicroTime, Revision, Status};
use oarlock_runtime::kind::OnShutdown;
use oarlock_runtime::{ActorKind, Failure, LoopCtx, Phase, clock, rng};
use serde_json::{Value, json};

use crate::crew::{Crew, stopped};
use crate::view::{BUS, LEAVING, NAMESPACE, ROLE};

/// The actor kind of members. A member gives up its units while its controllers still run, so that units move from a holder that still works.
pub(crate) static MEMBER: ActorKind = ActorKind {
    name: "placement.member",
    on_shutdown: OnShutdown::Finish,
    phase: Phase::Announce,
    ..ActorKind::DEFAULT
};

/// The duration of a Lease (upstream's leader election: 15 s).
pub(crate) const LEASE_DURATION: Duration = Duration::from_secs(15);
/// The time between two renewals.
const RENEW_INTERVAL: Duration = Duration::from_secs(4);
/// The pause after a failed renewal, and the deadline of the Lease's deletion.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The longest wait of a member that is shutting down for others to take over its units.
const HAND_OVER_WAIT: Duration = Duration::from_secs(3);

/// Renews the Lease until the actor is stopped, then hands over the units and deletes the Lease.
///
/// # Errors
/// When the informers cannot be started; the actor is then restarted.
pub(crate) async fn run(ctx: LoopCtx, crew: Arc<Crew>, standing: Holder) -> Result<(), Failure> {
    if !crew.is_served(&ctx).await {
        return stopped(&ctx).await;
    }
    loop {
        // Taken before the request: the other members see the renewal later than this.
        let asked = clock::now();
        let renewed = ctx.protected(renew(&crew)).await;
        ctx.heartbeat();
        let pause = match renewed {
            Ok(revision) => {
                standing.renewed(asked, LEASE_DURATION, revision);
                ctx.protected(reclaim(&crew, &standing)).await?;
                rng::jitter(RENEW_INTERVAL, 10)
            }
            Err(status) => {
                tracing::warn!(member = crew.me.as_str(), %status, "lease not renewed");
                RETRY_PAUSE
            }
        };
        if !ctx.sleep(pause).await {
            // Calls outside of the API must end before another member is asked to take over.
            ctx.protected(standing.close_external_calls()).await;
            return ctx.protected(leave(&crew)).await;
        }
    }
}

fn spec(crew: &Crew) -> Value {
    let now = MicroTime::from_unix_micros(clock::wall().as_microsecond()).to_string();
    json!({"holderIdentity": crew.me.as_str(), "leaseDurationSeconds": LEASE_DURATION.as_secs(), "renewTime": now})
}

/// Rewrites the Assignments of units with outside effects that are older than the Lease's last gap. The write succeeds only if no other member has taken
/// the unit since, and a coordinator's write that began earlier then fails with a conflict.
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

/// Renews the Lease, or creates it; returns the revision.
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

/// Labels the Lease as leaving, waits until other members (if any) have taken all units, and deletes the Lease.
async fn leave(crew: &Crew) -> Result<(), Failure> {
    let (leases, assignments) = crew.caches().await?;
    let deadline = clock::after(HAND_OVER_WAIT);
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
    if let Ok(Err(status)) = clock::timeout(RETRY_PAUSE, gone).await {
        tracing::warn!(member = crew.me.as_str(), %status, "its lease stays until it runs out");
    }
    Ok(())
}
