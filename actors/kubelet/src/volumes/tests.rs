//! Tests of volumes on the real file system. Tests that mount need root (CAP_SYS_ADMIN), see `docs/operations/tests.md`.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use oarlock_client::{Client, decode};
use oarlock_schema::{Obj, type_of_kind};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::testing::Api;

const UID: &str = "11111111-2222-3333-4444-555555555555";

/// Whether this process may mount and change owners (CAP_SYS_ADMIN, CAP_CHOWN); prints a notice if not.
pub(super) fn privileged(test: &str) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
    let wanted = 1 << 21 | 1;
    let may = u64::from_str_radix(effective, 16).unwrap() & wanted == wanted;
    if !may {
        oarlock_testkit::skipped!("{test} needs root");
    }
    may
}

struct Bench {
    root: TempDir,
    api: Api,
    volumes: Volumes,
    references: References,
}

impl Drop for Bench {
    /// A failed test must not leave mounts behind.
    fn drop(&mut self) {
        let real = self.root.path().canonicalize().unwrap();
        mounted::unmount_all(&real).unwrap();
    }
}

impl Bench {
    fn new() -> Self {
        let (root, api) = (TempDir::new().unwrap(), Api::default());
        let references = References::new(Client::new(Arc::new(api.clone())), Duration::from_secs(30));
        Self { volumes: Volumes::new(root.path()), root, api, references }
    }

    async fn set_up(&self, pod: &Arc<Obj>) -> Result<Mounted, Failed> {
        let around = Surroundings {
            allocatable: [("memory".into(), "1Gi".into())].into_iter().collect(),
            ..Surroundings::default()
        };
        self.references.registered(downward::pod(pod));
        self.volumes.set_up(pod, &around, &self.references).await
    }

    async fn container(&self, pod: &Arc<Obj>, mounted: &Mounted) -> Result<ContainerMounts, PodError> {
        let hosts =
            HostsFile { name: "web".to_owned(), ips: vec!["10.0.0.7".parse().unwrap()], ..HostsFile::default() };
        let variables = [("NAME".to_owned(), "one".to_owned())].into_iter().collect();
        self.volumes.container(pod, ("main", 0), mounted, &variables, hosts).await
    }

    fn pod_dir(&self) -> std::path::PathBuf {
        self.root.path().join("pods").join(UID)
    }

    fn mounts(&self) -> usize {
        let real = self.root.path().canonicalize().unwrap();
        let text = fs::read_to_string("/proc/self/mountinfo").unwrap();
        text.lines().filter(|line| line.contains(real.to_str().unwrap())).count()
    }

    async fn gone(&self) {
        self.volumes.tear_down(UID).await.unwrap();
        assert!(!self.pod_dir().exists());
        assert_eq!(self.mounts(), 0);
        assert_eq!(self.volumes.on_disk().await.unwrap(), Vec::<Str>::new());
    }
}

/// Returns a pod whose container mounts each volume at `/<name>`; `change` is merged into its spec.
fn pod(volumes: &[Value], change: &Value) -> Arc<Obj> {
    let mounts: Vec<Value> = volumes
        .iter()
        .map(|volume| json!({"name": volume["name"], "mountPath": format!("/{}", volume["name"].as_str().unwrap())}))
        .collect();
    let mut spec = json!({
        "volumes": volumes, "serviceAccountName": "robot",
        "containers": [{"name": "main", "volumeMounts": mounts, "terminationMessagePath": "/dev/termination-log"}],
    });
    for (key, value) in change.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    let pod =
        json!({"metadata": {"name": "web", "namespace": "shop", "uid": UID, "labels": {"app": "web"}}, "spec": spec});
    Arc::new(decode(type_of_kind("", "v1", "Pod").unwrap(), pod.to_string().as_bytes()).unwrap())
}

