//! Runs the contract suite over every backend, bare and behind a faulty log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use oarlock_storage::embedded::Options;
use oarlock_storage::testing::contract::{Backend, CASES};
use oarlock_storage::testing::faulty::{FaultCounts, Faults, FaultyLog};
use oarlock_storage::testing::recording_hook;
use oarlock_storage::{EmbeddedLog, EtcdLog, Log, MemoryLog, etcd};
use oarlock_testkit::Etcd;
use parking_lot::Mutex;

struct Memory;

#[async_trait]
impl Backend for Memory {
    async fn fresh(&self) -> Arc<dyn Log> {
        Arc::new(MemoryLog::new())
    }

    async fn reopen(&self, log: Arc<dyn Log>) -> Arc<dyn Log> {
        log
    }
}

struct Embedded {
    directory: tempfile::TempDir,
    made: AtomicU64,
}

impl Embedded {
    fn open(&self, number: u64) -> Arc<dyn Log> {
        let (fatal, _) = recording_hook();
        let options = Options { reserve_bytes: 1 << 20, ..Options::new(fatal) };
        Arc::new(EmbeddedLog::open(&self.directory.path().join(format!("{number}.db")), &options).unwrap())
    }
}

#[async_trait]
impl Backend for Embedded {
    async fn fresh(&self) -> Arc<dyn Log> {
        self.open(self.made.fetch_add(1, Ordering::Relaxed))
    }

    async fn reopen(&self, log: Arc<dyn Log>) -> Arc<dyn Log> {
        // Cases run one after the other: the log to reopen is the last one made.
        drop(log);
        self.open(self.made.load(Ordering::Relaxed) - 1)
    }
}

/// Backend that starts an etcd cluster for each log.
struct Cluster {
    program: &'static str,
    members: usize,
    secured: bool,
    running: Mutex<Option<Etcd>>,
}

/// User name and password of etcd's root user.
const USER: (&str, &str) = ("root", "secret");

impl Cluster {
    /// Creates the backend; `None`, with a loud message, where etcd cannot be built.
    fn new(program: &'static str, members: usize, secured: bool) -> Option<Arc<Self>> {
        match oarlock_testkit::programs(&[program, "etcdctl"]) {
            Ok(_) => Some(Arc::new(Self { program, members, secured, running: Mutex::default() })),
            Err(why) => {
                oarlock_testkit::skipped!("{why}: the contract over {program} was not tried");
                None
            }
        }
    }

    async fn open(&self) -> Arc<dyn Log> {
        let options = {
            let running = self.running.lock();
            let cluster = running.as_ref().unwrap();
            let bytes = |text: &String| text.clone().into_bytes();
            etcd::Options {
                endpoints: cluster.endpoints(),
                resources: ["/registry/pods/", "/registry/services/specs/"].map(str::to_owned).into(),
                authorities: cluster.secured().map(|tls| bytes(&tls.authority)),
                identity: cluster.secured().map(|tls| (bytes(&tls.certificate), bytes(&tls.key))),
                credentials: self.secured.then(|| (USER.0.to_owned(), USER.1.to_owned())),
                ..etcd::Options::default()
            }
        };
        Arc::new(EtcdLog::open(&options).await.unwrap())
    }
}

#[async_trait]
impl Backend for Cluster {
    async fn fresh(&self) -> Arc<dyn Log> {
        tokio::task::block_in_place(|| {
            let mut running = self.running.lock();
            // The previous cluster must stop before the next one starts.
            *running = None;
            let quick = ["--heartbeat-interval", "20", "--election-timeout", "200"];
            let cluster = Etcd::of(self.program, self.members, self.secured, &quick).unwrap();
            if self.secured {
                for words in [
                    ["user", "add", "root:secret"].as_slice(),
                    &["user", "grant-role", "root", "root"],
                    &["auth", "enable"],
                ] {
                    let _said = cluster.ctl(0, words);
                }
            }
            *running = Some(cluster);
        });
        self.open().await
    }

    async fn reopen(&self, log: Arc<dyn Log>) -> Arc<dyn Log> {
        drop(log);
        self.open().await
    }
}

