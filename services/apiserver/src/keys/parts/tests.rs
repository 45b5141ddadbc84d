//! Tests that walk the folders `oarlock keys` writes and check which folder holds which key.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use oarlock_config::Kubeconfig;
use tempfile::TempDir;

use crate::args::ServingOptions;
use crate::keys::{KeysArgs, SecretOptions, keys};

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// All the flags that compose.yaml passes, and names for the tunnel, for keys in this folder.
fn flags(folder: &Path) -> KeysArgs {
    KeysArgs {
        data_dir: folder.join("keys"),
        server: "https://apiserver:6443".to_owned(),
        user_server: None,
        node_server: Some("https://balancer:6443".to_owned()),
        serving: ServingOptions { tls_san: owned(&["apiserver"]) },
        nats_node: Vec::new(),
        nats_tls_san: owned(&["nats-0", "nats-1"]),
        nats_routes: owned(&["nats-0:6222", "nats-1:6222"]),
        etcd_san: owned(&["etcd-0", "127.0.0.1"]),
        konnectivity_san: owned(&["tunnel.example.org", "localhost"]),
        parts: Some(folder.join("parts")),
        part_nodes: vec!["nodes=node-0,node-1".parse().unwrap(), "containerd-node=containerd-node".parse().unwrap()],
        secrets: SecretOptions::default(),
    }
}

/// Makes keys with all the flags.
fn made() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    keys(flags(folder.path())).unwrap();
    let made = walk(folder.path());
    // Run twice, as compose does at each start: what is valid stays as it is.
    keys(flags(folder.path())).unwrap();
    assert!(made == walk(folder.path()), "a second run changes nothing");
    folder
}

/// Returns every file below a folder, by relative path.
fn walk(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            found.extend(walk(&path).into_iter().map(|(inner, content)| (format!("{name}/{inner}"), content)));
        } else {
            found.insert(name, std::fs::read(&path).unwrap());
        }
    }
    found
}

/// Returns the secrets in a text: the lines of private keys (as PEM or in a kubeconfig), and NATS seeds.
fn secrets(content: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(content).into_owned();
    let mut found = BTreeSet::new();
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        inside = (inside || line.contains("PRIVATE KEY-----")) && !line.starts_with("-----END");
        if inside && !line.starts_with("-----") {
            found.insert(line.to_owned());
        }
        if line.starts_with("SU") {
            found.insert(line.to_owned());
        }
        if let Some(key) = line.strip_prefix("client-key-data:") {
            found.insert(key.trim().to_owned());
        }
    }
    found
}

#[test]
fn each_part_finds_what_it_needs_and_nothing_else() {
    let folder = made();
    let bus = |seed: &str| [format!("nats/{seed}"), "nats/roles.pub".to_owned(), "nats/ca.crt".to_owned()];
    let part = |seed: &str, more: &[&str]| bus(seed).into_iter().chain(owned(more)).collect::<BTreeSet<String>>();
    let pki = oarlock_pki::Pki::READ.map(|name| format!("pki/{name}"));
    let etcd = ["etcd/ca.crt", "etcd/client.crt", "etcd/client.key"].map(str::to_owned);
    let own = ["kubeconfig", "server.crt", "server.key"];
    let nodes = ["node-0.kubeconfig", "node-1.kubeconfig", "kubelet.crt", "kubelet.key", "nats/node-node-1.seed"];
    let wanted: BTreeMap<&str, BTreeSet<String>> = [
        ("apiserver", part("api-server.seed", &[]).into_iter().chain(pki).chain(etcd).collect()),
        ("controller-manager", part("controllers.seed", &own)),
        ("scheduler", part("scheduler.seed", &own)),
        ("cloud-controller-manager", part("cloud.seed", &own)),
        ("admission", part("admission.seed", &own)),
        ("user", part("inspector.seed", &["kubeconfig"])),
        ("nodes", part("node-node-0.seed", &nodes)),
        (
            "containerd-node",
            part("node-containerd-node.seed", &["containerd-node.kubeconfig", "kubelet.crt", "kubelet.key"]),
        ),
        (
            "nats",
            owned(&["nats.conf", "server.crt", "server.key", "route.crt", "route.key", "ca.crt"]).into_iter().collect(),
        ),
        ("etcd", owned(&["ca.crt", "server.crt", "server.key", "peer.crt", "peer.key"]).into_iter().collect()),
        ("konnectivity-server", owned(&["ca.crt", "server.crt", "server.key"]).into_iter().collect()),
        ("konnectivity-agent", owned(&["ca.crt", "agent.crt", "agent.key"]).into_iter().collect()),
        ("monitoring", owned(&["ca.crt", "client.crt", "client.key"]).into_iter().collect()),
    ]
    .into();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in walk(&folder.path().join("parts")).into_keys() {
        let (part, name) = path.split_once('/').unwrap();
        found.entry(part.to_owned()).or_default().insert(name.to_owned());
    }
    let wanted: BTreeMap<String, BTreeSet<String>> =
        wanted.into_iter().map(|(part, names)| (part.to_owned(), names)).collect();
    assert_eq!(found, wanted);
    let made = |part: &String| flags(folder.path()).makes_part(part);
    assert!(found.keys().all(made) && !made(&"node-of-before".to_owned()));
}

