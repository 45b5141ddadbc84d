//! Stores that no server uses: where they are, and how one is filled.

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

use super::How;

/// Where a store is.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// In a folder.
    Embedded(PathBuf),
    /// In etcd.
    Etcd(EtcdOptions),
}

/// Flags that name one store.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreArgs {
    /// A store in a folder: `embedded:DIR`. `oarlock up` has its in `<data-dir>/store`.
    #[arg(long, value_name = "STORE")]
    store: Option<Place>,
    #[command(flatten)]
    etcd: EtcdOptions,
}

impl StoreArgs {
    /// The one that is named.
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
    /// The same, with the flags about etcd.
    pub(super) fn with(self, etcd: &EtcdOptions) -> anyhow::Result<Self> {
        match self {
            Self::Etcd(_) if etcd.etcd_servers.is_empty() => bail!("etcd is named, and no --etcd-servers"),
            Self::Etcd(_) => Ok(Self::Etcd(etcd.clone())),
            embedded @ Self::Embedded(_) => Ok(embedded),
        }
    }

    /// Opens a store that is there.
    pub(super) async fn open(&self) -> anyhow::Result<Arc<dyn Log>> {
        let store = match self {
            Self::Embedded(folder) => {
                ensure!(folder.join(STORE_FILE).try_exists()?, "{self}: there is no {STORE_FILE}");
                Store::Embedded(folder.clone())
            }
            Self::Etcd(etcd) => Store::Etcd(etcd.clone()),
        };
        assemble::open(&store, told()).await
    }
}

/// After a fault the log says nothing more but that; there is nobody else to end.
fn told() -> FatalHook {
    Arc::new(|fault: &Fatal| tracing::error!(%fault, "the store failed"))
}

/// A store that has been filled.
pub(super) struct Filled {
    pub(super) place: String,
    /// How far it is now.
    pub(super) revision: Revision,
    /// What it holds, read back.
    pub(super) summary: Summary,
}

/// Lets a store hold these objects, and reads them back.
///
/// # Errors
/// It is in use or holds something; the objects or the store fail. A store in a folder is then as it was, in etcd it may hold a part.
pub(super) async fn fill<E: std::error::Error + Send + Sync + 'static>(
    place: &Place,
    header: &Header,
    how: How,
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
            // Open, and so locked, until the new one is in its place.
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

/// How far a store is that may be replaced.
async fn replaceable(old: &Arc<dyn Log>, overwrite: bool) -> anyhow::Result<Revision> {
    let nothing = futures::stream::empty::<Result<Object, std::convert::Infallible>>();
    if !overwrite && super::read(old).await?.header().count > 0 {
        // Says what there is; it writes nothing.
        restore(&**old, Revision::ZERO, false, nothing).await.map_err(explained)?;
    }
    Ok(old.barrier().await?)
}

/// Makes a store in a folder beside its place and moves it there when it is right.
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
    let options = embedded::Options { reserve_bytes: 0, ..embedded::Options::new(told()) };
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

/// Fills a log, and compares what it then holds with what it was given.
async fn into<E: std::error::Error + Send + Sync + 'static>(
    log: &Arc<dyn Log>,
    above: Revision,
    overwrite: bool,
    objects: impl Stream<Item = Result<Object, E>>,
) -> anyhow::Result<(Revision, Summary)> {
    let mut given = Digest::default();
    let objects = objects.inspect(|object| {
        if let Ok(object) = object {
            // Keys that do not rise are left out, and missed below.
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
