use std::path::Path;

use oarlock_meta::MicroTime;
use oarlock_schema::views::core_v1::Pod;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::directory::Directory;
use super::read::ManifestError;
use super::{Manifest, read};

const WEB: &str =
    "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: main, image: nginx:1}]}\n";

fn try_read(text: &str) -> Result<Manifest, ManifestError> {
    read(text.as_bytes(), Path::new("/m/web.yaml"), "node-1", MicroTime::from_unix_micros(1_767_225_600_000_000))
}

fn uid(text: &str, path: &str, node: &str) -> String {
    let read = read(text.as_bytes(), Path::new(path), node, MicroTime::from_unix_micros(0)).unwrap();
    read.pod.meta().uid().to_owned()
}

#[test]
fn a_manifest_becomes_the_pod_of_its_node() {
    let read = try_read(WEB).unwrap().pod;
    let pod: Value = serde_json::from_slice(&oarlock_client::encode(&read)).unwrap();
    let meta = &pod["metadata"];
    assert_eq!((&meta["name"], &meta["namespace"]), (&json!("web-node-1"), &json!("default")));
    let uid = meta["uid"].as_str().unwrap();
    assert!(uid.len() == 32 && uid.chars().all(|c| c.is_ascii_hexdigit()), "{uid}");
    let annotations = json!({
        "kubernetes.io/config.hash": uid,
        "kubernetes.io/config.seen": "2026-01-01T00:00:00.000000Z",
        "kubernetes.io/config.source": "file",
    });
    assert_eq!(meta["annotations"], annotations);
    let spec = &pod["spec"];
    assert_eq!((&spec["nodeName"], &spec["restartPolicy"]), (&json!("node-1"), &json!("Always")));
    assert_eq!(spec["tolerations"], json!([{"operator": "Exists", "effect": "NoExecute"}]));
    assert_eq!(spec["containers"][0]["imagePullPolicy"], "IfNotPresent");
    assert_eq!(pod["status"], json!({"phase": "Pending"}));
}

#[test]
fn the_uid_is_of_the_content_the_file_and_the_node() {
    let own = uid(WEB, "/m/a", "n1");
    assert_eq!(own, uid(&format!("# said otherwise\n{WEB}"), "/m/a", "n1"));
    let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"main","image":"nginx:1"}]}}"#;
    assert_eq!(own, uid(json, "/m/a", "n1"), "JSON says the same");
    assert_ne!(own, uid(WEB, "/m/b", "n1"));
    assert_ne!(own, uid(WEB, "/m/a", "n2"));
    assert_ne!(own, uid(&WEB.replace("nginx:1", "nginx:2"), "/m/a", "n1"));
    assert_eq!(uid(&WEB.replace("name: web", "name: web, uid: mine"), "/m/a", "n1"), "mine");
}

#[test]
fn what_only_a_server_says_is_forgotten_and_what_means_nothing_is_told() {
    let text = WEB.replace(
        "name: web",
        "name: web, deletionTimestamp: '2026-01-01T00:00:00Z', annotations: {kubernetes.io/config.mirror: x}",
    );
    let read = try_read(&format!("{text}status: {{phase: Failed}}\nspecs: {{}}\n")).unwrap();
    assert_eq!(read.findings.iter().map(ToString::to_string).collect::<Vec<_>>(), ["unknown field \"specs\""]);
    let pod: Pod<'_> = read.pod.view().unwrap();
    assert_eq!(pod.status().phase(), "Pending");
    assert!(pod.metadata().deletion_timestamp().is_none());
    assert_eq!(pod.metadata().annotations().get(super::MIRROR), None);
}

#[test]
fn what_cannot_be_run_is_refused_with_upstreams_reason() {
    let with = |more: &str| WEB.replace("spec: {", &format!("spec: {{{more}, "));
    let volume = |source: &str| with(&format!("volumes: [{{name: v, {source}}}]"));
    let env = |from: &str| WEB.replace("image:", &format!("env: [{{name: X, valueFrom: {{{from}}}}}], image:"));
    let cases = [
        ("{", "couldn't parse as pod("),
        ("kind: Deployment\napiVersion: apps/v1\n", "couldn't parse as pod("),
        (&WEB.replace("name: web", "generateName: web"), "invalid pod: name is needed for the pod"),
        (
            &WEB.replace("image: nginx:1", "imagePullPolicy: Soon"),
            "invalid pod: [spec.containers[0].image: Required value",
        ),
        (&with("serviceAccountName: me"), "static pods may not reference serviceaccounts"),
        (&with("imagePullSecrets: [{name: s}]"), "static pods may not reference secrets"),
        (&env("secretKeyRef: {name: s, key: k}"), "static pods may not reference secrets"),
        (&env("configMapKeyRef: {name: c, key: k}"), "static pods may not reference configmaps"),
        (&volume("secret: {secretName: s}"), "static pods may not reference secrets"),
        (&volume("configMap: {name: c}"), "static pods may not reference configmaps"),
        (&volume("projected: {sources: [{configMap: {name: c}}]}"), "static pods may not reference configmaps"),
        (&volume("persistentVolumeClaim: {claimName: c}"), "static pods may not reference persistentvolumeclaims"),
        (&volume("csi: {driver: d.example}"), "static pods may not reference csidrivers (via CSI volumes)"),
        (&with("resourceClaims: [{name: r, resourceClaimName: c}]"), "static pods may not reference resourceclaims"),
    ];
    for (text, want) in cases {
        let why = try_read(text).unwrap_err().to_string();
        assert!(why.starts_with(want), "{text}: {why}");
    }
    let projected =
        "projected: {sources: [{downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}]}";
    for source in ["emptyDir: {}", "hostPath: {path: /x}", projected] {
        try_read(&volume(source)).unwrap();
    }
}

