//! Watch answers: one frame per event, shared among the watchers that asked for the same form.

use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http::{HeaderValue, Response, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use oarlock_client::Object;
use oarlock_meta::{Revision, Status};
use oarlock_schema::{Obj, Resource};
use oarlock_seeded_bug::seeded_bug;
use oarlock_store::{Entry, EventKind};

use super::accept::{Format, Transform, Wanted};
use super::initial::Initial;
use super::table_answers::{self, INITIAL_END, Style};
use super::{Body, respond};
use crate::inflight::Seat;
use crate::metrics::OpenWatch;
use crate::target::Target;
use crate::verbs::watch::{Delivery, Watch};

/// Number of encoded bytes after which a frame of the answer is complete and other tasks run: about a millisecond where objects must be converted. A
/// client that does not read holds this much and one object, however many events are ready.
const FRAME_BYTES: usize = 64 << 10;

/// The shares of the server's limits that the answer to a watch occupies; dropping the value gives them back.
#[derive(Debug)]
pub(super) struct Held {
    /// Until the initial events have been taken.
    pub(super) initial: Option<Initial>,
    /// The room of a long selector, for as long as the watch lasts.
    pub(super) _selector: Option<Seat>,
    /// The watch in the metrics.
    pub(super) _open: OpenWatch,
}

/// Encodes the frames of one watcher.
#[derive(Clone)]
struct FrameEncoder {
    resource: &'static Resource,
    kind: oarlock_registry::KindDef,
    wanted: Wanted,
    /// The index of an event's shared frame for this form; `None` for forms whose frames are not shared.
    slot: Option<usize>,
    /// Whether the column definitions, which a stream of Table frames carries once, have been sent.
    headers_sent: bool,
}

/// The events of one watch on their way into frames.
struct Frames {
    watch: Watch,
    encoder: FrameEncoder,
    held: Held,
    /// Items that are not yet encoded.
    pending: std::vec::IntoIter<Delivery>,
    /// An event of the length of a frame, which is sent as it is.
    long: Option<Bytes>,
}

impl Frames {
    /// Returns the next frame; `None` when the watch has ended.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(long) = self.long.take() {
            return Some(long);
        }
        if self.pending.len() == 0 {
            self.pending = self.watch.next().await?.into_iter();
        } else {
            tokio::task::yield_now().await;
        }
        let encoder = &mut self.encoder;
        let mut events = self.pending.by_ref().map(|delivery| encoder.frame(delivery));
        Some(join(&mut events, &mut self.long))
    }

    /// Releases what is held for the initial events once these have been taken.
    fn release(&mut self) {
        if self.watch.is_initialized() && self.pending.len() == 0 && self.long.is_none() {
            self.held.initial = None;
        }
    }
}

/// Joins events to a frame of the answer. A long event is a frame of its own, and is left in `long` when it follows others. An event that is a frame alone is not copied: watchers of the same form
/// share its memory.
fn join(events: &mut impl ExactSizeIterator<Item = Bytes>, long: &mut Option<Bytes>) -> Bytes {
    let Some(first) = events.next() else { return Bytes::new() };
    if first.len() >= FRAME_BYTES || events.len() == 0 {
        return first;
    }
    // Events of one kind are about as long as each other.
    let about = first.len().saturating_mul(events.len() + 1).min(FRAME_BYTES + first.len());
    let mut out = BytesMut::with_capacity(about);
    out.put_slice(&first);
    while out.len() < FRAME_BYTES
        && let Some(event) = events.next()
    {
        if event.len() >= FRAME_BYTES {
            *long = Some(event);
            break;
        }
        out.put_slice(&event);
    }
    out.freeze()
}

