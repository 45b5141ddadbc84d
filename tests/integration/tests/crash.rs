//! `kill -9` under write load: acknowledged writes are kept, others are stored at most once.

use std::sync::atomic::{AtomicU64, Ordering};

use oarlock_testkit::Cluster;
use oarlock_testkit::http::{Http, Who};
use oarlock_testkit::wait::{self, Progress};
use serde_json::{Value, json};

const ROUNDS: usize = 5;
const WRITERS: usize = 4;
/// Objects that a writer has made and updated in each round before the switch is pulled.
const ENOUGH: u64 = 60;
const PATH: &str = "/api/v1/namespaces/default/configmaps";

/// The acknowledged state of one writer's objects.
#[derive(Default)]
struct Ledger {
    /// Objects by number: what was acknowledged last, with its revision.
    acknowledged: Vec<(String, u64, u64)>,
    /// Objects whose create was never answered.
    unanswered: Vec<String>,
    /// The update that was never answered: its object and content.
    hanging: Option<(String, u64)>,
    last_revision: u64,
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// Creates objects and updates each once, until the server is killed. `most` becomes the largest number of objects that any writer has made.
fn write(http: &Http, writer: usize, round: usize, most: &AtomicU64, ledger: &mut Ledger) {
    for number in 0.. {
        most.fetch_max(number, Ordering::SeqCst);
        if number >= ENOUGH {
            // The test will kill the server; until then the writer continues.
            wait::pause();
        }
        let name = format!("w{writer}-r{round}-n{number}");
        let object = json!({"metadata": {"name": name}, "data": {"value": number.to_string()}});
        let body = object.to_string();
        let headers = [("Content-Type", "application/json")];
        let Ok(answer) = http.try_send("POST", PATH, &headers, body.as_bytes()) else {
            return ledger.unanswered.push(name);
        };
        assert_eq!(answer.code, 201, "{answer}");
        let mut created = answer.json();
        rises(ledger, revision(&created));
        ledger.acknowledged.push((name.clone(), number, revision(&created)));
        created["data"]["value"] = json!((number + 1).to_string());
        let body = created.to_string();
        let Ok(answer) = http.try_send("PUT", &format!("{PATH}/{name}"), &headers, body.as_bytes()) else {
            return ledger.hanging = Some((name, number + 1));
        };
        assert_eq!(answer.code, 200, "{answer}");
        let updated = answer.json();
        rises(ledger, revision(&updated));
        *ledger.acknowledged.last_mut().unwrap() = (name, number + 1, revision(&updated));
    }
}

fn rises(ledger: &mut Ledger, revision: u64) {
    assert!(revision > ledger.last_revision, "{revision} after {}", ledger.last_revision);
    ledger.last_revision = revision;
}

#[test]
fn kill_nine_loses_nothing_acknowledged() {
    let mut cluster = Cluster::up(&["--disable", "scheduler,controller-manager,kubelet"]);
    let mut ledgers: Vec<Ledger> = (0..WRITERS).map(|_| Ledger::default()).collect();
    for round in 0..ROUNDS {
        let most = AtomicU64::new(0);
        let http = cluster.http(Who::Admin);
        std::thread::scope(|scope| {
            for (writer, ledger) in ledgers.iter_mut().enumerate() {
                let (http, most) = (&http, &most);
                scope.spawn(move || write(http, writer, round, most, ledger));
            }
            let (written, mut progress) = (|| most.load(Ordering::SeqCst).min(ENOUGH), Progress::default());
            while written() < ENOUGH && !progress.stalled(written()) {
                wait::pause();
            }
            // The kill is needed even without progress, because the writers end only with the server.
            cluster.kill();
            assert!(written() == ENOUGH, "writes: {progress}");
        });
        cluster.start();
        let http = cluster.http(Who::Admin);
        let list = http.get(PATH);
        assert_eq!(list.code, 200, "{list}");
        let list = list.json();
        let now = revision(&list);
        let mut items = std::collections::BTreeMap::new();
        for item in list["items"].as_array().unwrap() {
            let name = item["metadata"]["name"].as_str().unwrap().to_owned();
            assert!(items.insert(name.clone(), item).is_none(), "{name} is there twice");
        }
        for ledger in &mut ledgers {
            assert!(now >= ledger.last_revision, "the revision fell from {} to {now}", ledger.last_revision);
            if let Some((name, value)) = ledger.hanging.take() {
                // The unanswered update either has happened once or has not; whichever is true must remain true.
                let item = items[&name];
                if item["data"]["value"] == value.to_string().as_str() {
                    let own = ledger.acknowledged.iter_mut().find(|(own, ..)| *own == name).unwrap();
                    assert!(revision(item) > own.2);
                    *own = (name, value, revision(item));
                }
            }
            for name in ledger.unanswered.drain(..) {
                if let Some(item) = items.get(&name) {
                    let value = item["data"]["value"].as_str().unwrap().parse().unwrap();
                    ledger.acknowledged.push((name, value, revision(item)));
                }
            }
            for (name, value, written) in &ledger.acknowledged {
                let item =
                    items.get(name).unwrap_or_else(|| panic!("round {round}: {name} was acknowledged and is gone"));
                assert_eq!(item["data"]["value"], value.to_string().as_str(), "{name}");
                assert_eq!(revision(item), *written, "{name}");
            }
            ledger.last_revision = now;
        }
        let known: usize = ledgers.iter().map(|ledger| ledger.acknowledged.len()).sum();
        let own = items.keys().filter(|name| name.starts_with('w')).count();
        assert_eq!(own, known, "objects that nobody wrote");
        eprintln!("round {round}: {known} objects, revision {now}");
    }
    assert_eq!(cluster.stop(), Some(0), "a stop in order after all that");
}
