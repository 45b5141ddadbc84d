//! Reads compose.yaml and the Dockerfile: which user each service runs as, and which keys it sees. `faults::compose` runs the services, where there is
//! docker.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_norway::{Mapping, Value};

/// The only service that runs as root, because its containers are real.
const ROOT: &str = "containerd-node";
/// The service that makes all keys and then ends.
const KEYS: &str = "keys";

/// The volume of keys that each service mounts: the one of its part.
const SEES: [(&str, &[&str]); 21] = [
    ("admission", &["keys-admission"]),
    ("apiserver", &["keys-apiserver"]),
    ("balancer", &[]),
    ("containerd-node", &["keys-containerd-node"]),
    ("controller-manager", &["keys-controller-manager"]),
    ("etcd-0", &["keys-etcd"]),
    ("etcd-1", &["keys-etcd"]),
    ("etcd-2", &["keys-etcd"]),
    ("grafana", &[]),
    ("jaeger", &[]),
    ("konnectivity-agent", &["keys-konnectivity-agent"]),
    ("konnectivity-server", &["keys-konnectivity-server"]),
    ("nats-0", &["keys-nats"]),
    ("nats-1", &["keys-nats"]),
    ("nats-2", &["keys-nats"]),
    ("nodes", &["keys-nodes"]),
    ("prometheus", &["keys-monitoring"]),
    ("ready", &["keys-user"]),
    ("scheduler", &["keys-scheduler"]),
    ("victoria-metrics", &["keys-monitoring"]),
    (
        KEYS,
        &[
            "keys",
            "keys-admission",
            "keys-apiserver",
            "keys-cloud-controller-manager",
            "keys-containerd-node",
            "keys-controller-manager",
            "keys-etcd",
            "keys-konnectivity-agent",
            "keys-konnectivity-server",
            "keys-monitoring",
            "keys-nats",
            "keys-nodes",
            "keys-scheduler",
            "keys-user",
        ],
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

/// A mapping with all merged mappings; its own keys take precedence.
pub(crate) fn flat(mapping: &Mapping) -> Mapping {
    let mut mapping = mapping.clone();
    while let Some(merged) = mapping.remove("<<") {
        for (key, value) in merged.as_mapping().unwrap() {
            mapping.entry(key.clone()).or_insert(value.clone());
        }
    }
    mapping
}

/// Returns every service by its name, and the whole file.
fn services() -> (BTreeMap<String, Mapping>, Value) {
    let file: Value = serde_norway::from_str(&read("compose.yaml")).unwrap();
    let services = file["services"].as_mapping().unwrap().iter();
    let services =
        services.map(|(name, service)| (name.as_str().unwrap().to_owned(), flat(service.as_mapping().unwrap())));
    (services.collect(), file)
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_sequence).into_iter().flatten();
    items.map(|item| item.as_str().unwrap().to_owned()).collect()
}

/// Returns name, path and options of each volume that a service mounts.
fn mounts(service: &Mapping) -> Vec<(String, String, String)> {
    let parse = |text: String| {
        let mut fields = text.splitn(3, ':').map(str::to_owned);
        let (what, place) = (fields.next().unwrap(), fields.next().unwrap());
        (what, place, fields.next().unwrap_or_default())
    };
    texts(service.get("volumes")).into_iter().map(parse).collect()
}

#[test]
fn no_part_but_the_real_node_is_root_or_has_a_capability() {
    let (services, _) = services();
    for (name, service) in &services {
        assert!(service.get("privileged").is_none(), "{name}");
        assert!(service.get("pid").is_none() && service.get("ipc").is_none(), "{name}");
        if name == ROOT {
            continue;
        }
        assert_eq!(service.get("user").and_then(Value::as_str), Some("65532:65532"), "{name}");
        assert_eq!(texts(service.get("cap_drop")), ["ALL"], "{name}");
        assert!(service.get("cap_add").is_none() && service.get("devices").is_none(), "{name}");
        assert_eq!(texts(service.get("security_opt")), ["no-new-privileges:true"], "{name}");
        assert_eq!(service.get("read_only").and_then(Value::as_bool), Some(true), "{name}");
        assert_ne!(service.get("network_mode").and_then(Value::as_str), Some("host"), "{name}");
        for port in texts(service.get("ports")) {
            assert!(port.starts_with("127.0.0.1:"), "{name} serves other hosts at {port}");
        }
        for (what, ..) in mounts(service) {
            assert!(!what.starts_with(['/', '.', '~', '$']), "{name} mounts {what} of the host");
        }
    }
}

#[test]
fn each_service_sees_the_keys_of_its_own_part() {
    let (services, file) = services();
    let seen: BTreeMap<&str, BTreeSet<String>> = services
        .iter()
        .map(|(name, service)| {
            let keys = mounts(service).into_iter().filter(|(what, ..)| what.starts_with("keys"));
            let keys = keys.map(|(what, place, how)| {
                assert_eq!(how, if name == KEYS { "" } else { "ro,nocopy" }, "{name} mounts {what}");
                assert!(name == KEYS || place == "/keys", "{name} has {what} at {place}");
                what
            });
            (name.as_str(), keys.collect())
        })
        .collect();
    let wanted: BTreeMap<&str, BTreeSet<String>> =
        SEES.iter().map(|(name, keys)| (*name, keys.iter().map(|key| (*key).to_owned()).collect())).collect();
    assert_eq!(seen, wanted);
    for volume in mounts(&services[KEYS]).into_iter().map(|(what, ..)| what) {
        assert!(file["volumes"].as_mapping().unwrap().contains_key(volume.as_str()), "{volume}");
    }
    // The credentials of the node and of the user are given in no other way.
    let text = read("compose.yaml");
    assert!(!text.contains("kubelet.kubeconfig") && !text.contains("--insecure-bind"));
}

#[test]
fn everything_between_hosts_is_encrypted() {
    let (services, file) = services();
    let (text, nats) = (read("compose.yaml"), "--nats-servers");
    assert!(!text.contains("nats://"), "a client of the bus without TLS");
    assert_eq!(text.matches("tls://nats-0:4222").count(), text.matches(nats).count());
    // The two flags are written once and referenced elsewhere, or stand side by side.
    assert_eq!(text.matches("--nats-ca").count(), text.matches(nats).count());
    for name in ["etcd-0", "etcd-1", "etcd-2"] {
        let environment = flat(services[name].get("environment").unwrap().as_mapping().unwrap());
        for (key, value) in &environment {
            let (key, value) = (key.as_str().unwrap(), value.as_str().unwrap_or_default());
            assert!(!value.contains("http://"), "{name}: {key} {value}");
        }
        let is = |key: &str, wanted: &str| environment.get(key).and_then(Value::as_str) == Some(wanted);
        assert!(is("ETCD_CLIENT_CERT_AUTH", "true") && is("ETCD_PEER_CLIENT_CERT_AUTH", "true"), "{name}");
        assert!(is("ETCD_PEER_CERT_ALLOWED_CN", "etcd-peer"), "{name}: a client is no member");
    }
    let words = texts(services["apiserver"].get("command"));
    assert!(words.iter().any(|word| word.starts_with("--etcd-servers=https://")), "{words:?}");
    assert!(words.iter().all(|word| !word.contains("http://")), "{words:?}");
    assert!(texts(services[KEYS].get("command"))[0].contains("--nats-routes"), "routes without certificates");
    assert!(file["configs"].as_mapping().unwrap().get("nats").is_none(), "the servers' own configuration says it");
}

/// Returns the networks of a service.
fn networks(service: &Mapping) -> BTreeSet<String> {
    if service.contains_key("network_mode") {
        return BTreeSet::new();
    }
    let named = texts(service.get("networks"));
    if named.is_empty() { BTreeSet::from(["default".to_owned()]) } else { named.into_iter().collect() }
}

#[test]
fn api_servers_reach_nodes_through_the_tunnel_only() {
    let (services, file) = services();
    let api = &services["apiserver"];
    let of = |name: &str| networks(&services[name]);
    // Nobody forwards between networks.
    for node in ["nodes", ROOT] {
        assert!(of(node).is_disjoint(&networks(api)), "{node} and API servers share a network");
        assert!(!of(node).is_disjoint(&of("konnectivity-agent")), "{node} is out of the agent's reach");
    }
    assert!(!of("konnectivity-agent").is_disjoint(&of("konnectivity-server")));
    assert!(of("konnectivity-server").is_disjoint(&networks(api)), "a socket is the only way between the two");
    let config = &file["configs"]["egress"]["file"];
    let egress = read(config.as_str().unwrap());
    let socket = texts(services["konnectivity-server"].get("command"))
        .iter()
        .find_map(|word| word.strip_prefix("--uds-name=").map(str::to_owned))
        .unwrap();
    assert!(egress.contains(&format!("udsName: {socket}}}")), "{egress}");
    let sources = api["configs"].as_sequence().unwrap();
    let target = sources.iter().find(|config| config["source"] == "egress").unwrap()["target"].as_str().unwrap();
    let words = texts(api.get("command"));
    assert!(words.contains(&format!("--egress-selector-config-file={target}")), "{words:?}");
    // Nobody else may dial nodes.
    let holders: BTreeSet<&str> = services
        .iter()
        .filter(|(_, service)| mounts(service).iter().any(|(what, ..)| what == "konnectivity"))
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(holders, BTreeSet::from(["apiserver", KEYS, "konnectivity-server"]));
}

/// What only looks on must not take the memory of what it looks at.
#[test]
fn what_observes_has_a_memory_limit() {
    let (services, _) = services();
    let observes =
        |service: &Mapping| texts(service.get("profiles")).iter().any(|name| name == "observe" || name == "vmui");
    let observers: Vec<_> = services.iter().filter(|(_, service)| observes(service)).collect();
    assert_eq!(observers.len(), 4);
    for (name, service) in observers {
        assert!(service.get("mem_limit").is_some(), "{name}");
        // What is in a tmpfs counts towards the limit.
        assert!(texts(service.get("tmpfs")).iter().all(|tmpfs| tmpfs.contains(",size=")), "{name}");
    }
}

/// Compose writes a configuration from the file into the container, which fails for a read-only container.
#[test]
fn what_cannot_be_written_to_gets_its_configuration_from_a_file() {
    let (services, file) = services();
    for (name, service) in services.iter().filter(|(name, _)| *name != ROOT) {
        for config in service.get("configs").and_then(Value::as_sequence).into_iter().flatten() {
            let source = config["source"].as_str().unwrap();
            let path = file["configs"][source]["file"].as_str().unwrap_or_else(|| panic!("{name}: {source}"));
            assert!(root().join(path).is_file(), "{name}: {path}");
        }
    }
}

/// A new volume gets the owner of the image's folder over which the volume is mounted first.
#[test]
fn every_volume_belongs_to_nobody_who_is_root() {
    let (services, _) = services();
    let text = read("Dockerfile");
    let last = text.rsplit("\nFROM ").next().unwrap().replace("\\\n", " ");
    assert!(last.contains("\nUSER 65532:65532\n"), "{last}");
    let install = last.lines().find(|line| line.starts_with("RUN install -d -m 0700 -o 65532 -g 65532 ")).unwrap();
    let folders: BTreeSet<&str> = install.split_whitespace().filter(|word| word.starts_with('/')).collect();
    let first = mounts(&services[KEYS]);
    for (what, place, _) in &first {
        assert!(folders.contains(place.as_str()), "{what} is first mounted at {place}, which the image does not have");
    }
    let first: BTreeSet<String> = first.into_iter().map(|(what, ..)| what).collect();
    for (name, service) in services.iter().filter(|(name, _)| *name != ROOT) {
        for (what, _, how) in mounts(service) {
            assert!(first.contains(&what), "{name} may be the first to mount {what}");
            assert!(
                name == KEYS || how.split(',').any(|word| word == "nocopy"),
                "{name} may give {what} another owner"
            );
        }
        let waits = flat(&service.get("depends_on").and_then(Value::as_mapping).cloned().unwrap_or_default());
        let writes = name != KEYS && !mounts(service).is_empty();
        assert!(!writes || waits.contains_key(KEYS), "{name} does not wait for {KEYS}");
    }
}

/// `up --wait` fails for every service that ends, unless others wait for that end.
#[test]
fn who_is_waited_for_stays() {
    let (services, _) = services();
    let ends = "service_completed_successfully";
    let awaited =
        services.values().any(|service| service.get("depends_on").is_some_and(|on| on[KEYS]["condition"] == ends));
    assert!(awaited);
    for (name, service) in services.iter().filter(|(name, _)| *name != KEYS) {
        assert!(service.get("healthcheck").is_some(), "{name} does not say how it is");
        let restarts = service.get("restart").and_then(Value::as_str) == Some("unless-stopped");
        let stays = restarts
            || texts(service.get("command"))
                .last()
                .is_some_and(|text| text.trim_end().ends_with("exec sleep infinity"));
        assert!(stays, "{name} ends");
    }
}
