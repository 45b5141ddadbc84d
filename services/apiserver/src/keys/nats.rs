//! Makes NATS credentials, one for each role and each node, and the configuration of the NATS servers.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, ensure};
use oarlock_bus::credentials::Seed;
use oarlock_bus::permissions::{Holder, Routes, cluster, configuration};
use oarlock_bus::{Role, RoleKeys};
use oarlock_config::{DataDir, ROLE_KEYS};
use oarlock_pki::{AtomicFiles, Leaf, Pki, San, Subject, UnixTime, Visibility};

use super::copies::Copies;

/// File extension of NATS seeds.
pub(super) const SEED_EXTENSION: &str = ".seed";
/// Name of the file with the password of routes between servers.
const PASSWORD: &str = "route.password";
/// Address on which a NATS server listens for routes from other servers.
const LISTEN: &str = "0.0.0.0:6222";
/// Certificate and key for connections from clients; the next constant names those for routes.
const SERVER: [&str; 2] = ["server.crt", "server.key"];
const ROUTE: [&str; 2] = ["route.crt", "route.key"];
const AUTHORITY: &str = "ca.crt";

/// NATS credentials and certificates to make.
#[derive(Default)]
pub(super) struct Wanted {
    /// Nodes that get NATS credentials.
    pub(super) nodes: Vec<String>,
    /// DNS names and addresses of the servers, for their TLS certificate; empty without TLS.
    pub(super) tls: Vec<String>,
    /// Addresses of routes between the servers.
    pub(super) routes: Vec<String>,
}

/// Input of the NATS servers' configuration: the credentials it lists and the security of connections.
pub(super) struct ServerConfig {
    seeds: BTreeMap<String, (Holder, Seed)>,
    tls: bool,
    routes: Vec<String>,
    password: String,
}

/// Writes missing credentials and certificates, and the configuration anew: the configuration lists every seed in the folder.
///
/// # Errors
/// When the directory cannot be read or written, or a file with the extension of seeds holds no seed.
pub(super) fn write(directory: &DataDir, wanted: &Wanted, now: UnixTime) -> anyhow::Result<ServerConfig> {
    let folder = directory.nats();
    // The configuration is written anew each time: a later run that leaves out a flag would silently turn off TLS or the protection of routes.
    for (flag, names, file) in [("tls-san", &wanted.tls, "server.crt"), ("routes", &wanted.routes, PASSWORD)] {
        let was = folder.join(file);
        ensure!(
            !names.is_empty() || !was.exists(),
            "--nats-{flag} is missing: {} is there, so it was given before",
            was.display()
        );
    }
    let mut seeds = found(&folder)?;
    let mut files = AtomicFiles::new();
    let roles = Role::ALL.into_iter().filter(|role| *role != Role::Node).map(Holder::role);
    let nodes = wanted.nodes.iter().map(|name| Holder::node(name)).collect::<Result<Vec<_>, _>>()?;
    for holder in roles.chain(nodes) {
        let name = holder.file_name();
        if let std::collections::btree_map::Entry::Vacant(place) = seeds.entry(name.clone()) {
            let seed = Seed::generate()?;
            let path = folder.join(format!("{name}{SEED_EXTENSION}"));
            files.add(path, Visibility::Private, format!("{}\n", seed.secret()));
            place.insert((holder, seed));
        }
    }
    let key = |role: Role| Some((role, seeds.get(role.as_str())?.1.public_key().to_owned()));
    let role_keys = RoleKeys::new(Role::ALL.into_iter().filter_map(key));
    files.add(folder.join(ROLE_KEYS), Visibility::Public, role_keys.to_string());
    let mut password = String::new();
    if !wanted.tls.is_empty() {
        // This authority signs only the NATS servers' certificates. Nodes and users have certificates of the cluster's authority, and must not pass as servers.
        let authority = Pki::authority(&folder, "ca", "nats-ca", now)?;
        let names = wanted.tls.iter().map(|name| San::parse(name)).collect();
        Pki::leaf(&folder, "server", &authority, &Leaf::server(Subject::named("nats"), names), now)?;
        if !wanted.routes.is_empty() {
            let host = |server: &String| San::parse(host(server));
            let mut names: Vec<San> = wanted.routes.iter().map(host).collect();
            names.sort();
            names.dedup();
            Pki::leaf(&folder, "route", &authority, &Leaf::peer(Subject::named("nats-route"), names), now)?;
            password = match std::fs::read_to_string(folder.join(PASSWORD)) {
                Ok(text) => text.trim().to_owned(),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    // The text of a seed (32 random bytes in base32) serves as the password.
                    let password = Seed::generate()?.secret().to_owned();
                    files.add(folder.join(PASSWORD), Visibility::Private, format!("{password}\n"));
                    password
                }
                Err(error) => return Err(error).with_context(|| folder.join(PASSWORD).display().to_string()),
            };
        }
    }
    let server_config = ServerConfig { seeds, tls: !wanted.tls.is_empty(), routes: wanted.routes.clone(), password };
    let place = |name: &str| absolute(&folder.join(name));
    files.add(folder.join("nats.conf"), Visibility::Private, server_config.text(place)?);
    files.commit()?;
    Ok(server_config)
}

