//! Credentials for the bus, one for each role and one for each node, and the configuration of the servers that carry it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use oarlock_bus::Role;
use oarlock_bus::credentials::Seed;
use oarlock_bus::permissions::{Holder, configuration};
use oarlock_config::DataDir;
use oarlock_pki::{AtomicFiles, Leaf, Pki, San, Subject, UnixTime, Visibility};

/// What seeds' files end with.
const ENDING: &str = ".seed";

/// What is asked for.
pub(super) struct Wanted {
    /// Nodes that get credentials.
    pub(super) nodes: Vec<String>,
    /// Names of the servers, for TLS.
    pub(super) tls: Vec<String>,
}

/// Writes what is missing, and the configuration anew: it lists everybody whose seed is there.
///
/// # Errors
/// When the directory cannot be read or written, or a file in it is no seed.
pub(super) fn write(directory: &DataDir, pki: &Pki, wanted: &Wanted, now: UnixTime) -> anyhow::Result<()> {
    let folder = directory.nats();
    let mut seeds = found(&folder)?;
    let mut files = AtomicFiles::new();
    let roles = Role::ALL.into_iter().filter(|role| *role != Role::Node).map(Holder::role);
    let nodes = wanted.nodes.iter().map(|name| Holder::node(name)).collect::<Result<Vec<_>, _>>()?;
    for holder in roles.chain(nodes) {
        let name = holder.file_name();
        if let std::collections::btree_map::Entry::Vacant(place) = seeds.entry(name.clone()) {
            let seed = Seed::generate()?;
            let path = folder.join(format!("{name}{ENDING}"));
            files.add(path, Visibility::Private, format!("{}\n", seed.secret()));
            place.insert((holder, seed));
        }
    }
    let paths = [folder.join("server.crt"), folder.join("server.key")];
    let tls = match wanted.tls.as_slice() {
        [] => None,
        names => {
            let names = names.iter().map(|name| San::parse(name)).collect();
            let issued = pki.ca.issue(&Leaf::server(Subject::named("nats"), names), now)?;
            let [certificate, key] = &paths;
            files.add(certificate, Visibility::Public, issued.certificate_pem());
            files.add(key, Visibility::Private, issued.key.to_pem().as_bytes());
            Some((absolute(certificate)?, absolute(key)?))
        }
    };
    let credentials = seeds.values().map(|(holder, seed)| (holder, seed.public_key()));
    let tls = tls.as_ref().map(|(certificate, key)| (certificate.as_str(), key.as_str()));
    files.add(folder.join("nats.conf"), Visibility::Public, configuration(credentials, tls));
    files.commit()?;
    Ok(())
}

fn absolute(path: &Path) -> anyhow::Result<String> {
    Ok(std::path::absolute(path)?.display().to_string())
}

/// The seeds that are there, by the names of their files.
fn found(folder: &Path) -> anyhow::Result<BTreeMap<String, (Holder, Seed)>> {
    let mut seeds = BTreeMap::new();
    let files = match std::fs::read_dir(folder) {
        Ok(files) => files,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(seeds),
        Err(error) => return Err(error).with_context(|| folder.display().to_string()),
    };
    for file in files {
        let path = file?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(ENDING));
        let Some(name) = name else { continue };
        let holder = Holder::from_file_name(name).with_context(|| format!("{}: nobody's name", path.display()))?;
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let seed = Seed::parse(&text).with_context(|| path.display().to_string())?;
        seeds.insert(name.to_owned(), (holder, seed));
    }
    Ok(seeds)
}

#[cfg(test)]
mod tests {
    use oarlock_pki::ServingNames;

    use super::*;

    #[test]
    fn what_is_there_stays_and_everybody_is_in_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let directory = DataDir::new(folder.path());
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_700_000_000));
        let pki = Pki::ephemeral(&ServingNames::default(), now).unwrap();
        let make = |nodes: &[&str], tls: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            write(&directory, &pki, &Wanted { nodes: owned(nodes), tls: owned(tls) }, now)
        };
        let read = |name: &str| std::fs::read_to_string(directory.nats().join(name)).unwrap();
        make(&["a.b"], &[]).unwrap();
        let (scheduler, node) = (read("scheduler.seed"), read("node-a.b.seed"));
        assert!(!read("nats.conf").contains("tls"));
        make(&["n2"], &["nats", "127.0.0.1"]).unwrap();
        assert_eq!((read("scheduler.seed"), read("node-a.b.seed")), (scheduler.clone(), node.clone()));
        let text = read("nats.conf");
        for seed in [scheduler, node, read("node-n2.seed"), read("inspector.seed")] {
            let seed = Seed::parse(&seed).unwrap();
            assert!(text.contains(seed.public_key()) && !text.contains(seed.secret()));
        }
        assert!(text.contains("server.crt") && read("server.crt").contains("CERTIFICATE"));
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &directory.nats().join("scheduler.seed").metadata().unwrap().permissions(),
        );
        assert_eq!(mode & 0o077, 0, "nobody else reads it");
        std::fs::write(directory.nats().join("node-n2.seed"), "no seed").unwrap();
        assert!(make(&[], &[]).unwrap_err().to_string().contains("node-n2.seed"));
        assert!(make(&["no node"], &[]).is_err());
    }
}
