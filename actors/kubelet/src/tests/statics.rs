//! Tests of static pods and their mirrors.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use super::*;
use crate::manifests::Files;

/// Returns manifests by file name.
fn files(all: &[(&str, Value)]) -> Files {
    let one = |(name, pod): &(&str, Value)| (format!("/m/{name}").into(), pod.to_string().into_bytes().into());
    Some(Arc::new(all.iter().map(one).collect::<BTreeMap<_, _>>()))
}

/// Returns the manifest of a pod `web`.
fn manifest(change: &Value) -> Value {
    let mut pod = pod("web", change);
    pod["spec"].as_object_mut().unwrap().remove("nodeName");
    pod
}

async fn world(down: bool, manifests: Files) -> (World, watch::Sender<Files>) {
    let system = System::start(Options::default()).await.unwrap();
    let (api, fleet) = (Api::default(), Fleet::new(system.clone()));
    api.down(down);
    let (sender, receiver) = watch::channel(None);
    sender.send_replace(manifests);
    fleet.take_manifests(receiver);
    let node = fleet.add(api.client(), NodeConfig::simulated("n1", 0)).await.unwrap();
    (World { system, api, fleet, node }, sender)
}

impl World {
    /// Waits for the pod that the kubelet itself runs, and returns its container's id.
    async fn runs(&self, limit: u64) -> String {
        let deadline = clock::after(Duration::from_secs(limit));
        loop {
            let found = self.node.find("default", "web-n1").await.unwrap().unwrap_or_default();
            if let Some((_, id)) = found.running.first() {
                return id.to_string();
            }
            assert!(!deadline.passed(), "it does not run: {found:?}");
            clock::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn found(&self) -> bool {
        self.node.find("default", "web-n1").await.unwrap().is_some()
    }
}

fn id(pod: &Value) -> &str {
    container(pod)["containerID"].as_str().unwrap().strip_prefix("sim://").unwrap()
}

fn hash(pod: &Value) -> String {
    pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].as_str().unwrap_or("").to_owned()
}

#[test]
fn a_static_pod_runs_without_an_api_and_is_shown_once_there_is_one() {
    sweep(|| async {
        let (world, _files) = world(true, files(&[("web.json", manifest(&json!({})))])).await;
        let own = world.runs(5).await;
        clock::sleep(Duration::from_secs(120)).await;
        assert!(world.api.list("pods").is_empty());
        world.api.down(false);
        let mirror = world.until("web-n1", 60, ready).await;
        assert_eq!(id(&mirror), own, "it was not started again");
        let (meta, node) = (&mirror["metadata"], world.api.get("nodes", "", "n1").unwrap());
        assert_eq!(meta["annotations"]["kubernetes.io/config.hash"], hash(&mirror));
        assert_eq!(meta["annotations"]["kubernetes.io/config.source"], "file");
        assert_ne!(meta["uid"], hash(&mirror), "the server gives its own");
        let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": node["metadata"]["uid"],
            "controller": true}]);
        assert_eq!(meta["ownerReferences"], owner);
        let writes = world.api.calls("patch pods/status");
        clock::sleep(Duration::from_secs(600)).await;
        assert_eq!(world.api.calls("patch pods/status"), writes, "nothing changes any more");
        assert_eq!((world.api.calls("create pods"), world.api.calls("delete pods")), (1, 0));
    });
}

#[test]
fn a_mirror_that_is_deleted_comes_back_and_the_pod_runs_on() {
    sweep(|| async {
        let (world, _files) = world(false, files(&[("web.json", manifest(&json!({})))])).await;
        let before = world.until("web-n1", 10, ready).await;
        for grace in [None, Some(0)] {
            world.api.delete("pods", "default", "web-n1", grace);
            let again = |pod: &Value| ready(pod) && pod["metadata"].get("deletionTimestamp").is_none();
            let after = world.until("web-n1", 10, again).await;
            assert_eq!((id(&after), hash(&after)), (id(&before), hash(&before)));
        }
        assert_eq!(world.api.calls("create pods"), 3);
    });
}

