//! `oarlock controller-manager`: the controllers in a process of their own, over HTTPS, each with the token of its ServiceAccount.

use anyhow::Context;
use futures::future::BoxFuture;
use oarlock_bus::Role;
use oarlock_config::ServerTrust;
use oarlock_controllers::StartedControllers;
use oarlock_informer::{CONTROLLER, REFLECTOR};
use oarlock_runtime::System;
use oarlock_runtime::shutdown::{self, End, Graces};
use oarlock_schema::FeatureGates;
use oarlock_serving::Parts;

use crate::args::Args;

const AGENT: &str = concat!("kube-controller-manager/", env!("CARGO_PKG_VERSION"));

/// Runs the controllers until a signal.
///
/// # Errors
/// When the kubeconfig is unusable, a controller is not known or cannot be started, or the system fails.
pub fn run(args: Args) -> BoxFuture<'static, anyhow::Result<u8>> {
    Box::pin(run_until_signal(args))
}

async fn run_until_signal(args: Args) -> anyhow::Result<u8> {
    let traces =
        oarlock_exporter::prepare(&args.tracing, "kube-controller-manager", oarlock_exporter::TracingState::Off)?;
    oarlock_telemetry::init_logs(&args.log, oarlock_telemetry::logs::Format::Text)?;
    let system = System::start(oarlock_runtime::Options::default()).await?;
    let signals = shutdown::signals(&system)?;
    traces.export(&system).await?;
    let started = start(&system, &args).await?;
    tracing::info!(controllers = started.controllers.len(), "controllers run");
    match shutdown::run(&system, signals, Graces::default()).await {
        End::Failed(fatal, _) => anyhow::bail!("{fatal}"),
        end => Ok(end.exit_code()),
    }
}

/// Starts the controllers in `system`, and the server for their health and metrics.
///
/// # Errors
/// When the kubeconfig is unusable, the port is taken, or a controller is not known or cannot be started.
pub async fn start(system: &System, args: &Args) -> anyhow::Result<StartedControllers> {
    let bound = oarlock_serving::bind(&args.serving, args.secure_port, "kube-controller-manager").await?;
    let resolved = args.api.read()?;
    let root_ca = root_ca(args, &resolved.trust)?;

    let (manager, clients) = oarlock_controllers::identities(system, &resolved, AGENT)?;
    let name = oarlock_mesh::member_name("controllers", &oarlock_config::host_name()?);
    let bus = oarlock_mesh::join(system, &args.nats, Role::Controllers, &name).await?;
    let units = oarlock_controllers::units();
    let member = oarlock_placement::Options { role: "controllers", units, outside: Vec::new(), name, bus: bus.clone() };
    let placement = oarlock_placement::start(system, manager.clone(), member).await?;
    let parts = Parts {
        client: Some(manager.clone()),
        trust: Some(resolved.trust.clone()),
        kinds: vec![&CONTROLLER, &REFLECTOR],
        ready: oarlock_serving::checks::of_crew(&placement, bus.as_ref()),
    };
    let features = args.feature_gates.clone();
    warn_of_unused(&features);
    let (selection, settings) = (args.controllers.selection(&args.disable), args.controllers.settings());
    let options = oarlock_controllers::Options { selection, features, settings, root_ca, placement };
    let started = oarlock_controllers::start(system, manager, clients, options).await?;
    oarlock_serving::serve(system, bound, parts).await?;
    Ok(started)
}

/// Warns of changed feature gates that no controller uses.
fn warn_of_unused(features: &FeatureGates) {
    for (gate, on) in features.changed().filter(|(gate, _)| !oarlock_controllers::asks_for_gate(gate.name)) {
        tracing::warn!(gate = gate.name, on, "no controller asks for the feature gate");
    }
}

/// Returns the authorities for pods to trust: those of the named file, else those this process trusts itself.
fn root_ca(args: &Args, trust: &ServerTrust) -> anyhow::Result<String> {
    match (&args.root_ca_file, trust) {
        (Some(file), _) => std::fs::read_to_string(file).with_context(|| file.display().to_string()),
        (None, ServerTrust::Authorities(pem)) => Ok(pem.clone()),
        (None, _) => Ok(String::new()),
    }
}
