//! A message about pods. Pods of a burst are alike: one of them is sent as a sample, of the others what differs.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use oarlock_bus::proto::scheduler::v1 as wire;
use oarlock_client::{Object, Wanted, encode};
use oarlock_informer::{Cache, Delta, Item, Key, Project, Read, Stretch};
use oarlock_meta::Revision;

use crate::intern::Interner;
use crate::map::Map;
use crate::project::{Apart, PodView, alike, like};

/// What is sent of a sample.
static READ: LazyLock<Wanted> = LazyLock::new(|| PodView::FIELDS.wanted());

/// Changes in one message at most, but that what was read at once stays together.
const FULL: usize = 1024;
/// Bytes of samples in one message at most, but for the last: a message may have a megabyte.
const LARGE: usize = 256 * 1024;

/// Samples that are remembered: as many shapes as the pods of one time may have.
const SAMPLES: usize = 16;

/// Pods that were sent as samples, or came as such, and their bytes; the latest last.
#[derive(Default)]
pub(super) struct Samples(VecDeque<(Arc<Item<PodView>>, Bytes)>);

impl Samples {
    fn find(&self, is: impl Fn(&Item<PodView>, &Bytes) -> bool) -> Option<&(Arc<Item<PodView>>, Bytes)> {
        self.0.iter().rfind(|(item, bytes)| is(item, bytes))
    }

    fn keep(&mut self, item: Arc<Item<PodView>>, bytes: Bytes) {
        if self.0.len() == SAMPLES {
            self.0.pop_front();
        }
        self.0.push_back((item, bytes));
    }
}

/// A message that is being written.
pub(super) struct Letter {
    message: wire::Stretch,
    /// Those of the message, in its order.
    samples: Vec<Arc<Item<PodView>>>,
    size: usize,
    /// Where the message has a pod: it is told once, and only what became of it.
    places: Map<Key, usize>,
}

impl Letter {
    fn new(epoch: u64, series: u64, from: u64) -> Self {
        let message = wire::Stretch { epoch, series, from, to: from, ..wire::Stretch::default() };
        Self { message, samples: Vec::new(), size: 0, places: Map::default() }
    }

    /// The first thing to be told, under this epoch.
    pub(super) fn of(epoch: Revision, read: Read<PodView>, known: &mut Samples) -> Self {
        let mut letter = Self::new(epoch.get(), read.stretch.series, read.stretch.from.get());
        letter.take(read, known);
        letter
    }

    /// That nothing has happened since.
    pub(super) fn after(&self) -> Self {
        Self::new(self.message.epoch, self.message.series, self.message.to)
    }

    /// What was read next.
    ///
    /// # Errors
    /// Gives it back when it does not follow on what is here.
    pub(super) fn add(&mut self, read: Read<PodView>, known: &mut Samples) -> Result<(), Box<Read<PodView>>> {
        if (read.stretch.series, read.stretch.from.get()) != (self.message.series, self.message.to) {
            return Err(Box::new(read));
        }
        self.take(read, known);
        Ok(())
    }

    /// How many changes it tells.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.message.changes.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn is_full(&self) -> bool {
        self.message.changes.len() >= FULL || self.size >= LARGE
    }

    pub(super) fn message(&self) -> &wire::Stretch {
        &self.message
    }

    fn take(&mut self, read: Read<PodView>, known: &mut Samples) {
        let mut objects = read.objects.iter();
        self.message.to = read.stretch.to.get();
        for delta in read.stretch.deltas {
            let (key, change) = match delta {
                Delta::Set(item) => {
                    let Some(object) = objects.next() else { continue };
                    let (key, info) = (item.key().clone(), Arc::clone(&item.value.info));
                    let change = wire::Change {
                        revision: info.version,
                        name: info.name.to_string(),
                        uid: info.uid.to_string(),
                        node: info.node.map(|node| Interner::process().text(node).to_string()).unwrap_or_default(),
                        like: self.sample(item, object, known),
                        ..wire::Change::default()
                    };
                    (key, change)
                }
                Delta::Gone(key, revision) => {
                    let (namespace, name) = (key.namespace.to_string(), key.name.to_string());
                    let change = wire::Change { revision: revision.get(), namespace, name, ..wire::Change::default() };
                    (key, change)
                }
                Delta::Mark(_) => continue,
            };
            let end = self.message.changes.len();
            match self.message.changes.get_mut(*self.places.entry(key).or_insert(end)) {
                Some(place) => *place = change,
                None => self.message.changes.push(change),
            }
        }
    }

    /// The number of a sample that a pod is like.
    fn sample(&mut self, item: Arc<Item<PodView>>, object: &Object, known: &mut Samples) -> u32 {
        let here = self.samples.iter().rposition(|sample| alike(sample, &item));
        let at = here.unwrap_or_else(|| {
            let (item, bytes) = known.find(|sample, _| alike(sample, &item)).cloned().unwrap_or_else(|| {
                // What it was projected from can be read; it goes whole if it cannot be cut down.
                let bytes = object.obj_wanted(&READ).map_or_else(|_| object.bytes.clone(), |obj| encode(&obj));
                known.keep(Arc::clone(&item), bytes.clone());
                (item, bytes)
            });
            self.size += bytes.len();
            self.message.samples.push(bytes);
            self.samples.push(item);
            self.samples.len() - 1
        });
        u32::try_from(at + 1).unwrap_or(0)
    }
}

