//! Encoding of pod changes for the bus. Pods of one burst are alike: one pod is sent whole as a sample, for the others only their differences.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use oarlock_bus::EnvelopeError;
use oarlock_bus::proto::scheduler::v1 as wire;
use oarlock_client::{Object, Wanted, encode};
use oarlock_informer::{Cache, Delta, Item, Key, Project, Read, Stretch};
use oarlock_meta::{Revision, Status};
use oarlock_runtime::Instant;

use crate::intern::Interner;
use crate::map::Map;
use crate::model::PodInfo;
use crate::project::{PodIdentity, PodView, alike, like};

use super::super::spans;

/// The fields of a sample pod that are sent.
static SAMPLE_FIELDS: LazyLock<Wanted> = LazyLock::new(|| PodView::FIELDS.wanted());

/// Number of changes from which a message is full. Changes of one read stay together, so a message may exceed this number.
const MAX_CHANGES: usize = 1024;
/// Bytes of samples from which a message is full; the last sample may exceed the bound. The bus allows one megabyte per message.
const MAX_SAMPLE_BYTES: usize = 256 * 1024;

/// Bound of remembered samples: about the number of different pod templates in use at one time.
const MAX_SAMPLES: usize = 16;

/// Pods that were sent or received as samples, with their encoded bytes; the most recent one is last.
#[derive(Default)]
pub(super) struct Samples(VecDeque<(Arc<Item<PodView>>, Bytes)>);

impl Samples {
    fn find(&self, is: impl Fn(&Item<PodView>, &Bytes) -> bool) -> Option<&(Arc<Item<PodView>>, Bytes)> {
        self.0.iter().rfind(|(item, bytes)| is(item, bytes))
    }

    fn keep(&mut self, item: Arc<Item<PodView>>, bytes: Bytes) {
        if self.0.len() == MAX_SAMPLES {
            self.0.pop_front();
        }
        self.0.push_back((item, bytes));
    }
}

/// Builder of one message about consecutive pod changes.
pub(super) struct StretchBuilder {
    message: wire::Stretch,
    /// The pods of `message.samples`, in the same order.
    samples: Vec<Arc<Item<PodView>>>,
    size: usize,
    /// Index of each pod's change in the message. Each pod occurs once, with its latest state.
    places: Map<Key, usize>,
    /// When the message was begun, and the new pods in it that wait for a node: for the message's span. `None` and none while no span is recorded.
    began: Option<Instant>,
    new: Vec<Arc<PodInfo>>,
}

impl StretchBuilder {
    fn new(epoch: u64, series: u64, from: u64) -> Self {
        let message = wire::Stretch { epoch, series, from, to: from, ..wire::Stretch::default() };
        Self { message, samples: Vec::new(), size: 0, places: Map::default(), began: spans::begin(), new: Vec::new() }
    }

    /// Starts a message under `epoch` with the changes of one read.
    pub(super) fn of(epoch: Revision, read: Read<PodView>, known: &mut Samples) -> Self {
        let mut builder = Self::new(epoch.get(), read.stretch.series, read.stretch.from.get());
        builder.take(read, known);
        builder
    }

    /// Returns the empty message that follows this one and reports that no change has happened since.
    pub(super) fn after(&self) -> Self {
        Self::new(self.message.epoch, self.message.series, self.message.to)
    }

    /// Appends the changes of the next read.
    ///
    /// # Errors
    /// Returns the read unchanged when its start revision does not follow the message's end.
    pub(super) fn add(&mut self, read: Read<PodView>, known: &mut Samples) -> Result<(), Box<Read<PodView>>> {
        if (read.stretch.series, read.stretch.from.get()) != (self.message.series, self.message.to) {
            return Err(Box::new(read));
        }
        self.take(read, known);
        Ok(())
    }