fn with_mounts(volumes: &[Value], mounts: &Value) -> Arc<Obj> {
    pod(volumes, &json!({"containers": [{"name": "main", "volumeMounts": mounts}]}))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[tokio::test]
async fn empty_directories_are_kept_on_disk_or_in_memory_and_go_with_the_pod() {
    if !privileged("empty_directories_are_kept_on_disk_or_in_memory_and_go_with_the_pod") {
        return;
    }
    let bench = Bench::new();
    let pod = pod(
        &[
            json!({"name": "disk", "emptyDir": {}}),
            json!({"name": "ram", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}),
        ],
        &json!({"securityContext": {"fsGroup": 4321}}),
    );
    let mounted = bench.set_up(&pod).await.unwrap();
    let (disk, ram) = (&mounted["disk"].path, &mounted["ram"].path);
    assert_eq!(*disk, bench.pod_dir().join("volumes/kubernetes.io~empty-dir/disk"));
    assert_eq!((mode(disk), fs::metadata(disk).unwrap().gid()), (0o2777, 4321));
    assert_eq!(mounted::is_mount_point(ram), Ok(true));
    let full = fs::write(ram.join("big"), vec![0; 2 << 20]).unwrap_err();
    assert_eq!(full.raw_os_error(), Some(libc::ENOSPC), "its size limit holds");
    fs::remove_file(ram.join("big")).unwrap();
    // A restarted kubelet keeps existing volumes.
    fs::write(disk.join("kept"), b"1").unwrap();
    fs::write(ram.join("kept"), b"1").unwrap();
    let again = Volumes::new(bench.root.path());
    assert_eq!(again.on_disk().await.unwrap(), [UID]);
    assert_eq!(again.set_up(&pod, &Surroundings::default(), &bench.references).await.unwrap(), mounted);
    assert!(disk.join("kept").exists() && ram.join("kept").exists());
    assert_eq!(bench.mounts(), 1);
    bench.gone().await;
}

#[tokio::test]
async fn objects_become_files_that_follow_them() {
    if !privileged("objects_become_files_that_follow_them") {
        return;
    }
    let bench = Bench::new();
    let meta = |name: &str| json!({"name": name, "namespace": "shop"});
    bench.api.create(
        "configmaps",
        &json!({"metadata": meta("m"), "data": {"a": "1", "b": "2"}, "binaryData": {"raw": "AAE="}}),
    );
    bench.api.create("secrets", &json!({"metadata": meta("s"), "data": {"key": "c2VjcmV0"}}));
    let pod = pod(
        &[
            json!({"name": "all", "configMap": {"name": "m", "defaultMode": 0o600}}),
            json!({"name": "some", "configMap": {"name": "m", "items": [{"key": "a", "path": "x/y", "mode": 0o444}]}}),
            json!({"name": "hidden", "secret": {"secretName": "s", "defaultMode": 0o400}}),
            json!({"name": "maybe", "secret": {"secretName": "none", "optional": true}}),
            json!({"name": "told", "downwardAPI": {"items": [
                {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                {"path": "mem", "resourceFieldRef": {"containerName": "main", "resource": "limits.memory", "divisor": "1Mi"}},
            ]}}),
        ],
        &json!({}),
    );
    let mounted = bench.set_up(&pod).await.unwrap();
    let read = |volume: &str, path: &str| {
        fs::read(mounted[volume].path.join(path)).map(|data| String::from_utf8_lossy(&data).into_owned()).ok()
    };
    assert!(mounted.values().all(|volume| volume.read_only));
    assert_eq!(read("all", "raw").as_deref(), Some("\0\u{1}"));
    assert_eq!(mode(&mounted["all"].path.join("a")), 0o600);
    assert_eq!((read("some", "x/y").as_deref(), mode(&mounted["some"].path.join("x/y"))), (Some("1"), 0o444));
    assert_eq!((read("hidden", "key").as_deref(), read("maybe", "key")), (Some("secret"), None));
    assert_eq!(mounted::is_mount_point(&mounted["hidden"].path), Ok(true), "secrets stay in memory");
    assert_eq!(
        (read("told", "labels").as_deref(), read("told", "mem").as_deref()),
        (Some("app=\"web\""), Some("1024"))
    );
    bench.api.patch("configmaps", ("shop", "m"), &json!({"data": {"a": "changed", "b": null}}));
    assert_eq!(bench.set_up(&pod).await.unwrap(), mounted);
    assert_eq!((read("all", "a").as_deref(), read("all", "b")), (Some("changed"), None));
    assert_eq!(read("some", "x/y").as_deref(), Some("changed"));
    // After an object's deletion its files stay; a new pod would not start.
    bench.api.delete("secrets", "shop", "s", None);
    let stale = bench.set_up(&pod).await.unwrap()["hidden"].stale.clone();
    let why = "MountVolume.SetUp failed for volume \"hidden\" : secret \"s\" not found";
    assert_eq!(stale.as_deref(), Some(why));
    assert_eq!(read("hidden", "key").as_deref(), Some("secret"));
    bench.gone().await;
    let failed = bench.set_up(&pod).await.unwrap_err();
    assert_eq!(failed.messages, [why]);
    assert!(failed.summary().starts_with("Unable to attach or mount volumes: unmounted volumes=[hidden], "));
    bench.gone().await;
}

#[tokio::test]
async fn what_cannot_be_made_is_told_with_upstreams_words_and_leaves_nothing() {
    if !privileged("what_cannot_be_made_is_told_with_upstreams_words_and_leaves_nothing") {
        return;
    }
    let bench = Bench::new();
    bench.api.create("configmaps", &json!({"metadata": {"name": "m", "namespace": "shop"}, "data": {"a": "1"}}));
    let pod = pod(
        &[
            json!({"name": "a", "configMap": {"name": "none"}}),
            json!({"name": "b", "configMap": {"name": "m", "items": [{"key": "no", "path": "p"}]}}),
            json!({"name": "c", "nfs": {"server": "s", "path": "/"}}),
            json!({"name": "d", "hostPath": {"path": "/no/such/dir", "type": "Directory"}}),
            json!({"name": "e", "projected": {"sources": [{"configMap": {"name": "none"}}, {"configMap": {"name": "other"}}]}}),
            json!({"name": "f", "projected": {"sources": [{"clusterTrustBundle": {"name": "x", "path": "p"}}]}}),
            json!({"name": "g", "persistentVolumeClaim": {"claimName": "pvc"}}),
            json!({"name": "h", "emptyDir": {"medium": "HugePages"}}),
            json!({"name": "ok", "emptyDir": {}}),
        ],
        &json!({}),
    );
    let failed = bench.set_up(&pod).await.unwrap_err();
    let mut messages = failed.messages;
    messages.sort();
    assert_eq!(
        messages,
        [
            "MountVolume.FindPluginBySpec failed for volume \"c\" : no volume plugin matched",
            "MountVolume.SetUp failed for volume \"a\" : configmap \"none\" not found",
            "MountVolume.SetUp failed for volume \"b\" : configmap references non-existent config key: no",
            "MountVolume.SetUp failed for volume \"d\" : hostPath type check failed: /no/such/dir is not a directory",
            "MountVolume.SetUp failed for volume \"e\" : [configmap \"none\" not found, configmap \"other\" not found]",
            "MountVolume.SetUp failed for volume \"f\" : clusterTrustBundle projections are not supported by this kubelet",
            "MountVolume.SetUp failed for volume \"g\" : error processing PVC shop/pvc: failed to fetch PVC from API \
             server: persistentvolumeclaims \"pvc\" not found",
            "MountVolume.SetUp failed for volume \"h\" : medium HugePages: hugePages storage requested, but there is no \
             resource request for huge pages",
        ]
    );
    assert_eq!(failed.unmounted.len(), 8);
    let left = fs::read_dir(bench.pod_dir().join("volumes")).unwrap().count();
    assert_eq!(left, 1, "only the plugin of the one that was made");
    bench.gone().await;
}

#[tokio::test]
async fn volumes_that_no_container_mounts_are_not_made() {
    let bench = Bench::new();
    let pod = with_mounts(&[json!({"name": "a", "configMap": {"name": "none"}})], &json!([]));
    assert_eq!(bench.set_up(&pod).await.unwrap(), Mounted::new());
    assert!(!bench.pod_dir().exists());
}

#[tokio::test]
async fn paths_of_the_node_are_checked_or_made_and_never_removed() {
    let bench = Bench::new();
    let node = TempDir::new().unwrap();
    let at = |name: &str| node.path().join(name);
    fs::create_dir(at("dir")).unwrap();
    fs::write(at("file"), b"1").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    let check = |name: &str, kind: &str| host_path::check(&at(name), kind);
    for (name, kind) in [
        ("dir", "Directory"),
        ("dir", "DirectoryOrCreate"),
        ("made", "DirectoryOrCreate"),
        ("file", "File"),
        ("file", "FileOrCreate"),
        ("touched", "FileOrCreate"),
        ("socket", "Socket"),
        ("none", ""),
    ] {
        assert_eq!(check(name, kind), Ok(()), "{name} {kind}");
    }
    assert_eq!((mode(&at("made")), at("touched").is_file()), (0o755, true));
    for (name, kind, what) in [
        ("file", "Directory", "a directory"),
        ("file", "DirectoryOrCreate", "a directory"),
        ("dir", "File", "a file"),
        ("dir", "FileOrCreate", "a file"),
        ("file", "Socket", "a socket file"),
        ("file", "CharDevice", "a character device"),
        ("file", "BlockDevice", "a block device"),
    ] {
        let why = format!("hostPath type check failed: {} is not {what}", at(name).display());
        assert_eq!(check(name, kind), Err(PodError::NotReady(why)), "{name} {kind}");
    }
    assert_eq!(host_path::check(Path::new("/dev/null"), "CharDevice"), Ok(()));
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    let pod = pod(&[json!({"name": "host", "hostPath": {"path": at("dir"), "type": ""}})], &json!({}));
    let mounted = bench.set_up(&pod).await.unwrap();
    assert_eq!((mounted["host"].path.clone(), mounted["host"].read_only), (at("dir"), false));
    bench.gone().await;
    assert!(at("dir").exists());
}

#[tokio::test]
async fn a_claim_is_a_path_of_the_node_where_its_volume_is_one() {
    if !privileged("a_claim_is_a_path_of_the_node_where_its_volume_is_one") {
        return;
    }
    let bench = Bench::new();
    let node = TempDir::new().unwrap();
    fs::write(node.path().join("data"), b"precious").unwrap();
    let claim = |name: &str, phase: &str, volume: &str| {
        json!({"metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}")},
            "spec": {"volumeName": volume}, "status": {"phase": phase}})
    };
    let volume = |name: &str, claim: &str, source: Value| {
        let mut volume = json!({"metadata": {"name": name}, "spec": {"claimRef": {"uid": format!("uid-{claim}")}}});
        volume["spec"].as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
        volume
    };
    for (claim, volume) in [
        (claim("near", "Bound", "pv-near"), volume("pv-near", "near", json!({"local": {"path": node.path()}}))),
        (claim("host", "Bound", "pv-host"), volume("pv-host", "host", json!({"hostPath": {"path": node.path()}}))),
        (claim("far", "Bound", "pv-far"), volume("pv-far", "far", json!({"nfs": {"server": "s", "path": "/"}}))),
        (claim("stolen", "Bound", "pv-stolen"), volume("pv-stolen", "near", json!({"local": {"path": "/"}}))),
        (claim("unbound", "Pending", ""), volume("pv-none", "none", json!({}))),
    ] {
        bench.api.create("persistentvolumeclaims", &claim);
        bench.api.create("persistentvolumes", &volume);
    }
    let of = |name: &str, read_only: bool| json!({"name": name, "persistentVolumeClaim": {"claimName": name, "readOnly": read_only}});
    let good = pod(&[of("near", true), of("host", false)], &json!({}));
    let mounted = bench.set_up(&good).await.unwrap();
    assert_eq!(mounted["host"].path, node.path());
    let near = &mounted["near"].path;
    assert_eq!(*near, bench.pod_dir().join("volumes/kubernetes.io~local-volume/pv-near"));
    assert_eq!(fs::read(near.join("data")).unwrap(), b"precious");
    assert_eq!(fs::write(near.join("more"), b"").unwrap_err().raw_os_error(), Some(libc::EROFS));
    let bad = pod(&[of("far", false), of("stolen", false), of("unbound", false)], &json!({}));
    let failed = bench.set_up(&bad).await.unwrap_err();
    assert!(failed.permanent, "no plugin will ever support one of them");
    let waits = pod(&[of("unbound", false)], &json!({}));
    assert!(!bench.set_up(&waits).await.unwrap_err().permanent, "a claim may still be bound");
    let mut messages = failed.messages;
    messages.sort();
    assert_eq!(
        messages,
        [
            "MountVolume.FindPluginBySpec failed for volume \"far\" : no volume plugin matched",
            "MountVolume.SetUp failed for volume \"stolen\" : error processing PVC shop/stolen: found PV object pv-stolen \
             but its pv.Spec.ClaimRef.UID uid-near does not point to claim.UID uid-stolen",
            "MountVolume.SetUp failed for volume \"unbound\" : error processing PVC shop/unbound: PVC is not bound",
        ]
    );
    bench.gone().await;
    assert_eq!(fs::read(node.path().join("data")).unwrap(), b"precious");
}

