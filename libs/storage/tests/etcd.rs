//! Tests of etcd's own behaviour: large values, foreign keys, a quota, old servers.

use std::process::Command;

use bytes::Bytes;
use oarlock_storage::{Append, Error, EtcdLog, Key, LoadPart, Log, Outcome, Revision, TailBatch, etcd};
use oarlock_testkit::{Etcd, Signal};

const QUICK: [&str; 4] = ["--heartbeat-interval", "20", "--election-timeout", "200"];

/// Starts a cluster; `None`, with a loud message, where etcd is missing. Listed in docs/operations/tests.md.
fn cluster(count: usize, flags: &[&str]) -> Option<Etcd> {
    let flags = [&QUICK, flags].concat();
    Etcd::of("etcd", count, false, &flags).map_err(|why| oarlock_testkit::skipped!("{why}: etcd was not tried")).ok()
}

async fn open(endpoints: Vec<String>) -> Result<EtcdLog, Error> {
    let resources = vec!["/registry/pods/".to_owned()];
    EtcdLog::open(&etcd::Options { endpoints, resources, ..etcd::Options::default() }).await
}

fn pod(name: impl ToString) -> Key {
    Key::namespaced("/registry/pods/", "default", &name.to_string())
}

async fn create(log: &EtcdLog, name: impl ToString, bytes: usize) -> Result<Revision, Error> {
    match log.append(Append::create(pod(name), Bytes::from(vec![b'x'; bytes]))).await? {
        Outcome::Committed(revision) => Ok(revision),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_together_has_revisions_of_its_own() {
    let Some(cluster) = tokio::task::block_in_place(|| cluster(1, &[])) else { return };
    let log = open(cluster.endpoints()).await.unwrap();
    let batch = (0..20).map(|n| Append::create(pod(n), Bytes::from_static(b"{}"))).collect();
    let mut revisions = Vec::new();
    for outcome in log.append_batch(batch).await {
        match outcome.unwrap() {
            Outcome::Committed(revision) => revisions.push(revision),
            other => panic!("{other:?}"),
        }
    }
    // A watch that resumes between two objects of one revision would lose the second.
    revisions.sort_unstable();
    revisions.dedup();
    assert_eq!(revisions.len(), 20);
}

async fn follow(log: &EtcdLog, after: Revision, until: Revision) -> Result<Vec<Revision>, Error> {
    let mut tail = log.tail(after).await?;
    let (mut seen, mut at) = (Vec::new(), after);
    while at < until {
        let TailBatch { records, progress } = tail.next(64).await?;
        seen.extend(records.iter().map(|record| record.revision));
        at = progress;
    }
    Ok(seen)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tail_that_paused_takes_more_than_a_message_usually_holds() {
    let Some(cluster) = tokio::task::block_in_place(|| cluster(1, &[])) else { return };
    let log = open(cluster.endpoints()).await.unwrap();
    let before = log.barrier().await.unwrap();
    let mut tail = log.tail(before).await.unwrap();
    let mut wanted = Vec::new();
    for index in 0..30 {
        wanted.push(create(&log, index, 1_400_000).await.unwrap());
    }
    let mut seen = Vec::new();
    while seen.len() < wanted.len() {
        seen.extend(tail.next(64).await.unwrap().records.iter().map(|record| record.revision));
    }
    assert_eq!(seen, wanted);
    // A watch that begins before all of them gets everything in its first message.
    assert_eq!(follow(&log, before, *wanted.last().unwrap()).await.unwrap(), wanted);
    let mut bytes = 0;
    log.load(&mut |piece| bytes += piece.record().and_then(|record| record.value).map_or(0, |value| value.len()))
        .await
        .unwrap();
    assert_eq!(bytes, 30 * 1_400_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_others_move_the_tail_on_and_nothing_else() {
    let Some(cluster) = tokio::task::block_in_place(|| cluster(1, &[])) else { return };
    let log = open(cluster.endpoints()).await.unwrap();
    let before = log.barrier().await.unwrap();
    let ours = create(&log, "ours", 10).await.unwrap();
    tokio::task::block_in_place(|| {
        for key in ["/registry/ranges/serviceips", "/registry/health", "/elsewhere/pods/default/a", "compact_rev_key"] {
            let _said = cluster.ctl(0, &["put", key, "x"]);
        }
    });
    let now = log.barrier().await.unwrap();
    assert!(now.get() >= ours.get() + 4, "{now} after {ours}");
    // Only a progress answer brings the tail this far: no object of ours was written at these revisions.
    assert_eq!(follow(&log, before, now).await.unwrap(), [ours]);
    let mut keys = Vec::new();
    log.load(&mut |piece| keys.extend(piece.record().map(|record| record.key))).await.unwrap();
    assert_eq!(keys, [pod("ours")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_among_writes_and_compactions_says_how_far_it_has_come() {
    let Some(cluster) = tokio::task::block_in_place(|| cluster(1, &[])) else { return };
    let (log, writes) = (open(cluster.endpoints()).await.unwrap(), open(cluster.endpoints()).await.unwrap());
    let written = async {
        for n in 0.. {
            create(&writes, n, 10).await.unwrap();
        }
    };
    let loaded = async {
        let mut beyond = 0;
        for round in 0..20 {
            // State and history may both end after the revision that was current when the load began.
            let now = log.barrier().await.unwrap();
            if round % 2 == 0 {
                let _said = tokio::task::block_in_place(|| cluster.ctl(0, &["compaction", &now.to_string()]));
            }
            let mut last = Revision::ZERO;
            let mut each = |piece: LoadPart| last = last.max(piece.record().map_or(last, |record| record.revision));
            let loaded = log.load(&mut each).await.unwrap();
            assert!(last <= loaded.revision && loaded.floor <= loaded.revision, "{last} in {loaded:?}");
            beyond += usize::from(last > now);
        }
        beyond
    };
    tokio::select! {
        () = written => unreachable!("it writes for good"),
        beyond = loaded => assert!(beyond > 0, "nobody wrote meanwhile"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_of_one_process_is_known_to_the_others_by_its_record() {
    let Some(cluster) = tokio::task::block_in_place(|| cluster(1, &[])) else { return };
    let (one, other) = (open(cluster.endpoints()).await.unwrap(), open(cluster.endpoints()).await.unwrap());
    assert_eq!(other.compacted().await.unwrap(), Revision::ZERO, "nothing is compacted yet");
    create(&one, "a", 10).await.unwrap();
    let at = create(&one, "b", 10).await.unwrap();
    one.trim(at).await.unwrap();
    assert_eq!(one.compacted().await.unwrap(), at);
    assert_eq!((other.health().floor, other.compacted().await.unwrap()), (Revision::ZERO, at), "read, not guessed");
    assert_eq!(other.health().floor, at, "and known from then on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_etcd_refuses_clearly_and_still_deletes() {
    let Some(cluster) = tokio::task::block_in_place(|| cluster(1, &["--quota-backend-bytes", "16777216"])) else {
        return;
    };
    let log = open(cluster.endpoints()).await.unwrap();
    let mut made = Vec::new();
    let refusal = loop {
        match create(&log, made.len(), 1_000_000).await {
            Ok(revision) => made.push(revision),
            Err(refusal) => break refusal,
        }
        assert!(made.len() < 100, "a quota of 16 MiB took 100 MB");
    };
    assert!(matches!(refusal, Error::ReadOnly), "{refusal:?}");
    assert!(!log.health().writable);
    let mut gone = Revision::ZERO;
    for (name, at) in made.iter().enumerate() {
        let Outcome::Committed(revision) = log.append(Append::delete(pod(name), *at)).await.unwrap() else { panic!() };
        gone = revision;
    }
    // Recovery as docs/operations/etcd.md describes: compact deleted objects, defragment the file, clear the alarm. etcd compacts in the background, so defragmentation may
    // have to be repeated.
    log.trim(gone).await.unwrap();
    let mut tries = 0;
    while let Err(error) = create(&log, "again", 1_000_000).await {
        assert!(matches!(error, Error::ReadOnly) && tries < 50, "after {tries}: {error:?}");
        tries += 1;
        tokio::task::block_in_place(|| {
            let _said = cluster.ctl(0, &["defrag"]);
            let _said = cluster.ctl(0, &["alarm", "disarm"]);
        });
    }
    assert!(tries > 0 && log.health().writable);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_is_not_answered_is_unknown_and_not_made_twice() {
    let Some(cluster) = tokio::task::block_in_place(|| cluster(3, &[])) else { return };
    let leader = tokio::task::block_in_place(|| cluster.leader());
    let (stopped, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let endpoint = |index: usize| cluster.endpoints().remove(index);
    let log = open(vec![endpoint(stopped), endpoint(other)]).await.unwrap();
    let before = create(&log, "before", 10).await.unwrap();
    let mut tail = log.tail(before).await.unwrap();
    cluster.signal(stopped, Signal::STOP);
    let outcome = log.append(Append::create(pod("doubtful"), Bytes::from_static(b"1"))).await.unwrap();
    assert_eq!(outcome, Outcome::Unknown, "the member that was asked said nothing");
    // The next write asks another member, where the first write does not exist.
    let after = create(&log, "after", 10).await.unwrap();
    cluster.signal(stopped, Signal::CONT);
    let mut names = Vec::new();
    let mut at = before;
    while at < after {
        let batch = tail.next(64).await;
        let batch = match batch {
            Ok(batch) => batch,
            // The tail followed the member that stopped.
            Err(_) => {
                tail = log.tail(at).await.unwrap();
                continue;
            }
        };
        names.extend(batch.records.iter().map(|record| record.key.name().to_owned()));
        at = batch.progress;
    }
    // The first member may still execute the write after the second member's.
    let count = |wanted: &str| names.iter().filter(|name| *name == wanted).count();
    assert!(count("doubtful") <= 1 && count("after") == 1, "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_server_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let got = Command::new("apt-get").args(["download", "etcd-server"]).current_dir(folder.path()).output();
    let package = std::fs::read_dir(folder.path()).unwrap().find_map(|file| Some(file.ok()?.path()));
    let (Ok(_), Some(package)) = (got, package) else {
        oarlock_testkit::skipped!("no Debian package of etcd 3.4: an old server was not tried");
        return;
    };
    let unpacked = Command::new("dpkg-deb").arg("-x").arg(package).arg(folder.path()).status().unwrap();
    assert!(unpacked.success());
    let program = folder.path().join("usr/bin/etcd");
    let old = tokio::task::block_in_place(|| Etcd::from_program(program, 1, false, &QUICK));
    let endpoint = old.endpoints().remove(0);
    let Err(Error::Config(text)) = open(vec![endpoint.clone()]).await else { panic!("it was taken") };
    assert!(text.contains(&endpoint) && text.contains("too old") && text.contains("3.5.13"), "{text}");
}

#[tokio::test]
async fn what_cannot_be_reached_or_understood_is_said() {
    for (endpoints, said) in [
        (vec![], "no etcd server is named"),
        (vec!["localhost:2379".to_owned()], "http://"),
        (vec!["http://127.0.0.1:1".to_owned()], "127.0.0.1:1"),
    ] {
        let error = open(endpoints).await.unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}