#[test]
fn no_part_holds_the_key_of_an_authority_nor_anothers() {
    let folder = made();
    let (kept, parts) = (walk(&folder.path().join("keys")), walk(&folder.path().join("parts")));
    let mut authorities = 0;
    for name in ["pki/ca.key", "pki/front-proxy-ca.key", "pki/etcd/ca.key", "pki/konnectivity/ca.key", "nats/ca.key"] {
        let key = secrets(&kept[name]);
        assert!(!key.is_empty(), "{name}");
        for (path, content) in &parts {
            assert!(secrets(content).is_disjoint(&key), "{path} holds {name}");
        }
        authorities += 1;
    }
    assert_eq!(authorities, kept.keys().filter(|name| name.ends_with("ca.key")).count(), "all of them are known here");
    // No two parts may share a secret.
    let mut holders: BTreeMap<String, String> = BTreeMap::new();
    for (path, content) in &parts {
        let part = path.split('/').next().unwrap();
        for secret in secrets(content) {
            let before = holders.insert(secret, part.to_owned());
            assert!(before.is_none_or(|before| before == part), "{path}");
        }
    }
    let token: BTreeSet<&str> = secrets(&kept["pki/sa.key"]).iter().map(|secret| holders[secret].as_str()).collect();
    assert_eq!(token.into_iter().collect::<Vec<_>>(), ["apiserver"]);
    let admin: BTreeSet<&str> = secrets(&kept["kubeconfig"]).iter().map(|secret| holders[secret].as_str()).collect();
    assert_eq!(admin.into_iter().collect::<Vec<_>>(), ["user"]);
}

#[test]
fn nobody_but_its_owner_reads_what_a_part_keeps_secret() {
    let folder = made();
    for (path, content) in walk(folder.path()) {
        if !secrets(&content).is_empty() || path.ends_with("nats.conf") {
            let mode = folder.path().join(&path).metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{path}");
        }
    }
}

#[test]
fn an_api_server_needs_no_key_of_an_authority() {
    let folder = made();
    let pki = oarlock_pki::Pki::read(&folder.path().join("parts/apiserver/pki")).unwrap();
    assert!(pki.ca.key_pem().is_none() && pki.front_proxy_ca.key_pem().is_none());
    assert!(pki.ca.signed(&pki.serving.certificate));
    let node = Kubeconfig::read(&folder.path().join("parts/nodes/node-1.kubeconfig")).unwrap();
    let node = node.resolve(None).unwrap();
    assert_eq!(node.server, "https://balancer:6443", "nodes need not share a network with API servers");
    let scheduler = Kubeconfig::read(&folder.path().join("parts/scheduler/kubeconfig")).unwrap();
    assert_eq!(scheduler.resolve(None).unwrap().server, "https://apiserver:6443");
    let oarlock_config::Credential::Certificate(pair) = node.credential else { panic!() };
    let chain = oarlock_pki::parse_chain(&pair.certificate).unwrap();
    let facts = oarlock_pki::Presented::parse(&chain[0]).unwrap();
    assert_eq!(facts.subject, oarlock_pki::Subject::node("node-1"));
    assert!(pki.ca.signed(&chain[0]));
}