#[tokio::test]
async fn a_container_sees_its_volumes_its_hosts_file_and_a_place_for_its_last_words() {
    let bench = Bench::new();
    let pod = pod(&[json!({"name": "data", "emptyDir": {}})], &json!({}));
    let mounted = bench.set_up(&pod).await.unwrap();
    let made = bench.container(&pod, &mounted).await.unwrap();
    let places: Vec<&str> = made.mounts.iter().map(|mount| mount.container_path.as_str()).collect();
    assert_eq!(places, ["/data", "/etc/hosts", "/dev/termination-log"]);
    assert_eq!(made.mounts[0].host_path, mounted["data"].path);
    assert!(fs::read_to_string(&made.mounts[1].host_path).unwrap().contains("10.0.0.7\tweb\n"));
    let log = made.termination_log.unwrap();
    assert_eq!((mode(&log), log), (0o666, bench.pod_dir().join("containers/main/0")));
    bench.gone().await;
}

#[tokio::test]
async fn sub_paths_are_made_and_bound_and_lead_nowhere_else() {
    if !privileged("sub_paths_are_made_and_bound_and_lead_nowhere_else") {
        return;
    }
    let bench = Bench::new();
    bench.api.create("configmaps", &json!({"metadata": {"name": "m", "namespace": "shop"}, "data": {"app.conf": "1"}}));
    let volumes = [json!({"name": "data", "emptyDir": {}}), json!({"name": "conf", "configMap": {"name": "m"}})];
    let good = with_mounts(
        &volumes,
        &json!([
            {"name": "data", "mountPath": "/a", "subPath": "deep/er"},
            {"name": "data", "mountPath": "/b", "subPathExpr": "for-$(NAME)", "readOnly": true},
            {"name": "conf", "mountPath": "/app.conf", "subPath": "app.conf"},
            {"name": "data", "mountPath": "/c", "mountPropagation": "HostToContainer"},
        ]),
    );
    let mounted = bench.set_up(&good).await.unwrap();
    let data = &mounted["data"].path;
    let made = bench.container(&good, &mounted).await.unwrap();
    let host = |index: usize| &made.mounts[index].host_path;
    assert_eq!(*host(0), bench.pod_dir().join("volume-subpaths/data/main/0"));
    fs::write(host(0).join("x"), b"through").unwrap();
    assert_eq!(fs::read(data.join("deep/er/x")).unwrap(), b"through");
    assert_eq!(mode(&data.join("deep")), 0o777, "as the volume itself");
    assert!(data.join("for-one").is_dir() && made.mounts[1].read_only);
    assert_eq!(fs::read(host(2)).unwrap(), b"1", "one file of a volume");
    assert_eq!(made.mounts[3].propagation, Propagation::HostToContainer);
    assert_eq!(bench.container(&good, &mounted).await.unwrap(), made, "a second start finds them bound");
    assert_eq!(bench.mounts(), 3);
    // A symlink that a container puts into its volume must not give access to the node.
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("passwd"), b"x").unwrap();
    symlink(outside.path(), data.join("out")).unwrap();
    symlink("../../../../..", data.join("up")).unwrap();
    symlink("deep", data.join("in")).unwrap();
    let with = |sub: &str| with_mounts(&volumes, &json!([{"name": "data", "mountPath": "/a", "subPath": sub}]));
    let try_one = async |sub: &str| bench.container(&with(sub), &mounted).await.map(|_| ());
    let prepare = "failed to prepare subPath for volumeMount \"data\" of container \"main\"";
    let create = "failed to create subPath directory for volumeMount \"data\" of container \"main\"";
    for (sub, why) in
        [("out", prepare), ("out/passwd", prepare), ("out/new", create), ("up/new", create), ("up", prepare)]
    {
        assert_eq!(try_one(sub).await, Err(PodError::NotReady(why.to_owned())), "{sub}");
    }
    assert!(!outside.path().join("new").exists() && !bench.root.path().join("new").exists());
    assert_eq!(try_one("in/er").await, Ok(()), "links inside are fine");
    let absolute = "error SubPath `/abs` must not be an absolute path";
    assert_eq!(try_one("/abs").await, Err(PodError::Invalid(absolute.to_owned())));
    assert_eq!(
        try_one("a/../../b").await,
        Err(PodError::Invalid("unable to provision SubPath `a/../../b`: must not contain '..'".to_owned()))
    );
    let missing = with_mounts(&volumes, &json!([{"name": "none", "mountPath": "/a"}]));
    let why = "cannot find volume \"none\" to mount into container \"main\"";
    assert_eq!(bench.container(&missing, &mounted).await, Err(PodError::NotReady(why.to_owned())));
    bench.gone().await;
}

