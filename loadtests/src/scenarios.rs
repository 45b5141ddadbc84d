//! The scenarios, one file each.

mod create;
mod crew;
mod idle;
mod list;
mod schedule;
mod start;

use futures::future::BoxFuture;

use crate::args::Args;
use crate::report::Figure;

/// One scenario.
pub(crate) struct Scenario {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// Runs it.
    pub(crate) run: fn(Args) -> BoxFuture<'static, anyhow::Result<Vec<Figure>>>,
}

/// All scenarios, in the order in which they run.
pub(crate) const ALL: &[Scenario] = &[
    Scenario { name: "start", run: |args| Box::pin(start::run(args)) },
    Scenario { name: "idle", run: |args| Box::pin(idle::run(args)) },
    Scenario { name: "create", run: |args| Box::pin(create::run(args)) },
    Scenario { name: "list", run: |args| Box::pin(list::run(args)) },
    Scenario { name: "schedule", run: |args| Box::pin(schedule::run(args)) },
    Scenario { name: "crew", run: |args| Box::pin(crew::run(args)) },
];

/// Parts that a scenario about the API alone leaves out.
pub(crate) const API_ONLY: [&str; 2] = ["--disable", "scheduler,controller-manager,kubelet"];