/// What a message says: the epoch of its sender, and what happened.
///
/// # Errors
/// Why it cannot be read.
pub(super) fn open(
    message: wire::Stretch,
    pods: &Cache<PodView>,
    known: &mut Samples,
) -> Result<(Revision, Stretch<PodView>), String> {
    let row = PodView::RESOURCE.find().ok_or("the schema has no pods")?;
    let sample = |bytes: Bytes| {
        if let Some((item, _)) = known.find(|_, known| *known == bytes) {
            return Ok(Arc::clone(item));
        }
        let object = Object::new(row.ty, bytes.clone(), Revision::ZERO);
        let item = pods.item(&object).map_err(|status| status.to_string())?;
        known.keep(Arc::clone(&item), bytes);
        Ok(item)
    };
    let samples = message.samples.into_iter().map(sample).collect::<Result<Vec<_>, String>>()?;
    let names = Interner::process();
    let delta = |change: wire::Change| {
        let revision = Revision(change.revision);
        let Some(at) = change.like.checked_sub(1) else {
            return Ok(Delta::Gone(Key::new(change.namespace, change.name), revision));
        };
        let sample = samples.get(at as usize).ok_or_else(|| format!("no sample {at} for {}", change.name))?;
        let key = Key { namespace: sample.meta.key.namespace.clone(), name: change.name.into() };
        let node = (!change.node.is_empty()).then(|| names.intern(&change.node));
        Ok(Delta::Set(Arc::new(like(sample, Apart { key, uid: change.uid, revision, node }))))
    };
    let deltas = message.changes.into_iter().map(delta).collect::<Result<_, String>>()?;
    let (from, to) = (Revision(message.from), Revision(message.to));
    Ok((Revision(message.epoch), Stretch { series: message.series, from, to, deltas }))
}

#[cfg(test)]
mod tests {
    use oarlock_bus::proto::scheduler::v1::Stretch as Wire;
    use serde_json::{Value, json};

    use super::*;