#[test]
fn damaged_manifests_are_refused_or_read() {
    for damaged in oarlock_testkit::damaged(7, WEB.as_bytes(), 2000) {
        let _ = read(&damaged, Path::new("/m"), "n1", MicroTime::from_unix_micros(0));
    }
}

/// Returns file names and contents of a directory.
async fn look(directory: &mut Directory) -> Vec<(String, String)> {
    let found = directory.look().await.unwrap();
    let text = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    found.iter().map(|(path, bytes)| (text(path), String::from_utf8(bytes.to_vec()).unwrap())).collect()
}

async fn change(directory: &mut Directory) {
    oarlock_testkit::wait::step("a change is noticed", directory.changed()).await;
}

fn file(name: &str, text: &str) -> (String, String) {
    (name.to_owned(), text.to_owned())
}

#[tokio::test]
async fn a_directory_tells_what_lies_in_it_and_when_that_changes() {
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("b.yaml"), "b").unwrap();
    std::fs::write(at(".hidden"), "no").unwrap();
    std::fs::create_dir(at("sub")).unwrap();
    std::fs::write(at("sub/c.yaml"), "no").unwrap();
    std::os::unix::fs::symlink(at("nowhere"), at("dangling")).unwrap();
    let mut directory = Directory::new(dir.path().to_owned());
    assert_eq!(look(&mut directory).await, [file("b.yaml", "b")]);
    std::fs::write(at("a.json"), "a").unwrap();
    change(&mut directory).await;
    assert_eq!(look(&mut directory).await, [file("a.json", "a"), file("b.yaml", "b")]);
    // The sequence of operations by which editors replace a file.
    std::fs::write(at(".b.swp"), "c").unwrap();
    std::fs::rename(at(".b.swp"), at("b.yaml")).unwrap();
    change(&mut directory).await;
    assert_eq!(look(&mut directory).await, [file("a.json", "a"), file("b.yaml", "c")]);
    std::fs::remove_file(at("a.json")).unwrap();
    change(&mut directory).await;
    assert_eq!(look(&mut directory).await, [file("b.yaml", "c")]);
}

#[tokio::test]
async fn a_directory_may_come_go_and_come_again() {
    let dir = TempDir::new().unwrap();
    let (path, kept) = (dir.path().join("manifests"), dir.path().join("kept"));
    let mut directory = Directory::new(path.clone());
    assert_eq!(look(&mut directory).await, []);
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("a"), "a").unwrap();
    change(&mut directory).await;
    assert_eq!(look(&mut directory).await, [file("a", "a")]);
    std::fs::rename(&path, &kept).unwrap();
    change(&mut directory).await;
    assert_eq!(look(&mut directory).await, []);
    std::fs::rename(&kept, &path).unwrap();
    change(&mut directory).await;
    assert_eq!(look(&mut directory).await, [file("a", "a")]);
}

#[tokio::test]
async fn a_single_file_is_followed_through_its_replacements() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("web.yaml");
    std::fs::write(&path, "1").unwrap();
    let mut directory = Directory::new(path.clone());
    assert_eq!(look(&mut directory).await, [file("web.yaml", "1")]);
    std::fs::write(dir.path().join("next"), "2").unwrap();
    std::fs::rename(dir.path().join("next"), &path).unwrap();
    change(&mut directory).await;
    assert_eq!(look(&mut directory).await, [file("web.yaml", "2")]);
}

#[tokio::test]
async fn what_is_too_large_or_no_file_is_left_out() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("large"), vec![b' '; (10 << 20) + 1]).unwrap();
    std::fs::write(dir.path().join("fine"), "f").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
    let mut directory = Directory::new(dir.path().to_owned());
    assert_eq!(look(&mut directory).await, [file("fine", "f")]);
}