#[tokio::test]
async fn volumes_inside_projected_ones_have_somewhere_to_be_mounted() {
    let bench = Bench::new();
    bench.api.create("configmaps", &json!({"metadata": {"name": "m", "namespace": "shop"}, "data": {"a": "1"}}));
    let volumes = [json!({"name": "conf", "configMap": {"name": "m"}}), json!({"name": "data", "emptyDir": {}})];
    let mounts = json!([{"name": "conf", "mountPath": "/conf"}, {"name": "data", "mountPath": "/conf/cache/x"}]);
    let mounted = bench.set_up(&with_mounts(&volumes, &mounts)).await.unwrap();
    assert!(mounted["conf"].path.join("cache/x").is_dir());
    bench.gone().await;
}

#[tokio::test]
async fn a_pod_whose_files_somebody_mounted_over_goes_without_touching_what_was_mounted() {
    if !privileged("a_pod_whose_files_somebody_mounted_over_goes_without_touching_what_was_mounted") {
        return;
    }
    let bench = Bench::new();
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("keep"), b"1").unwrap();
    let pod = pod(&[json!({"name": "data", "emptyDir": {}})], &json!({}));
    let data = bench.set_up(&pod).await.unwrap()["data"].path.clone();
    let inner = data.join("with space");
    fs::create_dir(&inner).unwrap();
    rustix::mount::mount_bind(outside.path(), &inner).unwrap();
    assert!(inner.join("keep").exists());
    bench.gone().await;
    assert!(outside.path().join("keep").exists());
}

