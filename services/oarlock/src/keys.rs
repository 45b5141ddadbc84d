//! `oarlock keys`: makes keys in folders, or in Secrets of the cluster that hosts the control plane.

mod files;
mod secrets;

use std::io::Write as _;

use anyhow::{Context, bail};
use oarlock_config::{Endpoint, Kubeconfig};
use oarlock_seeded_bug::seeded_bug;
use oarlock_service_apiserver::KeysArgs;

use self::files::Files;
use self::secrets::{Secrets, Written};
use crate::client;

/// Folder of the parts' folders, within the folder of all keys.
const PARTS: &str = "parts";
/// Name, after the prefix, of the Secret with all keys.
const ALL: &str = "all";
/// Configuration for NATS servers that run in the folder of all keys: it names that folder, which is another one each time. Parts have one of their own.
const NAMES_FOLDER: &str = "nats/nats.conf";
/// Largest number of attempts to write a Secret that another process changes at the same time.
const MAX_ATTEMPTS: usize = 5;

/// Makes the keys.
///
/// # Errors
/// When a file cannot be read or written, or the hosting cluster refuses a request. What is missing then is made by the next run.
pub(crate) async fn run(args: KeysArgs) -> anyhow::Result<u8> {
    let options = args.secrets.clone();
    let (Some(prefix), Some(namespace)) = (&options.to_secret, &options.namespace) else {
        return oarlock_service_apiserver::keys(args);
    };
    if args.part_nodes.iter().any(|part| part.part == ALL) {
        bail!("--part-nodes: a part cannot be called {ALL:?}, which is the name of the Secret with all keys");
    }
    let host = match &options.kubeconfig {
        Some(path) => Kubeconfig::read(path)?.resolve(None)?,
        None => Endpoint::in_cluster().context("without --kubeconfig")?,
    };
    let client = client::of(&host, concat!("oarlock-keys/", env!("CARGO_PKG_VERSION"))).await?;
    let secrets = Secrets::new(client, namespace, prefix)?;
    for _ in 0..MAX_ATTEMPTS {
        if let Some(report) = attempt(&secrets, &args).await? {
            std::io::stdout().write_all(report.as_bytes())?;
            return Ok(0);
        }
    }
    bail!("another process keeps changing the Secret {} in {namespace}", secrets.name(ALL))
}

/// Makes what is missing or about to expire; returns a line for each Secret, or `None` when another process has changed the Secret with all keys meanwhile.
///
/// That Secret is written first: no part may hold a certificate of an authority that nobody has.
async fn attempt(secrets: &Secrets, args: &KeysArgs) -> anyhow::Result<Option<String>> {
    let present = secrets.read(ALL).await?;
    let folder = tempfile::Builder::new().prefix("oarlock-keys-").tempdir().context("a temporary folder")?;
    if let Some(present) = &present
        && !seeded_bug!("hosted_authority_replaced")
    {
        files::write(folder.path(), &present.files).with_context(|| secrets.name(ALL))?;
    }
    let mut made = args.clone();
    made.data_dir = folder.path().to_owned();
    made.parts = Some(folder.path().join(PARTS));
    oarlock_service_apiserver::keys(made)?;
    let mut all = files::read(folder.path())?;
    all.remove(NAMES_FOLDER);
    // Another version, or a run with other nodes, has made further parts. This run may have no right to write their Secrets, which stay as they are.
    all.retain(|path, _| part_of(path).is_none_or(|(part, _)| args.makes_part(part)));
    let mut report = String::new();
    let mut note = |part: &str, written: Written| {
        report.push_str(&format!("secret/{} {written}\n", secrets.name(part)));
    };
    let Some(written) = secrets.write(ALL, present.as_ref(), &all).await? else { return Ok(None) };
    note(ALL, written);
    for (part, own) in parts(&all) {
        note(&part, write_part(secrets, &part, &own).await?);
    }
    Ok(Some(report))
}

/// Makes the Secret of a part hold these files.
async fn write_part(secrets: &Secrets, part: &str, files: &Files) -> anyhow::Result<Written> {
    for _ in 0..MAX_ATTEMPTS {
        let present = secrets.read(part).await?;
        if let Some(written) = secrets.write(part, present.as_ref(), files).await? {
            return Ok(written);
        }
    }
    bail!("another process keeps changing the Secret {}", secrets.name(part))
}

/// Returns the part and its own name of a file in a part's folder.
fn part_of(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix(PARTS)?.strip_prefix('/')?.split_once('/')
}

/// Returns the files of each part.
fn parts(all: &Files) -> std::collections::BTreeMap<String, Files> {
    let mut parts: std::collections::BTreeMap<String, Files> = std::collections::BTreeMap::new();
    for (path, content) in all {
        if let Some((part, name)) = part_of(path) {
            parts.entry(part.to_owned()).or_default().insert(name.to_owned(), content.clone());
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_gets_the_files_of_its_own_folder() {
        let files =
            ["pki/ca.key", "parts/nats/ca.crt", "parts/scheduler/kubeconfig", "parts/scheduler/nats/x.seed", "nats/x"];
        let all: Files = files.iter().map(|path| ((*path).to_owned(), path.as_bytes().to_vec())).collect();
        let parts = parts(&all);
        assert_eq!(parts.keys().collect::<Vec<_>>(), ["nats", "scheduler"]);
        assert_eq!(parts["scheduler"].keys().collect::<Vec<_>>(), ["kubeconfig", "nats/x.seed"]);
        assert_eq!(parts["nats"]["ca.crt"], b"parts/nats/ca.crt");
    }
}
