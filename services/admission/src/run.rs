//! `oarlock admission`: judges writes by admission policies for API servers, over the bus.

use anyhow::Context;
use oarlock_admission::policy;
use oarlock_bus::Role;
use oarlock_runtime::System;
use oarlock_runtime::shutdown::{self, End, Graces};

use crate::args::Args;

/// Runs until a signal. It keeps nothing, and needs no API server: what a judgement rests on comes with the question.
///
/// # Errors
/// When no bus is named or it cannot be joined, or the system fails.
pub async fn run(args: Args) -> anyhow::Result<u8> {
    oarlock_telemetry::init_logs(&args.log, oarlock_telemetry::logs::Format::Text)?;
    let system = System::start(oarlock_runtime::Options::default()).await?;
    let signals = shutdown::signals(&system)?;
    let name = oarlock_mesh::member_name("admission", &oarlock_config::host_name()?);
    let bus = oarlock_mesh::join(&system, &args.nats, Role::Admission, &name).await?;
    let bus = bus.context("--nats-servers is missing: API servers ask over the bus")?;
    policy::serve(&system, bus, args.max_reviews).await?;
    tracing::info!(member = name, "judges writes");
    match shutdown::run(&system, signals, Graces::default()).await {
        End::Failed(fatal, _) => anyhow::bail!("{fatal}"),
        end => Ok(end.exit_code()),
    }
}
