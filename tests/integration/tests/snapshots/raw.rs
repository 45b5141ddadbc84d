//! etcd's own backups, restored while an informer and kubectl watch: revisions still only rise.

use kube::api::PostParams;
use oarlock_testkit::{Cluster, Etcd};

use super::{API_ONLY, Informer, change, content, fill, highest, lowest, text, until_content};
use crate::kube_rs::{client, map, maps};

/// The flags of etcd's restore that Kubernetes recommends.
const RESTORE_FLAGS: [&str; 3] = ["--bump-revision", "1000000000", "--mark-compacted"];

async fn through(flags: &[&str], stopped: bool) {
    let Ok(mut etcd) = Etcd::start(1).map_err(|why| oarlock_testkit::skipped!("{why}: etcd's backups were not tried"))
    else {
        return;
    };
    let servers = etcd.endpoints().join(",");
    let mut cluster = Cluster::up(&[["--etcd-servers", &servers].as_slice(), &API_ONLY].concat());
    let maps = maps(&client(&cluster, None).await);
    fill(&maps).await;
    let informer = Informer::start(&cluster).await;
    informer.agrees(&maps, 0).await;
    let saved = content(&maps).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("etcd.db");
    let _said = etcd.ctl(0, &["snapshot", "save", text(&file)]);
    change(&maps).await;
    let later = informer.agrees(&maps, 0).await;
    let watching = cluster.kubectl().follow("get configmaps -w -o name");
    watching.until("it lists", |out| out.contains("ghost-29"));

    if stopped {
        assert_eq!(cluster.stop(), Some(0), "{}", cluster.log_tail());
        cluster.from_now_on(&[["--etcd-servers", &servers].as_slice(), &API_ONLY].concat());
    }
    etcd.restore(&file, flags);
    if stopped {
        cluster.start();
    }
    until_content(&cluster, &maps, &saved).await;
    let ended = watching.ends();
    // kubectl prints an error event of a watch as a Status and ends.
    assert_eq!(ended.out.matches("status/").count(), usize::from(!stopped), "{ended}");
    let restored = informer.agrees(&maps, 1).await;
    assert!(restored.contains_key("here-0") && !restored.contains_key("ghost-2"), "{restored:?}");
    let made = maps.create(&PostParams::default(), &map("after", &[])).await.unwrap();
    let made: u64 = made.metadata.resource_version.unwrap().parse().unwrap();
    assert!(made > highest(&later), "{made} was handed out after {}", highest(&later));
    assert!(lowest(&restored) < made);
    informer.agrees(&maps, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_runs_goes_on_above_what_it_had_handed_out() {
    through(&[], false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_restored_as_etcd_recommends_goes_on_above() {
    through(&RESTORE_FLAGS, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_stopped_begins_above_a_backup_restored_as_etcd_recommends() {
    through(&RESTORE_FLAGS, true).await;
}
