//! The servers of a tunnel, counted by their Leases: each server renews a Lease, counts the valid ones, and deletes those that have expired (upstream
//! `--enable-lease-controller`). The count goes to the agents, which need no access to the API for it.

mod tally;

use std::collections::BTreeMap;
use std::time::Duration;

use oarlock_client::{Client, DeleteOptions, ListOptions, Object, decode};
use oarlock_meta::names::{label_key_errors, label_value_errors, subdomain_errors};
use oarlock_meta::selector::LabelSelector;
use oarlock_meta::{MicroTime, Status};
use oarlock_runtime::{ActorKind, Failure, LoopCtx, Phase, System, clock, rng};
use oarlock_schema::{Resource, resource};
use serde_json::json;

use super::Server;
use tally::{Lease, tally};

/// The kind of the actor that renews a server's Lease. Stopped first, so that agents do not look for a server that leaves.
pub(crate) static LEASE: ActorKind =
    ActorKind { name: "konnectivity.lease", phase: Phase::Announce, ..ActorKind::DEFAULT };

/// The duration of a Lease (upstream's).
const LEASE_DURATION: Duration = Duration::from_secs(30);
/// The time between two renewals (upstream's).
const RENEW_INTERVAL: Duration = Duration::from_secs(15);
/// The pause after a failed renewal.
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// The longest time of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The share by which pauses vary at random, in percent.
const JITTER_PERCENT: u32 = 10;
/// The name of a Lease without the server's id (upstream's).
const NAME: &str = "konnectivity-proxy-server-";
/// The field manager of Leases.
const MANAGER: &str = "konnectivity-server";

/// Where the Leases of a tunnel's servers are.
#[derive(Clone, Debug)]
pub struct LeaseOptions {
    /// Namespace of the Leases (upstream: `kube-system`).
    pub namespace: String,
    /// Labels of the Leases of this tunnel, and of no others (upstream: `k8s-app=konnectivity-server`). Expired Leases with these labels are deleted.
    pub labels: BTreeMap<String, String>,
}

impl LeaseOptions {
    /// Parses labels: `key=value`, separated by commas.
    ///
    /// # Errors
    /// The part that is no label. A text without any label is an error, too: it would select the Leases of all others.
    pub fn labels(text: &str) -> Result<BTreeMap<String, String>, InvalidLabel> {
        text.split(',').map(|part| label(part).ok_or_else(|| InvalidLabel(part.to_owned()))).collect()
    }
}

/// The text is no label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no label: must be key=value")]
pub struct InvalidLabel(String);

fn label(text: &str) -> Option<(String, String)> {
    let (key, value) = text.split_once('=')?;
    let is_valid = label_key_errors(key).is_empty() && label_value_errors(value).is_empty();
    is_valid.then(|| (key.to_owned(), value.to_owned()))
}

/// The actor's parts.
#[derive(Clone)]
struct Leases {
    server: Server,
    client: Client,
    options: LeaseOptions,
    resource: &'static Resource,
}

/// Starts the actor.
///
/// # Errors
/// When the server's id cannot be part of a Lease's name, or the runtime refuses the actor.
pub(super) async fn start(
    system: &System,
    server: Server,
    client: &Client,
    options: LeaseOptions,
) -> Result<(), oarlock_runtime::Error> {
    let refused = |reason: String| oarlock_runtime::Error::Spawn { name: LEASE.name.to_owned(), reason };
    let resource = resource("coordination.k8s.io", "v1", "leases");
    let resource = resource.ok_or_else(|| refused("the schema has no Leases".to_owned()))?;
    let key = server.inner.options.id.clone();
    let leases = Leases { server, client: client.with_timeout(REQUEST_TIMEOUT), options, resource };
    let name = leases.name();
    let wrong = subdomain_errors(&name);
    if !wrong.is_empty() {
        return Err(refused(format!("{name:?} is no name of a Lease: {}", wrong.join(", "))));
    }
    system.spawn_loop(&LEASE, key, move |ctx| leases.clone().run(ctx)).await?;
    Ok(())
}

impl Leases {
    async fn run(self, ctx: LoopCtx) -> Result<(), Failure> {
        loop {
            let pause = match ctx.protected(self.round()).await {
                Ok(()) => RENEW_INTERVAL,
                Err(status) => {
                    // The count stays what it was: agents keep the servers that they have.
                    tracing::warn!(%status, "the tunnel servers' leases are not known");
                    RETRY_PAUSE
                }
            };
            ctx.heartbeat();
            if !ctx.sleep(rng::jitter(pause, JITTER_PERCENT)).await {
                break;
            }
        }
        let (namespace, name) = (&self.options.namespace, self.name());
        let deletion = self.client.delete(self.resource, namespace, &name, DeleteOptions::default());
        if let Err(status) = ctx.protected(deletion).await {
            tracing::warn!(%status, "the server's lease stays until it expires");
        }
        Ok(())
    }

    /// Renews the Lease, counts the valid ones, and deletes the expired ones.
    async fn round(&self) -> Result<(), Status> {
        self.renew().await?;
        let labels = self.options.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let selected = ListOptions::labels(LabelSelector::from_labels(labels));
        let listed = self.client.list(self.resource, &self.options.namespace, selected).await?;
        let parsed = listed.items.iter().filter_map(|lease| Some((lease, parse(lease)?)));
        let tally = tally(parsed, clock::wall().as_microsecond());
        self.server.set_count(tally.valid.max(1));
        for expired in tally.expired {
            let options = DeleteOptions { resource_version: Some(expired.revision), ..DeleteOptions::default() };
            let name = expired.name();
            match self.client.delete(self.resource, &self.options.namespace, &name, options).await {
                // Another server has deleted it, or its own has renewed it.
                Err(status) if status.is_not_found() || status.is_conflict() => {}
                deleted => {
                    deleted?;
                    tracing::info!(lease = name.as_str(), "expired lease of a tunnel server deleted");
                }
            }
        }
        Ok(())
    }

    async fn renew(&self) -> Result<(), Status> {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.name(), "namespace": self.options.namespace, "labels": self.options.labels},
            "spec": {
                "holderIdentity": self.server.inner.options.id,
                "leaseDurationSeconds": LEASE_DURATION.as_secs(),
                "renewTime": MicroTime::from_unix_micros(clock::wall().as_microsecond()).to_string(),
            },
        });
        let lease = decode(self.resource.ty, lease.to_string().as_bytes())?;
        self.client.apply(self.resource, &lease, MANAGER, true).await.map(drop)
    }

    fn name(&self) -> String {
        format!("{NAME}{}", self.server.inner.options.id)
    }
}

fn parse(lease: &Object) -> Option<Lease> {
    serde_json::from_slice(&lease.bytes).inspect_err(|error| tracing::warn!(%error, "a lease is malformed")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_pairs_and_at_least_one() {
        let labels = LeaseOptions::labels("k8s-app=konnectivity-server,zone=a").unwrap();
        assert_eq!(labels.into_values().collect::<Vec<_>>(), ["konnectivity-server", "a"]);
        for wrong in ["", "k8s-app", "=x", "a=b,", "a!=b", "a==b", "a=b c"] {
            assert!(LeaseOptions::labels(wrong).is_err(), "{wrong:?}");
        }
    }
}
