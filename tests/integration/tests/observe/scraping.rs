//! What Prometheus reads of compose.yaml, as data. `faults::compose` and docs/operations/observe.md have the whole running.

use std::collections::BTreeSet;

use serde_norway::Value;

use super::{promtool, read};
use crate::compose_file::flat;

/// Services of compose.yaml that serve metrics, with the port.
const SERVED: [(&str, u64); 6] = [
    ("admission", 10260),
    ("apiserver", 6443),
    ("containerd-node", 10250),
    ("controller-manager", 10257),
    ("nodes", 10250),
    ("scheduler", 10259),
];

#[test]
fn every_part_is_read_and_known_by_its_certificate() {
    let file: Value = serde_norway::from_str(&read("observe/prometheus.yml")).unwrap();
    let jobs = file["scrape_configs"].as_sequence().unwrap();
    let mut found = BTreeSet::new();
    for job in jobs {
        assert_eq!(job["scheme"].as_str(), Some("https"));
        let target = &job["dns_sd_configs"][0];
        let name = target["names"][0].as_str().unwrap();
        let tls = flat(job["tls_config"].as_mapping().unwrap());
        assert_eq!(tls["server_name"].as_str(), Some(name));
        assert!(tls.get("insecure_skip_verify").is_none(), "{name}");
        for (key, path) in
            [("ca_file", "/keys/ca.crt"), ("cert_file", "/keys/client.crt"), ("key_file", "/keys/client.key")]
        {
            assert_eq!(tls[key].as_str(), Some(path), "{name}");
        }
        found.insert((name.to_owned(), target["port"].as_u64().unwrap()));
    }
    assert_eq!(found, BTreeSet::from(SERVED.map(|(name, port)| (name.to_owned(), port))));
    assert_eq!(jobs.len(), SERVED.len());
}

/// The rules and dashboards of kube-prometheus select by these jobs, and by the path of a kubelet's endpoint.
#[test]
fn targets_have_the_labels_that_other_rules_select_by() {
    let file: Value = serde_norway::from_str(&read("observe/prometheus.yml")).unwrap();
    let jobs = file["scrape_configs"].as_sequence().unwrap();
    let rules = |job: &Value| job["relabel_configs"].as_sequence().cloned().unwrap_or_default();
    let replaced = |job: &Value| {
        let of_job = rules(job).into_iter().find(|rule| rule["target_label"].as_str() == Some("job"));
        of_job.unwrap_or_else(|| job.clone())
    };
    let name = |job: &Value| {
        let rule = replaced(job);
        rule.get("replacement").or(rule.get("job_name")).unwrap().as_str().unwrap().to_owned()
    };
    for wanted in ["apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"] {
        assert!(jobs.iter().any(|job| name(job) == wanted), "{wanted}");
    }
    for kubelet in jobs.iter().filter(|job| name(job) == "kubelet") {
        let has_path = rules(kubelet).iter().any(|rule| {
            rule["source_labels"][0].as_str() == Some("__metrics_path__")
                && rule["target_label"].as_str() == Some("metrics_path")
        });
        assert!(has_path, "{}", kubelet["job_name"].as_str().unwrap());
    }
}

/// Prometheus reads the file as it is; only the keys and rules are elsewhere.
#[test]
fn prometheus_takes_its_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let text = read("observe/prometheus.yml").replace("/keys/", &format!("{}/", folder.path().display()));
    let text = text.replace("/etc/prometheus/rules/", &format!("{}/", super::root().join("observe/rules").display()));
    let file = folder.path().join("prometheus.yml");
    std::fs::write(&file, text).unwrap();
    promtool(&["check", "config", "--syntax-only", file.to_str().unwrap()]);
}
