//! `oarlock keys --to-secret`, run as the chart runs it, against a real API server of the hosting cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oarlock_config::{Credential, Kubeconfig};
use oarlock_testkit::{Cluster, Ran};
use serde_json::Value;

use super::helm::{EVERYTHING, Helm};
use super::rules::{items, name, pods};

/// A minimal command line.
const KEYS: [&str; 7] = [
    "keys",
    "--to-secret=rel-keys",
    "--namespace=default",
    "--server=https://api:6443",
    "--tls-san=api",
    "--etcd-san=etcd-0",
    "--nats-tls-san=nats-0",
];

/// Runs `oarlock` with these words, as a user of this kubeconfig.
fn run(kubeconfig: &Path, words: &[&str]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(oarlock_testkit::oarlock());
    // Where it works must be as it was afterwards.
    command.env("TMPDIR", folder.path()).args(words).arg("--kubeconfig").arg(kubeconfig);
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "keys stay in a temporary folder");
    Ran {
        line: format!("oarlock {}", words.join(" ")),
        code: output.status.code().unwrap_or(-1),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// Returns every Secret of the namespace by its name, as kubectl shows them.
fn secrets(cluster: &Cluster) -> BTreeMap<String, Value> {
    let list: Value = serde_json::from_str(&cluster.kubectl().ok("get secrets -o json")).unwrap();
    let named = |secret: &Value| (secret["metadata"]["name"].as_str().unwrap().to_owned(), secret.clone());
    items(&list["items"]).map(named).collect()
}

fn data(secret: &Value, key: &str) -> String {
    let text = secret["data"][key].as_str().unwrap_or_else(|| panic!("no {key}"));
    String::from_utf8(STANDARD.decode(text).unwrap()).unwrap()
}

/// Returns the names in the API servers' certificate.
fn names(secrets: &BTreeMap<String, Value>) -> Vec<oarlock_pki::San> {
    let chain = oarlock_pki::parse_chain(&data(&secrets["rel-keys-apiserver"], "pki_apiserver.crt")).unwrap();
    oarlock_pki::Presented::parse(&chain[0]).unwrap().sans
}

#[test]
fn keys_are_made_once_and_only_what_another_flag_concerns_is_renewed() {
    let cluster = Cluster::api_only();
    let made = run(&cluster.kubeconfig(), &KEYS).ok();
    assert_eq!(made.out.lines().count(), 12, "{made}");
    assert!(made.out.lines().all(|line| line.ends_with(" created")), "{made}");
    let first = secrets(&cluster);
    assert_eq!(first.len(), 12);

    // Again: nothing is written.
    let again = run(&cluster.kubeconfig(), &KEYS).ok();
    assert!(again.out.lines().all(|line| line.ends_with(" unchanged")), "{again}");
    assert_eq!(secrets(&cluster), first);

    // Another name of the API servers: their certificate, and what holds it. The tunnel's servers have the same names here.
    let more = [KEYS.as_slice(), &["--tls-san=api.example.org"]].concat();
    let renewed = run(&cluster.kubeconfig(), &more).ok();
    let changed =
        |ran: &Ran| ran.out.lines().filter(|line| line.ends_with(" changed")).map(str::to_owned).collect::<Vec<_>>();
    let renews = ["all", "apiserver", "konnectivity-server"].map(|part| format!("secret/rel-keys-{part} changed"));
    assert_eq!(changed(&renewed), renews);
    let second = secrets(&cluster);
    assert!(names(&second).contains(&oarlock_pki::San::parse("api.example.org")));
    assert_eq!(second["rel-keys-apiserver"]["data"]["pki_ca.crt"], first["rel-keys-apiserver"]["data"]["pki_ca.crt"]);
    assert_eq!(second["rel-keys-apiserver"]["data"]["pki_sa.key"], first["rel-keys-apiserver"]["data"]["pki_sa.key"]);

    // A Secret that somebody deletes or changes is as it was after the next run; labels of others stay.
    let kubectl = cluster.kubectl();
    kubectl.ok("delete secret rel-keys-scheduler");
    kubectl.ok("patch secret rel-keys-nats --type=merge -p {\"data\":{\"more\":\"YQ==\"}}");
    kubectl.ok("label secret rel-keys-nats mine=true");
    let healed = run(&cluster.kubeconfig(), &more).ok();
    assert_eq!(changed(&healed), ["secret/rel-keys-nats changed"]);
    let third = secrets(&cluster);
    assert_eq!(third["rel-keys-scheduler"]["data"], second["rel-keys-scheduler"]["data"]);
    assert_eq!(third["rel-keys-nats"]["data"], second["rel-keys-nats"]["data"]);
    assert_eq!(third["rel-keys-nats"]["metadata"]["labels"]["mine"], "true");
}

#[test]
fn a_node_has_a_secret_of_its_own_and_loses_it_to_no_later_run() {
    let cluster = Cluster::api_only();
    let node = ["--part-nodes=10.0.0.11=edge-1", "--node-server=https://api.example.org"];
    let _ = run(&cluster.kubeconfig(), &[KEYS.as_slice(), &node].concat()).ok();
    let first = secrets(&cluster);
    let kubeconfig = data(&first["rel-keys-10.0.0.11"], "edge-1.kubeconfig");
    let endpoint = Kubeconfig::parse(&kubeconfig, Path::new("k")).unwrap().resolve(None).unwrap();
    assert_eq!(endpoint.server, "https://api.example.org");
    // A run without the node may not write its Secret (the hook has a right for each name), and need not.
    let without = run(&cluster.kubeconfig(), &KEYS).ok();
    assert!(!without.out.contains("10.0.0.11"), "{without}");
    let second = secrets(&cluster);
    assert_eq!(second["rel-keys-10.0.0.11"], first["rel-keys-10.0.0.11"]);
    let kept = second["rel-keys-all"]["data"].as_object().unwrap();
    assert!(kept.keys().any(|key| key.starts_with("parts_scheduler")), "{:?}", kept.keys());
    assert_eq!(kept.keys().find(|key| key.starts_with("parts_10.")), None);
}

#[test]
fn only_one_secret_has_the_keys_of_authorities() {
    let cluster = Cluster::api_only();
    let _ = run(&cluster.kubeconfig(), &KEYS).ok();
    let secrets = secrets(&cluster);
    let all = &secrets["rel-keys-all"]["data"];
    let names = ["pki_ca.key", "pki_front-proxy-ca.key", "pki_etcd_ca.key", "pki_konnectivity_ca.key", "nats_ca.key"];
    let authorities: Vec<&Value> = names.iter().map(|key| &all[*key]).collect();
    assert!(authorities.iter().all(|key| key.is_string()));
    for (name, secret) in secrets.iter().filter(|(name, _)| *name != "rel-keys-all") {
        let data = secret["data"].as_object().unwrap();
        assert!(!data.is_empty() && data.values().all(|value| !authorities.contains(&value)), "{name}");
    }
    // A part's identity is its own.
    let kubeconfig = Kubeconfig::parse(&data(&secrets["rel-keys-scheduler"], "kubeconfig"), Path::new("k")).unwrap();
    let endpoint = kubeconfig.resolve(None).unwrap();
    assert_eq!(endpoint.server, "https://api:6443");
    let Credential::Certificate(pair) = endpoint.credential else { panic!("no certificate") };
    let chain = oarlock_pki::parse_chain(&pair.certificate).unwrap();
    assert_eq!(oarlock_pki::Presented::parse(&chain[0]).unwrap().subject.common_name, "system:kube-scheduler");
}

#[test]
fn many_runs_at_once_agree_on_one_authority() {
    let cluster = Cluster::api_only();
    let kubeconfig = cluster.kubeconfig();
    let runs: Vec<Ran> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| run(&kubeconfig, &KEYS))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for ran in runs {
        let _ = ran.ok();
    }
    let secrets = secrets(&cluster);
    let authority = &secrets["rel-keys-all"]["data"]["pki_ca.crt"];
    assert_eq!(&secrets["rel-keys-apiserver"]["data"]["pki_ca.crt"], authority);
    let authority = oarlock_pki::Authority::believed(&data(&secrets["rel-keys-all"], "pki_ca.crt")).unwrap();
    for (name, file) in [("apiserver", "pki_apiserver.crt"), ("scheduler", "server.crt"), ("monitoring", "client.crt")]
    {
        let chain = oarlock_pki::parse_chain(&data(&secrets[&format!("rel-keys-{name}")], file)).unwrap();
        assert!(authority.signed(&chain[0]), "{name}");
    }
}

