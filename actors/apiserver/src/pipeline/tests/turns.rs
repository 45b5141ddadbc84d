//! How long requests wait for the turn of a quota: not at all while they occupy what requests of other users wait for.

use std::time::Duration;

use async_trait::async_trait;
use oarlock_admission::plugins::resource_quota;
use oarlock_admission::{AdmissionStage, Attributes, Operation};
use oarlock_client::{Call, WriteOptions};
use oarlock_meta::Status;
use oarlock_registry::index;
use oarlock_runtime::clock;
use oarlock_schema::resource;

use super::services::{service, services};
use super::world::{World, caller, target};
use crate::call::Dispatch;
use crate::caller::Caller;

const PORTS: &str = r#"{"ports":[{"port":80}]}"#;
const NODE_PORTS: &str = r#"{"type":"NodePort","ports":[{"port":80}]}"#;
const QUOTA: &str = r#"{"metadata":{"name":"q","namespace":"n"},"spec":{"hard":{"services":"9"}},
    "status":{"hard":{"services":"9"},"used":{"services":"0"}}}"#;

/// A stage after the quota that never ends for the object `stuck`.
struct HoldsUp;

#[async_trait]
impl AdmissionStage for HoldsUp {
    fn name(&self) -> &'static str {
        "HoldsUp"
    }

    fn handles(&self, _: Operation) -> bool {
        true
    }

    async fn validate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if attributes.object.as_deref().is_some_and(|object| object.name() == "stuck") {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

/// Creates a Service and returns the time that it took.
async fn create(world: &World, caller: Caller, name: &str, spec: &str, dry_run: bool) -> Duration {
    let (target, began) = (target(services(), "", ""), clock::now());
    let call = Call::Create(service(name, spec), WriteOptions { dry_run, ..WriteOptions::default() });
    Dispatch::new(&world.server, &caller).execute(&target, call).await.unwrap();
    began.elapsed()
}

/// Creates a server with a quota of Services, and calls `then` while a request holds the quota's turn.
async fn with_held_turn(stuck: &str, then: impl AsyncFnOnce(&World)) {
    let world = World::of(|reader| vec![resource_quota::make(reader), Box::new(HoldsUp)]).await;
    let quotas = resource("", "v1", "resourcequotas").unwrap();
    world.store(index::decode(QUOTA.as_bytes(), quotas.ty).unwrap(), quotas).await;
    let mut holder = std::pin::pin!(create(&world, caller(), "stuck", stuck, false));
    assert!(clock::timeout(Duration::from_millis(1), holder.as_mut()).await.is_err(), "it holds the turn");
    then(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_in_a_lane_waits_briefly_for_a_turn() {
    with_held_turn(PORTS, async |world| {
        let small = create(world, caller(), "small", PORTS, false).await;
        assert!(small >= Duration::from_secs(5), "{small:?}");
        let large = caller();
        large.enter_lane();
        let large = create(world, large, "large", PORTS, false).await;
        assert!(large < Duration::from_secs(1), "{large:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn who_holds_the_turn_of_all_node_ports_does_not_wait_for_that_of_a_quota() {
    with_held_turn(PORTS, async |world| {
        let holder = create(world, caller(), "port", NODE_PORTS, false).await;
        assert!(holder < Duration::from_secs(1), "{holder:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_takes_no_turn_at_the_node_ports() {
    with_held_turn(NODE_PORTS, async |world| {
        let dry = create(world, caller(), "port", NODE_PORTS, true).await;
        assert!(dry < Duration::from_secs(1), "{dry:?}");
    })
    .await;
}