#[test]
fn a_token_is_only_for_the_one_user_of_the_pod() {
    let user = |whole: Value, containers: Value| {
        let pod = pod(&[], &json!({"securityContext": whole, "containers": containers}));
        payload::common_user(downward::pod(&pod))
    };
    let run_as = |user: i64| json!({"name": "c", "securityContext": {"runAsUser": user}});
    assert_eq!(user(json!({}), json!([{"name": "c"}])), None);
    assert_eq!(user(json!({"runAsUser": 7}), json!([{"name": "c"}])), Some(7));
    assert_eq!(user(json!({"runAsUser": 7}), json!([{"name": "c"}, run_as(8)])), None);
    assert_eq!(user(json!({}), json!([run_as(8), run_as(8)])), Some(8));
}

#[tokio::test]
async fn a_variable_comes_from_a_file_that_a_container_wrote() {
    let bench = Bench::new();
    let volumes = [json!({"name": "data", "emptyDir": {}})];
    let var = |name: &str, path: &str, key: &str, optional: bool| json!({"name": name, "valueFrom": {"fileKeyRef": {"volumeName": "data", "path": path, "key": key, "optional": optional}}});
    let with = |vars: &Value| {
        pod(
            &volumes,
            &json!({"containers": [{"name": "main", "env": vars,
            "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]}),
        )
    };
    let good = with(&json!([var("A", "conf/env", "A", false), var("B", "/conf/env", "B", true)]));
    let mounted = bench.set_up(&good).await.unwrap();
    let data = mounted["data"].path.clone();
    fs::create_dir(data.join("conf")).unwrap();
    fs::write(data.join("conf/env"), "A='one\ntwo'\n").unwrap();
    symlink("/etc/passwd", data.join("out")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, data.join("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let read = async |pod: &Arc<Obj>, mounted: &Mounted| {
        let container = downward::find(downward::pod(pod), "main").unwrap();
        let mut found = Found::default();
        bench.volumes.read(pod, container, mounted, &mut found).await;
        environment::variables(downward::pod(pod), container, &Surroundings::default(), &found, &Variables::new())
    };
    let want = [("A".to_owned(), "one\ntwo".to_owned())].into_iter().collect();
    assert_eq!(read(&good, &mounted).await, Ok(want), "an optional key that is not there makes no variable");
    let missing = "cannot find the volume \"data\" referenced by FileKeyRef";
    assert_eq!(read(&good, &Mounted::new()).await, Err(PodError::NotReady(missing.to_owned())));
    let no_key = format!("environment variable key \"Z\" not found in file \"{}\"", data.join("conf/env").display());
    for (path, why) in [
        ("conf/env", no_key.as_str()),
        ("none", "couldn't parse env file"),
        ("out", "couldn't parse env file"),
        ("pipe", "couldn't parse env file"),
        ("conf", "couldn't parse env file"),
        ("../../../../../../../etc/passwd", "couldn't parse env file"),
    ] {
        let pod = with(&json!([var("A", path, "Z", false)]));
        assert_eq!(read(&pod, &mounted).await, Err(PodError::NotReady(why.to_owned())), "{path}");
    }
    bench.gone().await;
}

#[tokio::test]
async fn what_was_taken_down_is_not_made_again_by_a_refresh() {
    let bench = Bench::new();
    let pod = pod(&[json!({"name": "data", "emptyDir": {}})], &json!({}));
    let refresh = async || bench.volumes.refresh(&pod, &Surroundings::default(), &bench.references).await;
    assert_eq!(refresh().await, Ok(Mounted::new()));
    let mounted = bench.set_up(&pod).await.unwrap();
    assert_eq!(refresh().await, Ok(mounted));
    // The two operations run in the order of their requests.
    let (down, late) = futures::join!(bench.volumes.tear_down(UID), refresh());
    assert_eq!((down, late), (Ok(()), Ok(Mounted::new())));
    assert!(!bench.pod_dir().exists());
    assert!(bench.volumes.locks.lock().len() <= 1);
    bench.gone().await;
    assert!(bench.volumes.locks.lock().is_empty(), "a pod that is gone costs nothing");
}
