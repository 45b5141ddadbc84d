//! `oarlock cloud-controller-manager`: the controllers that use a cloud provider, which is a separate program.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use futures::future::BoxFuture;
use oarlock_bus::Role;
use oarlock_cloud::External;
use oarlock_informer::{CONTROLLER, REFLECTOR};
use oarlock_runtime::System;
use oarlock_runtime::shutdown::{self, End, Graces};

use crate::args::Args;

const AGENT: &str = concat!("cloud-controller-manager/", env!("CARGO_PKG_VERSION"));

/// Runs the cloud controllers until a signal.
///
/// # Errors
/// When the kubeconfig or the provider's address is unusable, a controller cannot be started, or the system fails.
pub fn run(args: Args) -> BoxFuture<'static, anyhow::Result<u8>> {
    Box::pin(run_until_signal(args))
}

async fn run_until_signal(args: Args) -> anyhow::Result<u8> {
    let traces =
        oarlock_exporter::prepare(&args.tracing, "cloud-controller-manager", oarlock_exporter::TracingState::Off)?;
    oarlock_telemetry::init_logs(&args.log, oarlock_telemetry::logs::Format::Text)?;
    let system = System::start(oarlock_runtime::Options::default()).await?;
    let signals = shutdown::signals(&system)?;
    traces.export(&system).await?;
    let bound = oarlock_serving::bind(&args.serving, args.secure_port, "cloud-controller-manager").await?;
    let provider = Arc::new(External::new(&provider(&args)?)?);
    let resolved = args.api.read()?;
    let (manager, clients) = oarlock_controllers::identities(&system, &resolved, AGENT)?;
    let name = oarlock_mesh::member_name("cloud", &oarlock_config::host_name()?);
    let bus = oarlock_mesh::join(&system, &args.nats, Role::Cloud, &name).await?;
    let units = oarlock_controllers::cloud_units();
    let member = oarlock_placement::Options { role: "cloud", outside: units.clone(), units, name, bus: bus.clone() };
    let placement = oarlock_placement::start(&system, manager.clone(), member).await?;
    let parts = oarlock_serving::Parts {
        client: Some(manager.clone()),
        trust: Some(resolved.trust.clone()),
        kinds: vec![&CONTROLLER, &REFLECTOR],
        ready: oarlock_serving::checks::of_crew(&placement, bus.as_ref()),
    };
    let selection = oarlock_controllers::Selection::new(&args.controllers, &[]);
    let settings = oarlock_controllers::Settings::default().with(args.node).with(args.node_lifecycle);
    let settings = settings.with(args.concurrency.counts());
    let cluster = args.cluster_name;
    let options = oarlock_controllers::CloudOptions { selection, settings, provider, cluster, placement };
    let started = oarlock_controllers::start_cloud(&system, manager, clients, options).await?;
    oarlock_serving::serve(&system, bound, parts).await?;
    tracing::info!(controllers = ?started.controllers, provider = args.cloud_provider_endpoint, "controllers run");
    match shutdown::run(&system, signals, Graces::default()).await {
        End::Failed(fatal, _) => anyhow::bail!("{fatal}"),
        end => Ok(end.exit_code()),
    }
}

fn provider(args: &Args) -> anyhow::Result<oarlock_cloud::Options> {
    let read = |file: &PathBuf| std::fs::read_to_string(file).with_context(|| file.display().to_string());
    let identity = match (&args.cloud_provider_cert_file, &args.cloud_provider_key_file) {
        (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
        _ => None,
    };
    let authorities = args.cloud_provider_ca_file.as_ref().map(read).transpose()?.unwrap_or_default();
    Ok(oarlock_cloud::Options { endpoint: args.cloud_provider_endpoint.clone(), authorities, identity })
}