struct Faulty {
    inner: Arc<dyn Backend>,
    seed: AtomicU64,
    bites: Mutex<Vec<Arc<FaultCounts>>>,
    bare: Mutex<Option<Arc<dyn Log>>>,
}

impl Faulty {
    fn wrap(&self, inner: Arc<dyn Log>) -> Arc<dyn Log> {
        let seed = self.seed.fetch_add(1, Ordering::Relaxed);
        *self.bare.lock() = Some(Arc::clone(&inner));
        let faulty = FaultyLog::new(inner, Faults::NO_COMPACTION, seed);
        self.bites.lock().push(faulty.fault_counts());
        Arc::new(faulty)
    }
}

#[async_trait]
impl Backend for Faulty {
    async fn fresh(&self) -> Arc<dyn Log> {
        let inner = self.inner.fresh().await;
        self.wrap(inner)
    }

    async fn reopen(&self, log: Arc<dyn Log>) -> Arc<dyn Log> {
        drop(log);
        let bare = self.bare.lock().take().unwrap();
        let inner = self.inner.reopen(bare).await;
        self.wrap(inner)
    }
}

async fn run(name: &str, backend: Arc<dyn Backend>) {
    let mut failed = Vec::new();
    for case in CASES {
        let verdict = case.check(Arc::clone(&backend)).await;
        println!("{name} × {}: {}", case.name, if verdict.is_ok() { "ok" } else { "FAILED" });
        failed.extend(verdict.err().map(|error| format!("{}: {error}", case.name)));
    }
    assert!(failed.is_empty(), "{name}: {} of {} cases failed:\n{}", failed.len(), CASES.len(), failed.join("\n"));
}

fn embedded() -> Arc<dyn Backend> {
    Arc::new(Embedded { directory: tempfile::tempdir().unwrap(), made: AtomicU64::new(0) })
}

async fn run_faulty(name: &str, inner: Arc<dyn Backend>, seeds: u64) {
    let faulty = Arc::new(Faulty { inner, seed: AtomicU64::new(0), bites: Mutex::default(), bare: Mutex::default() });
    for _ in 0..seeds {
        run(name, Arc::clone(&faulty) as Arc<dyn Backend>).await;
    }
    let mut sums = [("", 0); 7];
    for bites in faulty.bites.lock().iter() {
        for (sum, (what, count)) in sums.iter_mut().zip(bites.all()) {
            *sum = (what, sum.1 + count);
        }
    }
    println!("{name}: {sums:?}");
    let idle = sums.iter().filter(|(what, count)| *count == 0 && *what != "compacted").count();
    assert_eq!(idle, 0, "a fault that never struck proves nothing: {sums:?}");
}

#[tokio::test]
async fn memory_keeps_the_contract() {
    run("memory", Arc::new(Memory)).await;
}

#[tokio::test]
async fn embedded_keeps_the_contract() {
    run("embedded", embedded()).await;
}

#[tokio::test]
async fn memory_keeps_the_contract_behind_faults() {
    run_faulty("faulty(memory)", Arc::new(Memory), 20).await;
}

#[tokio::test]
async fn embedded_keeps_the_contract_behind_faults() {
    run_faulty("faulty(embedded)", embedded(), 2).await;
}

async fn etcd(name: &str, program: &'static str, members: usize, secured: bool) {
    let Some(cluster) = Cluster::new(program, members, secured) else { return };
    run(name, cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_keeps_the_contract() {
    etcd("etcd", "etcd", 1, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_etcd_members_keep_the_contract() {
    etcd("etcd × 3", "etcd", 3, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_with_tls_and_authentication_keeps_the_contract() {
    etcd("etcd with TLS", "etcd", 1, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_etcd_before_keeps_the_contract() {
    etcd("etcd 3.5", "etcd-3.5", 1, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_keeps_the_contract_behind_faults() {
    let Some(cluster) = Cluster::new("etcd", 1, false) else { return };
    run_faulty("faulty(etcd)", cluster, 1).await;
}