#[test]
fn a_refusal_names_the_secret_and_what_is_missing() {
    let cluster = Cluster::api_only();
    let kubeconfig = cluster.kubeconfig();
    let nowhere = ["keys", "--to-secret=rel-keys", "--namespace=none"];
    let ran = run(&kubeconfig, &nowhere);
    assert!(ran.code == 1 && ran.err.contains("rel-keys-all") && ran.err.contains("none"), "{ran}");
    let ran = run(&kubeconfig, &["keys", "--to-secret=rel-keys"]);
    assert!(ran.code == 2 && ran.err.contains("--namespace"), "{ran}");
    let ran = run(&kubeconfig, &[KEYS.as_slice(), &["--parts=/tmp/x"]].concat());
    assert!(ran.code == 2 && ran.err.contains("--parts"), "{ran}");
    let ran = run(&kubeconfig, &[KEYS.as_slice(), &["--part-nodes=all=n"]].concat());
    assert!(ran.code == 1 && ran.err.contains("\"all\""), "{ran}");
    assert!(secrets(&cluster).is_empty(), "nothing is half made");
    // Keys that cannot be used are left alone.
    cluster
        .kubectl()
        .ok("create secret generic rel-keys-all --from-literal=pki_ca.crt=nonsense --from-literal=pki_ca.key=nonsense");
    let ran = run(&kubeconfig, &KEYS);
    assert!(ran.code == 1 && ran.err.contains("ca.crt"), "{ran}");
    assert_eq!(secrets(&cluster).len(), 1);
}