    /// Returns the number of changes in the message.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.message.changes.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn is_full(&self) -> bool {
        self.message.changes.len() >= MAX_CHANGES || self.size >= MAX_SAMPLE_BYTES
    }

    pub(super) fn message(&self) -> &wire::Stretch {
        &self.message
    }

    /// Returns when the message was begun; `None` while no span is recorded.
    pub(super) const fn began(&self) -> Option<Instant> {
        self.began
    }

    /// Returns the new pods in the message that wait for a node; none while no span is recorded.
    pub(super) fn new_pods(&self) -> &[Arc<PodInfo>] {
        &self.new
    }

    fn take(&mut self, read: Read<PodView>, known: &mut Samples) {
        let mut objects = read.objects.iter();
        self.message.to = read.stretch.to.get();
        for delta in read.stretch.deltas {
            let (key, change) = match delta {
                Delta::Set(item) => {
                    let Some(object) = objects.next() else { continue };
                    let (key, info) = (item.key().clone(), Arc::clone(&item.value.info));
                    if self.began.is_some() && is_new(&item) {
                        self.new.push(Arc::clone(&info));
                    }
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

    /// Returns the number, from 1, of a sample that the pod is like; adds the pod as a sample if no sample fits.
    fn sample(&mut self, item: Arc<Item<PodView>>, object: &Object, known: &mut Samples) -> u32 {
        let here = self.samples.iter().rposition(|sample| alike(sample, &item));
        let at = here.unwrap_or_else(|| {
            let (item, bytes) = known.find(|sample, _| alike(sample, &item)).cloned().unwrap_or_else(|| {
                // The object was projected before, so decoding succeeds; otherwise the object is sent whole.
                let bytes = object.obj_wanted(&SAMPLE_FIELDS).map_or_else(|_| object.bytes.clone(), |obj| encode(&obj));
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

/// Whether a pod waits for its first scheduling attempt.
fn is_new(pod: &Item<PodView>) -> bool {
    let (view, info) = (&pod.value, &pod.value.info);
    let waits = info.node.is_none() && info.gates.is_empty() && !info.terminating;
    waits && !view.ended && view.scheduled_condition.is_none()
}

/// Why a message with changes of pods cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub(super) enum StretchError {
    /// The bus could not read the message.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// The schema has no resource `pods`.
    #[error("the schema has no pods")]
    NoPods,
    /// The bytes of a sample are no pod.
    #[error("{0}")]
    Sample(Status),
    /// A change refers to a sample that the message does not contain.
    #[error("no sample {at} for {pod}")]
    NoSample {
        /// Position of the sample, from 0.
        at: u32,
        /// Name of the changed pod.
        pod: String,
    },
}

/// Decodes a message into the epoch of its sender and the changes.
///
/// # Errors
/// When a sample is missing or cannot be read as a pod.
pub(super) fn open(
    message: wire::Stretch,
    pods: &Cache<PodView>,
    known: &mut Samples,
) -> Result<(Revision, Stretch<PodView>), StretchError> {
    let row = PodView::RESOURCE.find().ok_or(StretchError::NoPods)?;
    let sample = |bytes: Bytes| {
        if let Some((item, _)) = known.find(|_, known| *known == bytes) {
            return Ok(Arc::clone(item));
        }
        let object = Object::new(row.ty, bytes.clone(), Revision::ZERO);
        let item = pods.item(&object).map_err(StretchError::Sample)?;
        known.keep(Arc::clone(&item), bytes);
        Ok(item)
    };
    let samples = message.samples.into_iter().map(sample).collect::<Result<Vec<_>, StretchError>>()?;
    let names = Interner::process();
    let delta = |change: wire::Change| {
        let revision = Revision(change.revision);
        let Some(at) = change.like.checked_sub(1) else {
            return Ok(Delta::Gone(Key::new(change.namespace, change.name), revision));
        };
        let sample = samples.get(at as usize).ok_or_else(|| StretchError::NoSample { at, pod: change.name.clone() })?;
        let key = Key { namespace: sample.meta.key.namespace.clone(), name: change.name.into() };
        let node = (!change.node.is_empty()).then(|| names.intern(&change.node));
        Ok(Delta::Set(Arc::new(like(sample, PodIdentity { key, uid: change.uid, revision, node }))))
    };
    let deltas = message.changes.into_iter().map(delta).collect::<Result<_, StretchError>>()?;
    let (from, to) = (Revision(message.from), Revision(message.to));
    Ok((Revision(message.epoch), Stretch { series: message.series, from, to, deltas }))
}

#[cfg(test)]
mod tests {
    use oarlock_bus::proto::scheduler::v1::Stretch as Wire;
    use oarlock_telemetry::traces::{self, Change, Settings};
    use serde_json::{Value, json};

    use super::*;

    fn object(pod: &Value) -> Object {
        let revision = pod["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        Object::new(PodView::RESOURCE.find().unwrap().ty, serde_json::to_vec(pod).unwrap().into(), revision)
    }

    /// A pod with the given JSON pointers set to the given values.
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
            (&a.meta, &a.value.info, a.value.ended, &a.value.scheduled_condition),
            (&b.meta, &b.value.info, b.value.ended, &b.value.scheduled_condition)
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
        let builder = StretchBuilder::of(Revision(9), read(&pods, (0, 50), objects), &mut Samples::default());
        // The second pod is like the first, and the pod on n1 like the pod on n3.
        assert_eq!(builder.message().samples.len(), items.len() - 2);
        assert!(!builder.message().samples.iter().any(|sample| String::from_utf8_lossy(sample).contains("hidden")));
        let (epoch, stretch) = open(builder.message().clone(), &pods, &mut Samples::default()).unwrap();
        assert_eq!((epoch, stretch.series, stretch.from, stretch.to), (Revision(9), 5, Revision(0), Revision(50)));
        assert_eq!(stretch.deltas.len(), items.len());
        for (delta, item) in stretch.deltas.iter().zip(&items) {
            let Delta::Set(told) = delta else { panic!("{delta:?}") };
            same(told, item);
        }
    }

    #[test]
    fn the_span_of_a_message_is_in_the_life_of_one_new_pod_and_linked_with_those_of_the_others() {
        traces::start(Settings::ring());
        let pods = Cache::<PodView>::default();
        let unschedulable = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
        let not_new = [
            ("/spec/nodeName", json!("n1")),
            ("/spec/schedulingGates", json!([{"name": "g"}])),
            ("/status/conditions", unschedulable),
            ("/status/phase", json!("Failed")),
            ("/metadata/deletionTimestamp", json!("2026-01-02T03:04:07Z")),
        ];
        let mut objects: Vec<_> = (1..=40).map(|number| pod(number, &[])).collect();
        objects.extend(not_new.into_iter().zip(41..).map(|(change, number)| pod(number, &[change])));
        let builder = StretchBuilder::of(Revision(9), read(&pods, (0, 50), objects), &mut Samples::default());
        let new: Vec<_> = builder.new_pods().iter().collect();
        assert_eq!(new.len(), 40);

        let span = spans::relay(&new, builder.began()).unwrap().finish();
        let root = |number: u64| Change::new(&format!("u{number}"), 1).context().span_id();
        assert_eq!((&*span.name, span.parent_span_id), ("relay", root(1)));
        let linked: Vec<_> = span.links.iter().map(|link| link.span_context.span_id()).collect();
        assert_eq!(linked, (2..=33).map(root).collect::<Vec<_>>());
        assert_eq!(span.links.dropped_count, 7, "links are bounded");
        assert!(spans::relay(&[], builder.began()).is_none(), "no pod");
        assert!(spans::relay(&new, None).is_none(), "no span is recorded");
    }

    #[test]
    fn only_what_follows_is_added() {
        let pods = Cache::<PodView>::default();
        let mut known = Samples::default();
        let mut builder =
            StretchBuilder::of(Revision(9), read(&pods, (10, 12), vec![pod(11, &[]), pod(12, &[])]), &mut known);
        let deleted = vec![Delta::Gone(Key::new("default", "p11"), Revision(13)), Delta::Mark(Revision(14))];
        let gone = Stretch { series: 5, from: Revision(12), to: Revision(14), deltas: deleted };
        builder.add(Read { stretch: gone, objects: Vec::new() }, &mut known).unwrap();
        assert!(builder.add(read(&pods, (15, 16), vec![pod(16, &[])]), &mut known).is_err(), "something is missing");
        let mut other = read(&pods, (14, 15), vec![pod(15, &[])]);
        other.stretch.series = 6;
        assert!(builder.add(other, &mut known).is_err(), "another state was taken");
        let (_, stretch) = open(builder.message().clone(), &pods, &mut Samples::default()).unwrap();
        // A pod that was created and deleted within the message is sent as deleted.
        assert_eq!((stretch.from, stretch.to, stretch.deltas.len()), (Revision(10), Revision(14), 2));
        assert!(matches!(&stretch.deltas[0], Delta::Gone(key, Revision(13)) if *key == Key::new("default", "p11")));
        let hello = builder.after();
        let (_, stretch) = open(hello.message().clone(), &pods, &mut Samples::default()).unwrap();
        assert_eq!((stretch.from, stretch.to, stretch.deltas.len()), (Revision(14), Revision(14), 0));
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let pods = Cache::<PodView>::default();
        let change = wire::Change { revision: 2, name: "p".to_owned(), like: 2, ..wire::Change::default() };
        let message = Wire { changes: vec![change], ..Wire::default() };
        assert_eq!(open(message, &pods, &mut Samples::default()).unwrap_err().to_string(), "no sample 1 for p");
        let message = Wire { samples: vec!["{".into()], ..Wire::default() };
        assert!(open(message, &pods, &mut Samples::default()).unwrap_err().to_string().contains("cannot be read"));
    }
}
