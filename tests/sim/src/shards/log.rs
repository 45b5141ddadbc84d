//! The log of all versions of nodes and pods, from which the placements of a run are checked afterwards.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oarlock_check::placement::{LateMark, Line, Log};
use oarlock_client::{Client, Event, ListOptions, Object};
use oarlock_meta::Revision;
use oarlock_runtime::{Gate, Instant, Watched, clock};
use oarlock_schema::{Resource, resource};
use parking_lot::Mutex;
use serde_json::Value;

/// Records every version of nodes and pods.
#[derive(Clone, Default)]
pub(super) struct Recorder {
    lines: Arc<Mutex<Vec<Line>>>,
    /// When each revision was written.
    times: Arc<Mutex<BTreeMap<u64, Instant>>>,
    come: Arc<Watched<[u64; 2]>>,
}

pub(super) fn kind(plural: &str) -> &'static Resource {
    resource("", "v1", plural).unwrap()
}

pub(super) fn json(object: &Object) -> Value {
    serde_json::from_slice(&oarlock_client::encode(&object.obj().unwrap())).unwrap()
}

impl Recorder {
    /// Starts to record; no node or pod exists yet.
    pub(super) fn start(&self, client: &Client, net: &Gate) {
        for (index, plural) in ["nodes", "pods"].into_iter().enumerate() {
            let (client, own, end) = (client.clone(), self.clone(), net.token());
            let follow = async move { end.run_until_cancelled(own.follow(&client, plural, index)).await };
            net.spawn("recorder", follow).unwrap();
        }
    }

    async fn follow(&self, client: &Client, plural: &str, index: usize) {
        let options = ListOptions { allow_bookmarks: true, ..ListOptions::default() };
        let mut stream = client.watch(kind(plural), "", options).await.unwrap();
        while let Some(events) = stream.next().await {
            for event in events {
                let revision = event.revision().expect("the recorder is not cut off").get();
                let (object, there) = match &event {
                    Event::Added(object) | Event::Modified(object) => (object, true),
                    Event::Deleted(object) => (object, false),
                    Event::Bookmark { .. } | Event::Error(_) => continue,
                };
                let key = match plural {
                    "nodes" => format!("nodes/{}", object.name()),
                    _ => format!("pods/{}/{}", object.namespace(), object.name()),
                };
                let object = there.then(|| json(object));
                self.lines.lock().push(Line { revision, key, object });
                self.times.lock().entry(revision).or_insert_with(clock::now);
                self.come.modify(|come| {
                    come[index] = revision;
                    true
                });
            }
        }
    }

    /// Returns the time from the end of the nomination to the mark.
    pub(super) fn delay(&self, mark: &LateMark) -> Duration {
        let times = self.times.lock();
        times[&mark.revision] - times[&mark.ended]
    }

    /// Returns the versions up to these revisions of nodes and pods.
    pub(super) async fn log(&self, last: [Revision; 2]) -> Log {
        let last = last.map(Revision::get);
        self.come.wait_for(|come| come[0] >= last[0] && come[1] >= last[1]).await;
        Log::of(self.lines.lock().clone())
    }
}