    fn object(pod: &Value) -> Object {
        let revision = pod["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        Object::new(PodView::RESOURCE.find().unwrap().ty, serde_json::to_vec(pod).unwrap().into(), revision)
    }

    /// A pod, in which this is at that place.
    fn pod(number: u64, change: &[(&str, Value)]) -> Object {
        let mut pod = json!({
            "metadata": {"name": format!("p{number}"), "namespace": "default", "uid": format!("u{number}"), "resourceVersion": number.to_string(),
                "generation": 1, "creationTimestamp": "2026-01-02T03:04:05Z", "labels": {"app": "x"}, "annotations": {"long": "x"}},
            "spec": {
                "containers": [{"name": "c", "image": "i:1", "env": [{"name": "SECRET", "value": "hidden"}]}],
                "initContainers": [{"name": "i", "image": "i:1", "args": ["hidden"]}],
                "ephemeralContainers": [{"name": "e", "image": "hidden:1"}],
                "schedulerName": "default-scheduler",
            },
            "status": {"phase": "Pending"},
        });
        for (place, value) in change {
            let (parent, field) = place.rsplit_once('/').unwrap();
            pod.pointer_mut(parent).unwrap()[field] = value.clone();
        }
        object(&pod)
    }

    fn read(pods: &Cache<PodView>, (from, to): (u64, u64), objects: Vec<Object>) -> Read<PodView> {
        let deltas = objects.iter().map(|object| Delta::Set(pods.item(object).unwrap())).collect();
        Read { stretch: Stretch { series: 5, from: Revision(from), to: Revision(to), deltas }, objects }
    }

    fn same(a: &Item<PodView>, b: &Item<PodView>) {
        assert_eq!(
            (&a.meta, &a.value.info, a.value.ended, &a.value.told),
            (&b.meta, &b.value.info, b.value.ended, &b.value.told)
        );
    }

    #[test]
    fn what_arrives_is_what_was_read_and_what_differs_is_its_own_sample() {
        let pods = Cache::<PodView>::default();
        let condition = |kind: &str, reason: &str| json!([{"type": kind, "status": "True", "reason": reason}]);
        let different = [
            vec![("/spec/nodeName", json!("n1"))],
            vec![("/spec/nodeName", json!("n1")), ("/status/startTime", json!("2026-01-02T03:04:06Z"))],
            vec![("/spec/priority", json!(5))],
            vec![("/spec/schedulingGates", json!([{"name": "g"}]))],
            vec![("/spec/preemptionPolicy", json!("Never"))],
            vec![("/spec/schedulerName", json!("other"))],
            vec![("/spec/nodeSelector", json!({"a": "b"}))],
            vec![("/status/nominatedNodeName", json!("n2"))],
            vec![("/status/phase", json!("Failed"))],
            vec![("/status/conditions", condition("PodScheduled", "Unschedulable"))],
            vec![("/status/conditions", condition("DisruptionTarget", "PreemptionByScheduler"))],
            vec![("/metadata/namespace", json!("other"))],
            vec![("/metadata/labels", json!({"app": "y"}))],
            vec![("/metadata/generation", json!(2))],
            vec![("/metadata/creationTimestamp", json!("2026-01-02T03:04:06Z"))],
            vec![("/metadata/deletionTimestamp", json!("2026-01-02T03:04:07Z"))],
            vec![("/metadata/finalizers", json!(["f"]))],
            vec![("/metadata/ownerReferences", json!([{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "x"}]))],
        ];
        let mut objects = vec![pod(1, &[]), pod(2, &[]), pod(3, &[("/spec/nodeName", json!("n3"))])];
        objects.extend(different.iter().zip(4..).map(|(change, number)| pod(number, change)));
        let items: Vec<_> = objects.iter().map(|object| pods.item(object).unwrap()).collect();
        let letter = Letter::of(Revision(9), read(&pods, (0, 50), objects), &mut Samples::default());
        // The second is like the first, and that on n1 like that on n3.
        assert_eq!(letter.message().samples.len(), items.len() - 2);
        assert!(!letter.message().samples.iter().any(|sample| String::from_utf8_lossy(sample).contains("hidden")));
        let (epoch, stretch) = open(letter.message().clone(), &pods, &mut Samples::default()).unwrap();
        assert_eq!((epoch, stretch.series, stretch.from, stretch.to), (Revision(9), 5, Revision(0), Revision(50)));
        assert_eq!(stretch.deltas.len(), items.len());
        for (delta, item) in stretch.deltas.iter().zip(&items) {
            let Delta::Set(told) = delta else { panic!("{delta:?}") };
            same(told, item);
        }
    }

    #[test]
    fn only_what_follows_is_added() {
        let pods = Cache::<PodView>::default();
        let mut known = Samples::default();
        let mut letter = Letter::of(Revision(9), read(&pods, (10, 12), vec![pod(11, &[]), pod(12, &[])]), &mut known);
        let deleted = vec![Delta::Gone(Key::new("default", "p11"), Revision(13)), Delta::Mark(Revision(14))];
        let gone = Stretch { series: 5, from: Revision(12), to: Revision(14), deltas: deleted };
        letter.add(Read { stretch: gone, objects: Vec::new() }, &mut known).unwrap();
        assert!(letter.add(read(&pods, (15, 16), vec![pod(16, &[])]), &mut known).is_err(), "something is missing");
        let mut other = read(&pods, (14, 15), vec![pod(15, &[])]);
        other.stretch.series = 6;
        assert!(letter.add(other, &mut known).is_err(), "another state was taken");
        let (_, stretch) = open(letter.message().clone(), &pods, &mut Samples::default()).unwrap();
        // Of the pod that came and went it is told that it is gone.
        assert_eq!((stretch.from, stretch.to, stretch.deltas.len()), (Revision(10), Revision(14), 2));
        assert!(matches!(&stretch.deltas[0], Delta::Gone(key, Revision(13)) if *key == Key::new("default", "p11")));
        let hello = letter.after();
        let (_, stretch) = open(hello.message().clone(), &pods, &mut Samples::default()).unwrap();
        assert_eq!((stretch.from, stretch.to, stretch.deltas.len()), (Revision(14), Revision(14), 0));
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let pods = Cache::<PodView>::default();
        let change = wire::Change { revision: 2, name: "p".to_owned(), like: 2, ..wire::Change::default() };
        let message = Wire { changes: vec![change], ..Wire::default() };
        assert_eq!(open(message, &pods, &mut Samples::default()).unwrap_err(), "no sample 1 for p");
        let message = Wire { samples: vec!["{".into()], ..Wire::default() };
        assert!(open(message, &pods, &mut Samples::default()).unwrap_err().contains("cannot be read"));
    }
}
