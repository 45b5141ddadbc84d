//! Watches against a model: over random histories, evictions and reading habits, every watcher gets exactly the events
//! that a naive filter of the history gives, in order, or one 410; and nothing else.

use std::sync::Arc;

use bytes::Bytes;
use compact_str::CompactString;
use oarlock_storage::testing::rng::Rng;
use oarlock_storage::{Key, Revision};
use oarlock_store::{Change, Entry, EntryParts, EventKind, Fields, Interest, View, WatchCursor};

const PODS: &str = "/registry/pods/";

struct Watcher {
    cursor: WatchCursor,
    interest: Interest,
    after: Revision,
    /// Whether a filter lets only even revisions through.
    even: bool,
    got: Vec<(EventKind, Revision)>,
    gone: bool,
}

struct Step {
    kind: EventKind,
    revision: Revision,
    key: Key,
    /// The node before and after the write.
    nodes: [Option<&'static str>; 2],
}

impl Step {
    fn matters(&self, interest: &Interest) -> bool {
        match interest {
            Interest::All => true,
            Interest::Namespace(namespace) => self.key.namespace() == namespace,
            Interest::Object { namespace, name } => self.key.namespace() == namespace && self.key.name() == name,
            Interest::Field { value, .. } => self.nodes.contains(&Some(value.as_str())),
        }
    }
}

const NODES: [&str; 3] = ["", "n1", "n2"];

fn interest(rng: &mut Rng) -> Interest {
    let pick = |rng: &mut Rng, of: [&str; 3]| CompactString::from(of[rng.below(3) as usize]);
    match rng.below(4) {
        0 => Interest::All,
        1 => Interest::Namespace(pick(rng, ["a", "b", "c"])),
        2 => Interest::Object { namespace: pick(rng, ["a", "b", "c"]), name: pick(rng, ["0", "1", "2"]) },
        _ => Interest::Field { field: "spec.nodeName".into(), value: pick(rng, NODES) },
    }
}

fn trial(seed: u64) -> (usize, usize) {
    let mut rng = Rng::new(seed);
    let view = View::new(24 << 10);
    let names: Arc<[CompactString]> = ["spec.nodeName".into()].into();
    let (mut history, mut watchers): (Vec<Step>, Vec<Watcher>) = (Vec::new(), Vec::new());
    let mut state: std::collections::BTreeMap<Key, (Revision, &'static str)> = Default::default();
    let mut revision = 0;
    for _ in 0..400 {
        let mut changes = Vec::new();
        for _ in 0..rng.below(6) {
            revision += 1 + rng.below(3);
            let [namespace, name] = [["a", "b", "c"], ["0", "1", "2"]].map(|of| of[rng.below(3) as usize]);
            let key = Key::namespaced(PODS, namespace, name);
            let before = state.get(&key).copied();
            let at = Revision(revision);
            let after = (before.is_none() || rng.percent(70)).then(|| NODES[rng.below(3) as usize]);
            let entry = after.map(|node| {
                let fields = Fields::new(Arc::clone(&names), vec![node.into()]);
                let parts = EntryParts { fields, ..EntryParts::default() };
                Arc::new(Entry::new(key.clone(), &Bytes::from(vec![b'x'; 50]), at, parts))
            });
            let kind = match (before, after) {
                (None, _) => EventKind::Added,
                (Some(_), Some(_)) => EventKind::Modified,
                (Some(_), None) => EventKind::Deleted,
            };
            // The entry of a deletion is the last state, so its field value counts too.
            history.push(Step { kind, revision: at, key: key.clone(), nodes: [before.map(|b| b.1), after] });
            match after {
                Some(node) => state.insert(key.clone(), (at, node)),
                None => state.remove(&key),
            };
            changes.push(Change { key, revision: at, prev: before.map(|b| b.0), entry });
        }
        view.apply(&changes).unwrap();
        if rng.percent(10) {
            let after = Revision(revision.saturating_sub(rng.below(60)) + rng.below(4));
            let (interest, even) = (interest(&mut rng), rng.percent(30));
            let filter: Option<oarlock_store::Filter> =
                if even { Some(Box::new(|event| event.revision.get().is_multiple_of(2))) } else { None };
            let floor = view.floor(PODS);
            match view.watch(PODS, after, interest.clone(), filter) {
                Ok(cursor) => watchers.push(Watcher { cursor, interest, after, even, got: vec![], gone: false }),
                Err(gone) => assert!(after < floor && gone.floor == floor, "seed {seed}: refused without reason"),
            }
        }
        for watcher in &mut watchers {
            if watcher.gone || rng.percent(70) {
                continue;
            }
            match watcher.cursor.take(1 + rng.below(7) as usize) {
                Ok(batch) => watcher.got.extend(batch.events.iter().map(|event| (event.kind, event.revision))),
                Err(_) => watcher.gone = true,
            }
        }
        if rng.percent(3) && !watchers.is_empty() {
            let at = rng.below(watchers.len() as u64) as usize;
            let watcher = watchers.swap_remove(at);
            check(seed, &history, &watcher, false);
        }
    }
    let mut gone = 0;
    for mut watcher in std::mem::take(&mut watchers) {
        while !watcher.gone {
            match watcher.cursor.take(3) {
                Ok(batch) if batch.events.is_empty() => break,
                Ok(batch) => watcher.got.extend(batch.events.iter().map(|event| (event.kind, event.revision))),
                Err(_) => watcher.gone = true,
            }
        }
        gone += usize::from(watcher.gone);
        check(seed, &history, &watcher, !watcher.gone);
    }
    (history.len(), gone)
}

/// Checks that the received events are a prefix of the expected ones; all of them when the watcher read to the end.
fn check(seed: u64, history: &[Step], watcher: &Watcher, complete: bool) {
    let matters = |step: &&Step| {
        step.revision > watcher.after
            && step.matters(&watcher.interest)
            && (!watcher.even || step.revision.get().is_multiple_of(2))
    };
    let wanted: Vec<(EventKind, Revision)> =
        history.iter().filter(matters).map(|step| (step.kind, step.revision)).collect();
    let end = if complete { wanted.len() } else { watcher.got.len().min(wanted.len()) };
    assert_eq!(watcher.got, wanted[..end], "seed {seed}: {:?} after {}", watcher.interest, watcher.after);
}

#[test]
fn every_watcher_gets_what_a_naive_filter_gives_or_one_gone() {
    let (mut events, mut gone) = (0, 0);
    for seed in 0..300 {
        let (more, lost) = trial(seed);
        events += more;
        gone += lost;
    }
    println!("{events} events, {gone} watchers gone");
    assert!(gone > 50, "only {gone} watchers were overtaken: the test proves too little");
}