#[test]
fn the_charts_hook_makes_every_file_that_a_pod_mounts() {
    let Some(helm) = Helm::new() else { return };
    let cluster = Cluster::api_only();
    let objects = helm.template("rel", &EVERYTHING, &["--namespace", "default"]);
    let pods = pods(&objects);
    let hook = pods.iter().find(|pod| pod.owner == "Job/rel-keys-hook").unwrap();
    let words: Vec<&str> = items(&hook.containers().next().unwrap()["args"]).filter_map(Value::as_str).collect();
    let made = run(&cluster.kubeconfig(), &words).ok();
    let secrets = secrets(&cluster);
    let mut mounted = BTreeSet::new();
    for pod in &pods {
        for volume in items(&pod.spec["volumes"]) {
            let secret = volume["secret"]["secretName"].as_str().filter(|secret| secret.contains("-keys-"));
            let Some(secret) = secret else { continue };
            for item in items(&volume["secret"]["items"]) {
                let key = item["key"].as_str().unwrap();
                assert!(secrets[secret]["data"][key].is_string(), "{}: no {key} in {secret}", pod.owner);
                assert_eq!(item["path"].as_str().unwrap(), key.replace('_', "/"));
            }
            mounted.insert(secret.to_owned());
        }
    }
    // Prometheus reads one of them by itself, the agents and nodes are elsewhere, and nobody reads the last one.
    mounted.extend(["monitoring", "konnectivity-agent", "10.0.0.11", "all"].map(|part| format!("rel-keys-{part}")));
    assert_eq!(mounted, secrets.keys().cloned().collect());
    // The hook's rights are for these and no others.
    let role = objects.iter().find(|object| name(object) == "Role/rel-keys-hook").unwrap();
    let allowed: BTreeSet<String> =
        items(&role["rules"][0]["resourceNames"]).map(|name| name.as_str().unwrap().to_owned()).collect();
    assert_eq!(allowed, mounted);
    // The Services' names are in the certificate.
    for service in ["rel-apiserver", "rel-apiserver.default.svc", "rel-apiserver-pods.default.svc"] {
        assert!(names(&secrets).contains(&oarlock_pki::San::parse(service)), "{service}: {made}");
    }
}
