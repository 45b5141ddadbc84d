//! `oarlock up`: store, API server, controllers, scheduler and kubelets in one process.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use oarlock_kubelet::Fleet;
use oarlock_kubelet::server::Server;
use oarlock_runtime::shutdown::{self, End};
use oarlock_runtime::{System, clock};
use oarlock_service_apiserver::assemble;

use crate::args::Up;
use crate::crew;

/// How long to wait for readiness: well under a second as a rule, but a store of hundreds of thousands of objects takes longer to load.
const READY_WAIT: Duration = Duration::from_secs(60);

/// Runs the cluster until a signal.
///
/// # Errors
/// When a part cannot be started.
pub(crate) async fn run(args: Up) -> anyhow::Result<u8> {
    let started = clock::now();
    let traces = oarlock_exporter::prepare(&args.tracing, "oarlock", oarlock_exporter::TracingState::Ring)?;
    oarlock_telemetry::init_logs(&args.log, oarlock_telemetry::logs::Format::Text)?;
    let system = System::start(oarlock_runtime::Options::default()).await?;
    let signals = shutdown::signals(&system)?;
    traces.export(&system).await?;
    let fleet = Fleet::new(system.clone());
    let cluster = assemble::Cluster {
        data_dir: args.data_dir.clone(),
        pki: None,
        store: store(&args),
        store_options: args.store_options.clone(),
        features: args.features.feature_gates.clone(),
        bind: args.bind,
        port: args.port,
        advertise_address: args.advertise_address,
        serving: args.serving.clone(),
        kubelets: args.kubelets.clone(),
        egress: args.egress.clone(),
        shutdown: args.shutdown.clone(),
        local: Some(Arc::new(crew::ToFleet(Server::within(&system, &fleet)))),
    };
    let api = assemble::start(&system, cluster).await?;
    oarlock_apiserver::start::ready(&api.server, clock::after(READY_WAIT))
        .await
        .context("the API server did not become ready")?;
    let ready = started.elapsed();
    oarlock_service_apiserver::join(&system, &api, &args.nats).await?;
    let crew = crew::start(&system, &api, &fleet, &args).await?;
    print_summary(&args, &api, ready, &crew);
    match shutdown::run(&system, signals, args.shutdown.graces()).await {
        End::Failed(fatal, _) => anyhow::bail!("{fatal}"),
        end => {
            if let End::Asked(report) = &end {
                tracing::info!(took = ?report.took(), "stopped");
            }
            Ok(end.exit_code())
        }
    }
}

fn store(args: &Up) -> assemble::Store {
    if args.ephemeral {
        assemble::Store::Memory
    } else if args.etcd.etcd_servers.is_empty() {
        assemble::Store::Embedded(args.data_dir.join("store"))
    } else {
        assemble::Store::Etcd(args.etcd.clone())
    }
}

/// Prints the server's address, the kubeconfig and the parts for the user.
#[expect(clippy::print_stdout, reason = "the answer to the person at the terminal")]
fn print_summary(args: &Up, api: &assemble::Api, ready: Duration, crew: &[String]) {
    println!("oarlock {} · Kubernetes {}", env!("CARGO_PKG_VERSION"), oarlock_schema::version::git_version());
    println!("  api server          https://{} (ready in {} ms)", api.address, ready.as_millis());
    println!("  state               {}", store(args));
    for line in crew {
        println!("  {line}");
    }
    println!("\nexport KUBECONFIG={}", api.kubeconfig.display());
}
