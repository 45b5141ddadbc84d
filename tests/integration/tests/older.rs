//! State that an older build has written, opened by today's build.
//!
//! `tests/integration/state/<commit>` holds what that commit's executable has stored, as the embedded store's file and as a backup of etcd, each beside the
//! objects that its API showed: one of every resource, some of them changed. `cargo xtask older COMMIT --write` makes such a folder.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use oarlock_service_apiserver::assemble::STORE_FILE;
use oarlock_testkit::http::{Http, Who};
use oarlock_testkit::{Cluster, Etcd};
use serde_json::Value;

use crate::samples;

const API_ONLY: [&str; 2] = ["--disable", "scheduler,controller-manager,kubelet"];
const STATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/state");
/// Events of a kept state are older than they may become by default.
const OPENED: [&str; 4] = [API_ONLY[0], API_ONLY[1], "--event-ttl", "876000h"];
/// Files of a state, compressed: a store, and the objects that are in it.
const FOLDER: [&str; 2] = ["folder.redb.gz", "folder.json.gz"];
const BACKUP: [&str; 2] = ["etcd.db.gz", "etcd.json.gz"];
/// Names the folder that a state is written to.
const TARGET: &str = "OARLOCK_STATE";
/// One of this many objects is changed or deleted after its creation.
const CHANGED: usize = 2;
const DELETED: usize = 7;

type Objects = BTreeMap<String, Value>;

fn states() -> Vec<PathBuf> {
    let states: Vec<_> = std::fs::read_dir(STATES).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!states.is_empty(), "{STATES} is empty");
    states
}

fn unpacked(state: &Path, file: &str) -> Vec<u8> {
    let mut content = Vec::new();
    GzDecoder::new(std::fs::File::open(state.join(file)).unwrap()).read_to_end(&mut content).unwrap();
    content
}

/// A store, and the objects that are in it.
fn read(state: &Path, [store, objects]: [&str; 2]) -> (Vec<u8>, Objects) {
    (unpacked(state, store), serde_json::from_slice(&unpacked(state, objects)).unwrap())
}

fn write(state: &Path, files: [&str; 2], store: &[u8], objects: &Objects) {
    for (file, content) in files.into_iter().zip([store, &serde_json::to_vec(objects).unwrap()]) {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(content).unwrap();
        std::fs::write(state.join(file), packed.finish().unwrap()).unwrap();
    }
}

fn change(server: &Http, path: &str) {
    let merge = [("Content-Type", "application/merge-patch+json")];
    let changed = server.send("PATCH", path, &merge, br#"{"metadata":{"labels":{"changed":"yes"}}}"#);
    assert_eq!(changed.code, 200, "{path}: {changed}");
}

/// Serves what was stored, byte for byte as it was shown, and takes a change of each object.
fn opens(cluster: &mut Cluster, objects: &Objects) {
    assert!(objects.len() > 40, "{}", objects.len());
    let server = cluster.http(Who::Admin);
    for (path, object) in objects {
        let answer = server.get(path);
        assert_eq!((answer.code, &answer.json()), (200, object), "{path}");
    }
    for path in objects.keys() {
        change(&server, path);
    }
    let changed: Objects = objects.keys().map(|path| (path.clone(), server.get(path).json())).collect();
    cluster.kill();
    cluster.start();
    let server = cluster.http(Who::Admin);
    for (path, object) in &changed {
        assert_eq!(&server.get(path).json(), object, "{path}");
    }
}

#[test]
fn a_folder_that_an_older_build_has_written_opens_with_all_that_is_in_it() {
    for state in states() {
        let (store, objects) = read(&state, FOLDER);
        let mut cluster = Cluster::over(&Path::new("store").join(STORE_FILE), &store, &OPENED);
        opens(&mut cluster, &objects);
    }
}

#[test]
fn a_backup_of_etcd_that_an_older_build_has_filled_opens_with_all_that_is_in_it() {
    for state in states() {
        let Ok(mut etcd) =
            Etcd::start(1).map_err(|why| oarlock_testkit::skipped!("{why}: no older state in etcd was opened"))
        else {
            return;
        };
        let (backup, objects) = read(&state, BACKUP);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("etcd.db");
        std::fs::write(&file, backup).unwrap();
        etcd.restore(&file, &["--bump-revision", "1000000000", "--mark-compacted"]);
        let servers = etcd.endpoints().join(",");
        let mut cluster = Cluster::up(&[["--etcd-servers", &servers].as_slice(), &OPENED].concat());
        opens(&mut cluster, &objects);
    }
}

/// Makes an object of every resource and a history of some of them; returns the objects that exist in the end.
fn fill(server: &Http) -> Objects {
    samples::room(server);
    let made = samples::make(server, &samples::all(server), "s");
    for (at, path) in made.iter().enumerate() {
        if at % CHANGED == 0 {
            change(server, path);
        }
        if at % DELETED == 0 {
            let deleted = server.send("DELETE", path, &[], b"");
            assert!(deleted.code < 300, "{path}: {deleted}");
        }
    }
    let kept = made.iter().map(|path| (path.clone(), server.get(path))).filter(|(_, answer)| answer.code == 200);
    kept.map(|(path, answer)| (path, answer.json())).collect()
}

#[test]
#[ignore = "writes a state with the executable of an older commit: cargo xtask older COMMIT --write"]
fn write_a_state() {
    let state = PathBuf::from(std::env::var_os(TARGET).unwrap_or_else(|| panic!("{TARGET} is not set")));
    std::fs::create_dir_all(&state).unwrap();

    let mut cluster = Cluster::up(&API_ONLY);
    let objects = fill(&cluster.http(Who::Admin));
    assert_eq!(cluster.stop(), Some(0), "{}", cluster.log_tail());
    let store = std::fs::read(cluster.data_dir().store().join(STORE_FILE)).unwrap();
    write(&state, FOLDER, &store, &objects);

    let etcd = Etcd::start(1).unwrap();
    let servers = etcd.endpoints().join(",");
    let cluster = Cluster::up(&[["--etcd-servers", &servers].as_slice(), &API_ONLY].concat());
    let objects = fill(&cluster.http(Who::Admin));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("etcd.db");
    let _said = etcd.ctl(0, &["snapshot", "save", file.to_str().unwrap()]);
    write(&state, BACKUP, &std::fs::read(file).unwrap(), &objects);
}
