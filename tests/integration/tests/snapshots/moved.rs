//! A move from a folder into etcd and back, while an informer and kubectl watch.

use oarlock_testkit::{Cluster, Etcd};

use super::{API_ONLY, Informer, change, content, fill, highest, lowest, said, snapshot, text};
use crate::kube_rs::{client, map, maps};
use kube::api::PostParams;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn informers_follow_the_state_into_etcd_and_back() {
    let Ok(etcd) = Etcd::start(1).map_err(|why| oarlock_testkit::skipped!("{why}: snapshots into etcd were not tried"))
    else {
        return;
    };
    let servers = etcd.endpoints().join(",");
    let mut cluster = Cluster::up(&API_ONLY);
    let maps = maps(&client(&cluster, None).await);
    fill(&maps).await;
    let informer = Informer::start(&cluster).await;
    let watching = cluster.kubectl().follow("get configmaps -w -o name");
    watching.until("it lists", |out| out.contains("here-29"));
    let before = informer.agrees(&maps, 0).await;
    let saved_content = content(&maps).await;

    // The snapshot is saved while the server runs; later writes are not in it.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state.snap");
    let kubeconfig = cluster.kubeconfig();
    let saved = snapshot(&["save", text(&file), "--kubeconfig", text(&kubeconfig)]).ok();
    assert!(said(&saved, "revision").parse::<u64>().unwrap() >= highest(&before));
    change(&maps).await;
    let later = informer.agrees(&maps, 0).await;
    assert!(later.contains_key("ghost-2") && !later.contains_key("here-0"));
    assert_eq!(cluster.stop(), Some(0), "{}", cluster.log_tail());
    let ended = watching.ends();
    assert!(ended.out.contains("ghost-29") && !ended.err.contains("panic"), "{ended}");

    let restored = snapshot(&["restore", text(&file), "--etcd-servers", &servers]).ok();
    assert_eq!(said(&restored, "hash"), said(&saved, "hash"));
    cluster.from_now_on(&[["--etcd-servers", &servers].as_slice(), &API_ONLY].concat());
    cluster.start();
    assert_eq!(content(&maps).await, saved_content);
    let in_etcd = informer.agrees(&maps, 1).await;
    assert!(lowest(&in_etcd) > highest(&later), "revisions fell");
    // The server continues to work.
    maps.create(&PostParams::default(), &map("in-etcd", &[])).await.unwrap();
    let watching = cluster.kubectl().follow("get configmaps -w -o name");
    watching.until("it lists what there is", |out| out.contains("in-etcd") && !out.contains("ghost"));
    let in_etcd = informer.agrees(&maps, 1).await;

    // The state is moved back without a loss: the folder holds an older state, and the command reports it.
    let content_before = content(&maps).await;
    assert_eq!(cluster.stop(), Some(0), "{}", cluster.log_tail());
    drop(watching);
    let store = format!("embedded:{}", cluster.data_dir().root().join("store").display());
    let words = ["migrate", "--from", "etcd", "--to", &store, "--etcd-servers", &servers];
    snapshot(&words).fails("--overwrite");
    let migrated = snapshot(&[words.as_slice(), &["--overwrite"]].concat()).ok();
    assert!(said(&migrated, "restored").starts_with("embedded:"));
    cluster.from_now_on(&API_ONLY);
    cluster.start();
    assert_eq!(content(&maps).await, content_before);
    let back = informer.agrees(&maps, 2).await;
    assert!(lowest(&back) > highest(&in_etcd), "revisions fell");
    assert!(back.contains_key("in-etcd"));
}
