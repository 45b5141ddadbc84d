//! Real processes with faults: what clients saw is judged against the log (`docs/operations/histories.md`).
//!
//! A fault must have left a mark, at the clients and on the link, or its run is void.

mod embedded;
mod replicated;
mod truth;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use oarlock_check::{History, Rule, check};
use oarlock_testkit::Cluster;
use oarlock_testkit::chaos::{Chaos, Link};
use oarlock_testkit::history::Recorder;
use oarlock_testkit::http::Who;
use oarlock_testkit::wait::eventually;
use oarlock_testkit::workload::{Collection, Options, Replica, Workload};
use serde_json::json;

use self::truth::Truth;

/// What every run needs: clients, a network, and a place for their history.
struct Scene {
    chaos: Chaos,
    recorder: Arc<Recorder>,
    history: PathBuf,
    options: Options,
}

impl Scene {
    /// Over an API server that serves.
    fn new(name: &str, server: &Cluster) -> Self {
        account(server);
        // It stays: where the check fails, it is the evidence.
        let history = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.jsonl"));
        let recorder = Arc::new(Recorder::new(&history));
        let options = Options { patience: Duration::from_secs(3), ..Options::default() };
        Self { chaos: Chaos::new(), recorder, history, options }
    }

    /// A way from the clients to a server, under a name for it.
    fn link(&self, replica: &str, server: &Cluster) -> (Link, Replica) {
        let link = self.chaos.link("clients", replica, address(server));
        let http = server.http(Who::Admin).at(link.address());
        (link, Replica { name: replica.to_owned(), http })
    }

    fn start(&self, replicas: Vec<Replica>) -> Workload {
        Workload::start(Arc::clone(&self.recorder), replicas, self.options.clone())
    }

    /// Ends the clients and then, with `end`, what stands in the way of the truth; reads the log, and judges.
    #[track_caller]
    fn judge(&self, workload: Workload, end: impl FnOnce(), truth: &dyn Truth) {
        let counts = workload.finish();
        eprintln!("{counts:?}");
        end();
        let own: Vec<String> = self.options.collections.iter().map(Collection::prefix).collect();
        truth.record(&self.recorder, &own);
        let history = History::read(&[self.recorder.flushed()]).unwrap();
        let report = check(&history);
        let shown = report.show(&history, 10);
        eprintln!("{shown}");
        assert!(report.violations.is_empty(), "{}\n{shown}", self.history.display());
        for rule in Rule::ALL {
            assert!(report.checked(rule) > 0, "nothing was shown of {rule}");
        }
        assert_eq!(counts.other.into_inner(), 0, "refusals that no state explains");
    }
}

/// Pods need an account, and no controller makes it here.
#[track_caller]
fn account(server: &Cluster) {
    let account = json!({"metadata": {"name": "default"}});
    let made = server.http(Who::Admin).json("POST", "/api/v1/namespaces/default/serviceaccounts", &account);
    assert!(matches!(made.code, 201 | 409), "{made}");
}

/// Starts a server that was killed, where its clients find it.
fn revive(server: &mut Cluster, link: &Link) {
    server.start();
    // Had it lost this too, the checker would still have something to judge.
    account(server);
    link.retarget(address(server));
}

fn address(server: &Cluster) -> SocketAddr {
    server.http(Who::Admin).address().parse().unwrap()
}

/// Does something, and waits until every mark of it has grown.
#[track_caller]
fn bites<const N: usize>(what: &str, fault: impl FnOnce(), marks: impl Fn() -> [u64; N]) {
    let before = marks();
    fault();
    eventually(what, || {
        let now = marks();
        let all = before.iter().zip(&now).all(|(before, now)| now > before);
        if all { Ok(()) } else { Err(format!("{before:?}, now {now:?}")) }
    });
}
