//! Stores that no server uses: their location, and how a snapshot fills one.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use futures::{Stream, StreamExt};
use oarlock_meta::Revision;
use oarlock_service_apiserver::EtcdOptions;
use oarlock_service_apiserver::assemble::{self, STORE_FILE, Store};
use oarlock_storage::snapshot::{Digest, Header, Object, RestoreError, Summary, restore};
use oarlock_storage::{EmbeddedLog, Fatal, FatalHook, Log, embedded};

use super::FillOptions;

/// Location of a store.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// An embedded store in this folder.
    Embedded(PathBuf),
    /// A store in etcd.
    Etcd(EtcdOptions),
}

/// Flags that name one store.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreArgs {
    /// A store in a folder: `embedded:DIR`. `oarlock up` keeps its store in `<data-dir>/store`.
    #[arg(long, value_name = "STORE")]
    store: Option<Place>,
    #[command(flatten)]
    etcd: EtcdOptions,
}

impl StoreArgs {
    /// Returns the store that the flags name.
    pub(super) fn place(self) -> anyhow::Result<Place> {
        match self.store {
            Some(Place::Etcd(_)) => bail!("--store etcd: name its servers with --etcd-servers instead"),
            Some(place) => Ok(place),
            None => Ok(Place::Etcd(self.etcd)),
        }
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("embedded", dir)) if !dir.is_empty() => Ok(Self::Embedded(dir.into())),
            None if text == "etcd" => Ok(Self::Etcd(EtcdOptions::default())),
            _ => Err("neither embedded:DIR nor etcd".to_owned()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded(folder) => write!(f, "embedded:{}", folder.display()),
            Self::Etcd(etcd) => write!(f, "etcd {}{}", etcd.etcd_servers.join(","), etcd.etcd_prefix),
        }
    }
}

impl Place {
    /// Returns the location with the flags about etcd filled in.
    pub(super) fn with(self, etcd: &EtcdOptions) -> anyhow::Result<Self> {
        match self {
            Self::Etcd(_) if etcd.etcd_servers.is_empty() => bail!("etcd is named, and no --etcd-servers"),
            Self::Etcd(_) => Ok(Self::Etcd(etcd.clone())),
            embedded @ Self::Embedded(_) => Ok(embedded),
        }
    }

    /// Opens an existing store.
    pub(super) async fn open(&self) -> anyhow::Result<Arc<dyn Log>> {
        let store = match self {
            Self::Embedded(folder) => {
                ensure!(folder.join(STORE_FILE).try_exists()?, "{self}: there is no {STORE_FILE}");
                Store::Embedded(folder.clone())
            }
            Self::Etcd(etcd) => Store::Etcd(etcd.clone()),
        };
        assemble::open(&store, log_fault()).await
    }
}

/// Returns a hook that logs a fatal fault of the store. Later operations on the log return the fault and end the command, so the hook need not.
fn log_fault() -> FatalHook {
    Arc::new(|fault: &Fatal| tracing::error!(%fault, "the store failed"))
}

/// Summary of a store that has been filled.
pub(super) struct Filled {
    pub(super) place: String,
    /// Revision of the store after the restore.
    pub(super) revision: Revision,
    /// Summary of the objects read back from the store.
    pub(super) summary: Summary,
}

/// Writes objects into a store, and reads them back.
///
/// # Errors
/// When the store is in use or not empty, or the objects or the store fail. A store in a folder is then unchanged; etcd may hold a part of the objects.
pub(super) async fn fill<E: std::error::Error + Send + Sync + 'static>(
    place: &Place,
    header: &Header,
    how: FillOptions,
    objects: impl Stream<Item = Result<Object, E>>,
) -> anyhow::Result<Filled> {
    let above = |past: Revision| Revision(past.get().saturating_add(how.bump_revision));
    let filled = match place {
        Place::Etcd(_) => {
            let log = place.open().await?;
            let past = header.revision.max(log.barrier().await?);
            into(&log, above(past), how.overwrite, objects).await
        }
        Place::Embedded(folder) => {
            fs::create_dir_all(folder).with_context(|| place.to_string())?;
            let path = folder.join(STORE_FILE);
            // The old store stays open, and so locked, until the new one has taken its place.
            let old = if path.try_exists()? { Some(place.open().await?) } else { None };
            let past = match &old {
                Some(old) => header.revision.max(replaceable(old, how.overwrite).await.context(place.to_string())?),
                None => header.revision,
            };
            beside(folder, &path, above(past), objects).await
        }
    };
    let (revision, summary) = filled.with_context(|| place.to_string())?;
    Ok(Filled { place: place.to_string(), revision, summary })
}

/// Returns the revision of a store, if it may be replaced.
async fn replaceable(old: &Arc<dyn Log>, overwrite: bool) -> anyhow::Result<Revision> {
    let nothing = futures::stream::empty::<Result<Object, std::convert::Infallible>>();
    if !overwrite && super::read(old).await?.header().count > 0 {
        // Returns an error that describes the content; nothing is written.
        restore(&**old, Revision::ZERO, false, nothing).await.map_err(explained)?;
    }
    Ok(old.barrier().await?)
}

/// Builds a store in a folder beside its final one and moves it there once verified.
async fn beside<E: std::error::Error + Send + Sync + 'static>(
    folder: &Path,
    path: &Path,
    above: Revision,
    objects: impl Stream<Item = Result<Object, E>>,
) -> anyhow::Result<(Revision, Summary)> {
    let new = folder.join(format!("{STORE_FILE}.restoring"));
    if new.try_exists()? {
        fs::remove_file(&new)?;
    }
    let options = embedded::Options { reserve_bytes: 0, ..embedded::Options::new(log_fault()) };
    let log: Arc<dyn Log> = Arc::new(EmbeddedLog::open(&new, &options)?);
    let filled = into(&log, above, false, objects).await;
    drop(log);
    if filled.is_ok() {
        fs::rename(&new, path)?;
        File::open(folder)?.sync_all()?;
    } else {
        fs::remove_file(&new)?;
    }
    filled
}

/// Fills a log, reads it back and compares the result with the input.
async fn into<E: std::error::Error + Send + Sync + 'static>(
    log: &Arc<dyn Log>,
    above: Revision,
    overwrite: bool,
    objects: impl Stream<Item = Result<Object, E>>,
) -> anyhow::Result<(Revision, Summary)> {
    let mut given = Digest::default();
    let objects = objects.inspect(|object| {
        if let Ok(object) = object {
            // Keys out of order are skipped here, and missed by the comparison below.
            let _in_order = given.add(&object.key, &object.value);
        }
    });
    let revision = restore(&**log, above, overwrite, objects).await.map_err(explained)?;
    let (given, mut found) = (given.finish(), Digest::default());
    let mut there = std::pin::pin!(super::read(log).await?.objects());
    while let Some(object) = there.next().await {
        let object = object?;
        found.add(&object.key, &object.value)?;
    }
    let found = found.finish();
    ensure!(found == given, "it holds {found} now instead of {given}, and must not be used");
    Ok((revision, found))
}

fn explained(error: RestoreError) -> anyhow::Error {
    let taken = matches!(error, RestoreError::NotEmpty { .. });
    let error = anyhow::Error::new(error);
    if taken { error.context("nothing was changed; --overwrite replaces it") } else { error }
}