/// Returns the host of `host:port`.
fn host(server: &str) -> &str {
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

impl ServerConfig {
    /// Returns the text of the configuration; `place` maps each file the configuration refers to to its path.
    fn text(&self, place: impl Fn(&str) -> anyhow::Result<String>) -> anyhow::Result<String> {
        let [certificate, key] = SERVER.map(&place);
        let (certificate, key) = (certificate?, key?);
        let credentials = self.seeds.values().map(|(holder, seed)| (holder, seed.public_key()));
        let mut text = configuration(credentials, self.tls.then_some((certificate.as_str(), key.as_str())));
        if !self.routes.is_empty() {
            let ([certificate, key], authority) = (ROUTE.map(&place), place(AUTHORITY)?);
            text += &cluster(&Routes {
                servers: &self.routes,
                listen: LISTEN,
                certificate: &certificate?,
                key: &key?,
                authority: &authority,
                password: &self.password,
            });
        }
        Ok(text)
    }
}

/// Writes the folder of the NATS servers. The servers run in that folder, and serve their health on the loopback address only.
///
/// # Errors
/// When a file cannot be read or written.
pub(super) fn write_part(folder: &Path, directory: &DataDir, server_config: &ServerConfig) -> anyhow::Result<()> {
    let mut copies = Copies::new(directory.nats(), folder);
    if server_config.tls {
        SERVER.iter().for_each(|name| copies.add(name));
    }
    if !server_config.routes.is_empty() {
        ROUTE.iter().chain([&AUTHORITY]).for_each(|name| copies.add(name));
    }
    copies.write()?;
    let text = server_config.text(|name| Ok(name.to_owned()))?;
    let mut files = AtomicFiles::new();
    files.add(folder.join("nats.conf"), Visibility::Private, format!("http: \"127.0.0.1:8222\"\n{text}"));
    Ok(files.commit()?)
}

fn absolute(path: &Path) -> anyhow::Result<String> {
    Ok(std::path::absolute(path)?.display().to_string())
}

/// Returns the seeds in a folder by their file names.
fn found(folder: &Path) -> anyhow::Result<BTreeMap<String, (Holder, Seed)>> {
    let mut seeds = BTreeMap::new();
    let files = match std::fs::read_dir(folder) {
        Ok(files) => files,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(seeds),
        Err(error) => return Err(error).with_context(|| folder.display().to_string()),
    };
    for file in files {
        let path = file?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(SEED_EXTENSION));
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
    use super::*;

    #[test]
    fn what_is_there_stays_and_everybody_is_in_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let directory = DataDir::new(folder.path());
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_700_000_000));
        let make = |nodes: &[&str], tls: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            write(&directory, &Wanted { nodes: owned(nodes), tls: owned(tls), ..Wanted::default() }, now)
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
        let keys = RoleKeys::parse(&read(ROLE_KEYS)).unwrap();
        assert_eq!(keys.of(Role::Scheduler), Some(Seed::parse(&read("scheduler.seed")).unwrap().public_key()));
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &directory.nats().join("scheduler.seed").metadata().unwrap().permissions(),
        );
        assert_eq!(mode & 0o077, 0, "nobody else reads it");
        std::fs::write(directory.nats().join("node-n2.seed"), "no seed").unwrap();
        assert!(make(&[], &[]).err().unwrap().to_string().contains("--nats-tls-san is missing"));
        assert!(make(&[], &["nats"]).err().unwrap().to_string().contains("node-n2.seed"));
        assert!(make(&["no node"], &["nats"]).is_err());
    }

    #[test]
    fn routes_keep_their_password_and_are_of_an_authority_that_signs_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let directory = DataDir::new(folder.path());
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_700_000_000));
        let names = ["nats-0".to_owned(), "nats-1".to_owned()];
        let routes = ["nats-0:6222".to_owned(), "[::1]:6222".to_owned()];
        let wanted = Wanted { nodes: Vec::new(), tls: names.to_vec(), routes: routes.to_vec() };
        let read = |name: &str| std::fs::read_to_string(directory.nats().join(name)).unwrap();
        write(&directory, &wanted, now).unwrap();
        let password = read(PASSWORD);
        write(&directory, &wanted, now).unwrap();
        assert_eq!(read(PASSWORD), password);
        assert!(password.trim().len() > 40 && read("nats.conf").contains(password.trim()));
        let open = Wanted { nodes: Vec::new(), tls: names.to_vec(), routes: Vec::new() };
        assert!(write(&directory, &open, now).err().unwrap().to_string().contains("--nats-routes is missing"));
        let authority = oarlock_pki::Authority::believed(&read(AUTHORITY)).unwrap();
        for name in ["server.crt", "route.crt"] {
            let certificate = oarlock_pki::parse_chain(&read(name)).unwrap().remove(0);
            assert!(authority.signed(&certificate), "{name}");
        }
        let route = oarlock_pki::parse_chain(&read("route.crt")).unwrap().remove(0);
        let sans = oarlock_pki::Presented::parse(&route).unwrap().sans;
        assert_eq!(sans, [San::parse("nats-0"), San::parse("::1")]);
    }
}
