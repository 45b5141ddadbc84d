//! `oarlock snapshot`: saves, describes, restores and moves the whole state.

mod file;
mod online;
mod place;
mod print;
mod report;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, ensure};
use oarlock_registry::indexer::StoredIndexer;
use oarlock_service_apiserver::EtcdOptions;
use oarlock_storage::Log;
use oarlock_storage::snapshot::RESTORE_REVISION_GAP;
use oarlock_store::{Export, Indexer, export};

use self::place::{Place, StoreArgs};

/// Operation on a snapshot.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    /// Copy the state into a file: the state of a running API server, or of a store that no server uses.
    #[command(group(clap::ArgGroup::new("source").required(true).args(["kubeconfig", "store", "etcd_servers"])))]
    Save {
        /// The file to write. It holds every Secret; only its owner may read it.
        file: PathBuf,
        /// Kubeconfig with which to call the API server, as a user who may do everything.
        #[arg(long, value_name = "FILE")]
        kubeconfig: Option<PathBuf>,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Check every byte of a snapshot and print a summary.
    Status {
        /// The snapshot.
        file: PathBuf,
    },
    /// Replace the content of a store that no server uses by that of a snapshot. Clients that were connected before must list again.
    #[command(group(clap::ArgGroup::new("target").required(true).args(["store", "etcd_servers"])))]
    Restore {
        /// The snapshot.
        file: PathBuf,
        #[command(flatten)]
        store: StoreArgs,
        #[command(flatten)]
        how: FillOptions,
    },
    /// Move the state from one store to another, neither in use by a server. The first one stays as it is.
    Migrate {
        /// Store to read: `embedded:DIR`, or `etcd` for that of --etcd-servers.
        #[arg(long, value_name = "STORE")]
        from: Place,
        /// Store to fill.
        #[arg(long, value_name = "STORE")]
        to: Place,
        #[command(flatten)]
        etcd: EtcdOptions,
        #[command(flatten)]
        how: FillOptions,
    },
}

/// Flags about filling a store.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct FillOptions {
    /// Replace the store's present content.
    #[arg(long)]
    overwrite: bool,
    /// Distance from the snapshot's revision to the first new revision; must exceed the number of revisions the server has made since the snapshot.
    #[arg(long, default_value_t = RESTORE_REVISION_GAP, value_name = "N")]
    bump_revision: u64,
}

/// Runs the operation once.
///
/// # Errors
/// When the operation fails; the error names the file, store or server.
pub(crate) async fn run(verb: Verb) -> anyhow::Result<u8> {
    oarlock_telemetry::init_logs("warn", oarlock_telemetry::logs::Format::Text)?;
    match verb {
        Verb::Save { file, kubeconfig: Some(kubeconfig), .. } => {
            let partial = file::Partial::create(&file)?;
            let partial = online::save(&kubeconfig, partial).await.context(kubeconfig.display().to_string())?;
            print::report(&partial.keep()?);
        }
        Verb::Save { file, kubeconfig: None, store } => {
            let place = store.place()?;
            let export = read(&place.open().await?).await.context(place.to_string())?;
            let partial = file::write(file::Partial::create(&file)?, export).await?;
            print::report(&partial.keep()?);
        }
        Verb::Status { file } => print::report(&report::Report::of(&file)?),
        Verb::Restore { file, store, how } => {
            // The whole snapshot is checked before anything is changed.
            let report = report::Report::of(&file)?;
            let objects = futures::stream::iter(report::open(&file)?);
            print::restored(&place::fill(&store.place()?, &report.header, how, objects).await?);
        }
        Verb::Migrate { from, to, etcd, how } => {
            let (from, to) = (from.with(&etcd)?, to.with(&etcd)?);
            ensure!(from.to_string() != to.to_string(), "--from and --to are the same: {from}");
            let log = from.open().await?;
            let export = read(&log).await.context(from.to_string())?;
            let header = export.header();
            print::restored(&place::fill(&to, &header, how, export.objects()).await?);
        }
    }
    Ok(0)
}

/// Returns the content of a log in the form of snapshots.
async fn read(log: &Arc<dyn Log>) -> anyhow::Result<Export> {
    let indexer: Arc<dyn Indexer> = Arc::new(StoredIndexer);
    Ok(export::read(log, &indexer).await?)
}