#[test]
fn monitoring_may_read_metrics_and_knows_every_part_by_its_certificate() {
    let folder = made();
    let parts = folder.path().join("parts");
    let pki = oarlock_pki::Pki::read(&parts.join("apiserver/pki")).unwrap();
    let presented = |file: &str| {
        let chain = oarlock_pki::parse_chain(&std::fs::read_to_string(parts.join(file)).unwrap()).unwrap();
        assert!(pki.ca.signed(&chain[0]), "{file}");
        oarlock_pki::Presented::parse(&chain[0]).unwrap()
    };
    assert_eq!(
        presented("monitoring/client.crt").subject,
        oarlock_pki::Subject::user("prometheus", ["system:monitoring"])
    );
    let authority = std::fs::read_to_string(parts.join("monitoring/ca.crt")).unwrap();
    assert_eq!(authority, pki.ca.certificate_pem());
    for part in ["admission", "cloud-controller-manager", "controller-manager", "scheduler"] {
        assert!(presented(&format!("{part}/server.crt")).sans.contains(&oarlock_pki::San::parse(part)), "{part}");
    }
}

/// Returns the names in the certificate of the tunnel's server.
fn tunnel_names(folder: &Path) -> Vec<oarlock_pki::San> {
    let text = std::fs::read_to_string(folder.join("parts/konnectivity-server/server.crt")).unwrap();
    oarlock_pki::Presented::parse(&oarlock_pki::parse_chain(&text).unwrap()[0]).unwrap().sans
}

#[test]
fn the_tunnels_server_and_its_agents_know_each_other_by_an_authority_of_their_own() {
    let folder = made();
    let parts = folder.path().join("parts");
    let read = |file: &str| std::fs::read_to_string(parts.join(file)).unwrap();
    let pki = oarlock_pki::Pki::read(&parts.join("apiserver/pki")).unwrap();
    // Whom the server admits, and whom agents take for the server.
    for (part, certificate) in [
        ("konnectivity-server", "konnectivity-agent/agent.crt"),
        ("konnectivity-agent", "konnectivity-server/server.crt"),
    ] {
        let authority = oarlock_pki::Authority::believed(&read(&format!("{part}/ca.crt"))).unwrap();
        let presented = oarlock_pki::parse_chain(&read(certificate)).unwrap();
        assert!(authority.signed(&presented[0]) && !pki.ca.signed(&presented[0]), "{certificate}");
        assert!(
            !authority.signed(&pki.kubelet_client.certificate),
            "{part} admits what the cluster's authority signed"
        );
    }
    let names = ["konnectivity-server", "localhost", "tunnel.example.org", "127.0.0.1"].map(oarlock_pki::San::parse);
    let found = tunnel_names(folder.path());
    assert!(found.len() == names.len() && names.iter().all(|name| found.contains(name)), "{found:?}");
}

#[test]
fn the_tunnels_server_has_the_names_of_the_api_servers_unless_others_are_given() {
    let folder = made();
    let before = walk(folder.path());
    keys(KeysArgs { konnectivity_san: Vec::new(), ..flags(folder.path()) }).unwrap();
    let names = tunnel_names(folder.path());
    assert!(names.contains(&oarlock_pki::San::parse("apiserver")), "{names:?}");
    assert!(!names.contains(&oarlock_pki::San::parse("tunnel.example.org")), "{names:?}");
    // Other names renew the certificate that has them, and no other.
    let after = walk(folder.path());
    let changed: BTreeSet<&str> =
        after.iter().filter(|(name, content)| before[*name] != **content).map(|(name, _)| name.as_str()).collect();
    let server = ["keys/pki/konnectivity", "parts/konnectivity-server"];
    let wanted = server.iter().flat_map(|folder| ["crt", "key"].map(|end| format!("{folder}/server.{end}")));
    assert_eq!(changed.into_iter().map(str::to_owned).collect::<BTreeSet<_>>(), wanted.collect());
}

#[test]
fn a_directory_from_before_the_tunnel_gains_its_keys_and_keeps_its_own() {
    let folder = made();
    for of_tunnel in ["keys/pki/konnectivity", "parts/konnectivity-server", "parts/konnectivity-agent"] {
        std::fs::remove_dir_all(folder.path().join(of_tunnel)).unwrap();
    }
    let before = walk(folder.path());
    // API servers read such a directory as ever.
    oarlock_pki::Pki::read(&folder.path().join("parts/apiserver/pki")).unwrap();
    keys(flags(folder.path())).unwrap();
    let mut after = walk(folder.path());
    assert_eq!(after.iter().filter(|(name, _)| name.contains("konnectivity")).count(), 6 + 3 + 3);
    after.retain(|name, _| !name.contains("konnectivity"));
    assert!(after == before, "another file has changed");
}