/// Builds the answer to a watch.
#[must_use]
pub(super) fn watch(watch: Watch, target: &Target<'_>, wanted: Wanted, held: Held) -> Response<Body> {
    let encoder = FrameEncoder::new(target, wanted);
    // Boxed, because the stream moves its state several times for each frame.
    let frames = Box::new(Frames { watch, encoder, held, pending: Vec::new().into_iter(), long: None });
    let frames = stream::unfold(frames, |mut frames| async move {
        frames.release();
        let frame = frames.next().await?;
        Some((Ok::<_, super::BodyError>(Frame::data(frame)), frames))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    let format = wanted.form.format;
    let content_type = format.stream_type().unwrap_or(format.media_type());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

impl FrameEncoder {
    fn new(target: &Target<'_>, wanted: Wanted) -> Self {
        let resource = target.resource();
        Self { resource, kind: target.kind, wanted, slot: slot(resource, wanted), headers_sent: false }
    }

    fn frame(&mut self, delivery: Delivery) -> Bytes {
        let result = match delivery {
            Delivery::Initial(entry) => self.event(EventKind::Added, &entry),
            Delivery::Crossed(kind, entry) => self.event(kind, &entry),
            Delivery::Plain(event) => match self.slot {
                // The frame is encoded once for all watchers of this form.
                Some(slot) => {
                    Ok(event.encoded(slot, |e| self.shared(e.kind, &e.entry).unwrap_or_else(|s| self.failed(&s))))
                }
                None => self.event(event.kind, &event.entry),
            },
            Delivery::Bookmark { revision, initial_end } => self.bookmark(revision, initial_end),
            Delivery::Failed(status) => Ok(self.failed(&status)),
        };
        result.unwrap_or_else(|status| self.failed(&status))
    }

    /// Encodes a frame that is the same for all watchers of one form.
    fn shared(&self, kind: EventKind, entry: &Entry) -> Result<Bytes, Status> {
        let object = self.object(entry)?;
        let bytes = match self.wanted.form.transform {
            Transform::None => respond::object_bytes(&object, self.wanted.form.format)?,
            _ => respond::metadata(&object, self.wanted.form)?,
        };
        Ok(self.wrap(word(kind), &bytes))
    }

    fn event(&mut self, kind: EventKind, entry: &Entry) -> Result<Bytes, Status> {
        if self.wanted.form.transform != Transform::Table {
            return self.shared(kind, entry);
        }
        let table = self.table(&self.object(entry)?)?;
        Ok(self.wrap(word(kind), &table))
    }

    fn object(&self, entry: &Entry) -> Result<Object, Status> {
        Target { kind: self.kind, subresource: "", namespace: entry.namespace(), name: entry.name() }.object(entry)
    }

    fn table(&mut self, object: &Object) -> Result<Bytes, Status> {
        let headers = !std::mem::replace(&mut self.headers_sent, true);
        table_answers::row(
            object,
            self.resource,
            Style { version: self.wanted.form.version, include: self.wanted.include, headers },
        )
    }

    fn bookmark(&mut self, revision: Revision, initial_end: bool) -> Result<Bytes, Status> {
        let mut obj = Obj::new(self.resource.ty);
        if let Some(mut meta) = obj.meta_mut() {
            meta.set_resource_version(revision.to_string());
            if initial_end && !seeded_bug!("initial_events_never_end") {
                meta.annotations_mut().insert(INITIAL_END, "true");
            }
        }
        let format = self.wanted.form.format;
        let bytes = match self.wanted.form.transform {
            Transform::None => respond::encode(&obj, format),
            transform => {
                let object = Object::new(obj.ty(), respond::encode(&obj, Format::Json), revision);
                if transform == Transform::Table {
                    self.table(&object)?
                } else {
                    respond::metadata(&object, self.wanted.form)?
                }
            }
        };
        Ok(self.wrap("BOOKMARK", &bytes))
    }

    fn failed(&self, status: &Status) -> Bytes {
        let json = Bytes::from(status.to_json());
        if self.wanted.form.format == Format::Protobuf
            && let Some(ty) = oarlock_schema::type_named("meta/v1.Status")
            && let Ok(obj) = oarlock_registry::index::decode(&json, ty)
        {
            return self.wrap("ERROR", &respond::encode(&obj, Format::Protobuf));
        }
        self.wrap("ERROR", &json)
    }

    fn wrap(&self, word: &str, object: &[u8]) -> Bytes {
        if self.wanted.form.format == Format::Protobuf {
            return Bytes::from(oarlock_codec::protobuf::watch_frame(word, object));
        }
        let mut out = BytesMut::with_capacity(object.len() + 40);
        out.put_slice(b"{\"type\":\"");
        out.put_slice(word.as_bytes());
        out.put_slice(b"\",\"object\":");
        out.put_slice(object.trim_ascii_end());
        out.put_slice(b"}\n");
        out.freeze()
    }
}

/// Returns the index of an event's shared frame for a form; `None` for Tables, which differ between watchers.
fn slot(resource: &'static Resource, wanted: Wanted) -> Option<usize> {
    let served = || std::ptr::eq(oarlock_registry::index::stored_type(resource), resource.ty);
    let format = match wanted.form.format {
        Format::Json => 0,
        Format::Protobuf => 1,
        Format::Yaml => return None,
    };
    match wanted.form.transform {
        Transform::None if served() => Some(format),
        Transform::Metadata | Transform::MetadataList if wanted.form.version == "v1" => Some(2 + format),
        _ => None,
    }
}

fn word(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Added => "ADDED",
        EventKind::Modified => "MODIFIED",
        EventKind::Deleted => "DELETED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the frames of some events.
    fn frames(events: &[Bytes]) -> Vec<Bytes> {
        let (mut events, mut long, mut frames) = (events.iter().cloned(), None, Vec::new());
        while let Some(next) = long.take().or_else(|| (events.len() > 0).then(|| join(&mut events, &mut long))) {
            frames.push(next);
        }
        frames
    }

    fn event(byte: u8, length: usize) -> Bytes {
        Bytes::from(vec![byte; length])
    }

    #[test]
    fn an_event_alone_is_sent_without_a_copy() {
        for length in [1, 1300, FRAME_BYTES] {
            let event = event(1, length);
            let frames = frames(std::slice::from_ref(&event));
            assert_eq!((frames.len(), frames[0].as_ptr()), (1, event.as_ptr()));
        }
    }

    #[test]
    fn events_are_joined_in_order_until_a_frame_is_long_enough() {
        let events: Vec<_> = (0..200).map(|number| event(number, 1300)).collect();
        let frames = frames(&events);
        assert_eq!(frames.concat(), events.concat());
        assert_eq!(frames.iter().map(Bytes::len).collect::<Vec<_>>(), [51 * 1300, 51 * 1300, 51 * 1300, 47 * 1300]);
    }

    #[test]
    fn a_long_event_is_a_frame_of_its_own_wherever_it_comes() {
        let (short, long) = (event(1, 10), event(2, FRAME_BYTES));
        for order in [vec![&long, &short, &short], vec![&short, &short, &long], vec![&short, &long, &long, &short]] {
            let events: Vec<_> = order.into_iter().cloned().collect();
            let frames = frames(&events);
            assert_eq!(frames.concat(), events.concat());
            let shared = frames.iter().filter(|frame| frame.as_ptr() == long.as_ptr()).count();
            assert_eq!(shared, events.iter().filter(|event| **event == long).count());
        }
    }
}
