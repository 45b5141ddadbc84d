//! `oarlock apiserver`: the API server in a process of its own.

use futures::future::BoxFuture;
use oarlock_bus::Role;
use oarlock_config::NatsOptions;
use oarlock_runtime::System;
use oarlock_runtime::shutdown::{self, End};

use crate::args::Args;
use crate::assemble::{self, Api, Cluster, Store};

/// Runs the API server until a signal.
///
/// # Errors
/// When the server cannot be started, or fails.
pub fn run(args: Args) -> BoxFuture<'static, anyhow::Result<u8>> {
    Box::pin(run_until_signal(args))
}

async fn run_until_signal(args: Args) -> anyhow::Result<u8> {
    let traces = oarlock_exporter::prepare(&args.tracing, "apiserver", oarlock_exporter::TracingState::Off)?;
    oarlock_telemetry::init_logs(&args.log, oarlock_telemetry::logs::Format::Text)?;
    let system = System::start(oarlock_runtime::Options::default()).await?;
    let signals = shutdown::signals(&system)?;
    traces.export(&system).await?;
    let graces = args.shutdown.graces();
    let makes_keys = args.pki_dir.is_none();
    let cluster = Cluster {
        data_dir: args.data_dir,
        pki: args.pki_dir,
        store: if args.etcd.etcd_servers.is_empty() { args.store.parse()? } else { Store::Etcd(args.etcd) },
        store_options: args.store_options,
        features: args.features.feature_gates,
        bind: args.bind_address,
        port: Some(args.secure_port),
        advertise_address: args.advertise_address,
        serving: args.serving,
        kubelets: args.kubelets,
        egress: args.egress,
        shutdown: args.shutdown,
        local: None,
    };
    let api = assemble::start(&system, cluster).await?;
    join(&system, &api, &args.nats).await?;
    let kubeconfig = makes_keys.then(|| tracing::field::display(api.kubeconfig.display()));
    tracing::info!(address = %api.address, kubeconfig, "api server listens");
    match shutdown::run(&system, signals, graces).await {
        End::Failed(fatal, _) => anyhow::bail!("{fatal}"),
        end => Ok(end.exit_code()),
    }
}

/// Joins the API server to NATS, if the flags name NATS servers.
///
/// # Errors
/// When a file that the flags name cannot be read, or the NATS servers refuse the connection.
pub async fn join(system: &System, api: &Api, nats: &NatsOptions) -> anyhow::Result<()> {
    let name = oarlock_mesh::member_name("apiserver", &oarlock_config::host_name()?);
    if let Some(bus) = oarlock_mesh::join(system, nats, Role::ApiServer, &name).await? {
        api.server.state().set_bus(bus);
    }
    Ok(())
}