#[test]
fn a_changed_manifest_replaces_the_pod_once_the_old_one_has_ended() {
    sweep(|| async {
        let slow = says(&[("stop-delay", "8s")]);
        let (world, sender) = world(false, files(&[("web.json", manifest(&slow))])).await;
        let before = world.until("web-n1", 10, ready).await;
        let mut changed = manifest(&slow);
        changed["spec"]["containers"][0]["image"] = "nginx:2".into();
        sender.send_replace(files(&[("web.json", changed)]));
        clock::sleep(Duration::from_secs(5)).await;
        assert_eq!(hash(&world.pod("web-n1").unwrap()), hash(&before), "it still ends");
        let after = world.until("web-n1", 10, |pod| ready(pod) && hash(pod) != hash(&before)).await;
        assert_eq!(after["spec"]["containers"][0]["image"], "nginx:2");
        assert_ne!(id(&after), id(&before));
        // The same manifest in another notation changes nothing.
        let same = format!("# a comment\n{}", serde_json::to_string_pretty(&manifest(&slow)).unwrap());
        let map = BTreeMap::from([("/m/web.json".into(), same.into_bytes().into())]);
        sender.send_replace(Some(Arc::new(map)));
        let back = world.until("web-n1", 20, |pod| ready(pod) && hash(pod) == hash(&before)).await;
        assert_eq!(back["spec"]["containers"][0]["image"], "nginx:1");
    });
}

#[test]
fn a_manifest_that_goes_takes_its_pod_and_mirror_along() {
    sweep(|| async {
        let slow = says(&[("stop-delay", "4s")]);
        let (world, sender) = world(false, files(&[("web.json", manifest(&slow))])).await;
        let before = world.until("web-n1", 10, ready).await;
        sender.send_replace(files(&[]));
        clock::sleep(Duration::from_secs(3)).await;
        assert!(world.pod("web-n1").is_some(), "it still ends");
        world.gone("web-n1", 3).await;
        assert!(!world.found().await);
        // A manifest that comes back while its pod ends: the pod ends, and is started anew.
        sender.send_replace(files(&[("web.json", manifest(&slow))]));
        let again = world.until("web-n1", 10, ready).await;
        assert_eq!(hash(&again), hash(&before));
        sender.send_replace(files(&[]));
        clock::sleep(Duration::from_secs(1)).await;
        sender.send_replace(files(&[("web.json", manifest(&slow))]));
        world.until("web-n1", 10, |pod| ready(pod) && id(pod) != id(&again)).await;
    });
}

#[test]
fn mirrors_without_a_manifest_are_deleted_when_a_kubelet_starts() {
    sweep(|| async {
        let system = System::start(Options::default()).await.unwrap();
        let (api, fleet) = (Api::default(), Fleet::new(system.clone()));
        let orphan = json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}});
        api.create("pods", &pod("orphan-n1", &orphan));
        let node = fleet.add(api.client(), NodeConfig::simulated("n1", 0)).await.unwrap();
        let world = World { system, api, fleet, node };
        world.gone("orphan-n1", 5).await;
        assert!(world.node.find("default", "orphan-n1").await.unwrap().is_none(), "it was never run");
    });
}

#[test]
fn bad_manifests_and_taken_names_stop_no_others() {
    sweep(|| async {
        let all = files(&[
            ("a.json", json!({"kind": "Nonsense"})),
            (
                "b.json",
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "empty"}, "spec": {"containers": []}}),
            ),
            ("web.json", manifest(&json!({}))),
        ]);
        let (world, sender) = world(true, None).await;
        // A foreign pod has the mirror's name: the static pod runs all the same, and gets its mirror once the foreign pod is deleted.
        world.api.down(false);
        world.api.create("pods", &pod("web-n1", &json!({"spec": {"nodeName": "other"}})));
        sender.send_replace(all);
        world.runs(10).await;
        clock::sleep(Duration::from_secs(60)).await;
        assert_eq!(world.api.list("pods").len(), 1);
        world.api.delete("pods", "default", "web-n1", Some(0));
        let mirror = world.until("web-n1", 60, ready).await;
        assert_ne!(hash(&mirror), "");
        assert_eq!(world.api.list("pods").len(), 1);
    });
}

#[test]
fn a_static_pod_that_does_not_fit_fails_and_says_why() {
    sweep(|| async {
        let large = json!({"spec": {"containers": [{"name": "main", "image": "nginx:1",
            "resources": {"requests": {"cpu": "64"}}}]}});
        let (world, sender) = world(false, files(&[("web.json", manifest(&large))])).await;
        let failed = world.until("web-n1", 10, phase("Failed")).await;
        assert_eq!(failed["status"]["reason"], "OutOfcpu");
        sender.send_replace(files(&[("web.json", manifest(&json!({})))]));
        world.until("web-n1", 10, ready).await;
    });
}
