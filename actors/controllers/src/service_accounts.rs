//! Creates the controllers' own ServiceAccounts at the start, and again when one was deleted (upstream creates them when it requests their
//! tokens, `--use-service-account-credentials`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use oarlock_client::Client;
use oarlock_informer::ResourceName;
use oarlock_meta::Status;
use oarlock_runtime::kind::{ActorKind, Backoff, OnShutdown, Phase};
use oarlock_runtime::{LoopCtx, System, rng};
use oarlock_schema::{Obj, Resource};

use crate::error::Error;
use crate::harness::must;

/// The namespace of the controllers' ServiceAccounts.
pub(crate) const NAMESPACE: &str = "kube-system";

/// The actor kind of the actor that creates the accounts.
static ACCOUNTS: ActorKind = ActorKind {
    name: "controllers.accounts",
    on_shutdown: OnShutdown::Finish,
    phase: Phase::Crew,
    ..ActorKind::DEFAULT
};

/// The pauses after failures.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(20), max: Duration::from_secs(30) };

pub(crate) async fn start(system: &System, client: Client, names: BTreeSet<&'static str>) -> Result<(), Error> {
    let accounts = must(ResourceName::core("serviceaccounts"))?;
    let names = Arc::new(names);
    let run = move |ctx: LoopCtx| {
        let (client, names) = (client.clone(), names.clone());
        async move {
            let mut failures = 0_u32;
            for name in names.iter() {
                loop {
                    let Some(made) = ctx.or_stop(make(&client, accounts, name)).await else { return Ok(()) };
                    let Err(status) = made else { break };
                    failures = failures.saturating_add(1);
                    tracing::debug!(account = name, %status, "service account not made yet");
                    if !ctx.sleep(rng::jitter(BACKOFF.pause(failures), 20)).await {
                        return Ok(());
                    }
                }
            }
            Ok(())
        }
    };
    let spawned = system.spawn_loop(&ACCOUNTS, "kube-system", run).await;
    spawned.map(drop).map_err(|source| Error::Spawn { name: "accounts", source })
}

async fn make(client: &Client, accounts: &'static Resource, name: &str) -> Result<(), Status> {
    let mut account = Obj::new(accounts.ty);
    account.set_at(&["metadata", "namespace"], NAMESPACE);
    account.set_at(&["metadata", "name"], name);
    match client.create(accounts, account).await {
        Ok(_) => Ok(()),
        Err(status) if status.is_already_exists() => Ok(()),
        Err(status) => Err(status),
    }
}
