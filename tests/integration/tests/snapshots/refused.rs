//! Invalid snapshots, invalid stores and requests without rights: each error names its cause, and nothing is changed.

use oarlock_testkit::Cluster;

use super::{API_ONLY, said, snapshot, text};

#[test]
fn what_cannot_be_done_is_said_and_changes_nothing() {
    let mut cluster = Cluster::up(&API_ONLY);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (good, store) = (path("good.snap"), format!("embedded:{}", path("store").display()));
    let kubeconfig = cluster.kubeconfig();
    let save = |file: &str, from: &std::path::Path| snapshot(&["save", file, "--kubeconfig", text(from)]);
    let saved = save(text(&good), &kubeconfig).ok();
    let bytes = std::fs::read(&good).unwrap();

    // A user without permission cannot save a snapshot.
    let other = path("other.snap");
    let scheduler = cluster.data_dir().component_kubeconfig("scheduler");
    save(text(&other), &scheduler).fails("cannot get path \"/snapshot\"");
    let own = format!("embedded:{}", cluster.data_dir().root().join("store").display());
    snapshot(&["save", text(&other), "--store", &own]).fails("in use by another process");
    snapshot(&["restore", text(&good), "--store", &own, "--overwrite"]).fails("in use by another process");
    assert_eq!(cluster.stop(), Some(0));
    save(text(&other), &kubeconfig).fails(text(&kubeconfig));
    snapshot(&["save", text(&other), "--store", &store]).fails("there is no oarlock.redb");
    snapshot(&["save", text(&other), "--etcd-servers", "http://127.0.0.1:1"]).fails("127.0.0.1:1");
    assert!(!other.exists() && std::fs::read_dir(folder.path()).unwrap().count() == 1, "something was left");

    // Files that are no snapshots are refused.
    snapshot(&["status", text(&other)]).fails(text(&other));
    std::fs::write(&other, b"{\"kind\":\"List\",\"items\":[]}").unwrap();
    snapshot(&["restore", text(&other), "--store", &store]).fails("this is no snapshot");
    for end in [12, 40, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&other, &bytes[..end]).unwrap();
        snapshot(&["restore", text(&other), "--store", &store]).fails(&format!("damaged at byte {end}:"));
    }
    let mut flipped = bytes.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    std::fs::write(&other, &flipped).unwrap();
    snapshot(&["status", text(&other)]).fails("the checksum is another");
    assert!(!path("store").exists(), "a store was begun");

    // Stores that are not empty are refused.
    snapshot(&["restore", text(&good), "--store", &own]).fails("--overwrite");
    let restored = snapshot(&["restore", text(&good), "--store", &store]).ok();
    snapshot(&["restore", text(&good), "--store", &store]).fails("--overwrite");
    for words in [["--from", "etcd", "--to", &store], ["--from", "elsewhere", "--to", &store]] {
        snapshot(&[["migrate"].as_slice(), &words].concat()).fails("etcd");
    }
    let again = path("again.snap");
    let kept = snapshot(&["save", text(&again), "--store", &store]).ok();
    assert_eq!(said(&kept, "hash"), said(&saved, "hash"), "it is what was saved");
    assert_eq!(said(&restored, "hash"), said(&saved, "hash"));
    assert_eq!(snapshot(&["status", text(&again)]).ok().out, kept.out);
    // The snapshot that was saved while the server ran still exists, and the server starts again.
    cluster.start();
}
