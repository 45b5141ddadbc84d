//! A watch over HTTPS: parses events only as fast as the consumer takes them; HTTP/2 flow control slows the server down.

use std::borrow::Cow;

use async_trait::async_trait;
use bytes::Bytes;
use hyper::body::Incoming;
use oarlock_meta::Status;
use oarlock_schema::TypeRef;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::body;
use super::frames::Frames;
use super::pool::Stream;
use crate::object::Object;
use crate::peek::peek;
use crate::request::Event;
use crate::transport::Watch;

/// A [`Watch`] over an HTTP/2 stream.
pub(super) struct HttpsWatch {
    ty: TypeRef,
    body: Incoming,
    frames: Frames,
    ended: bool,
    _stream: Stream,
}

/// One line of a watch: an event's type and its undecoded object.
#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl HttpsWatch {
    pub(super) fn new(ty: TypeRef, body: Incoming, stream: Stream) -> Self {
        Self { ty, body, frames: Frames::default(), ended: false, _stream: stream }
    }

    fn failed(&mut self, why: &str) -> Option<Vec<Event>> {
        self.ended = true;
        Some(vec![Event::Error(Status::service_unavailable(why))])
    }
}

#[async_trait]
impl Watch for HttpsWatch {
    async fn next(&mut self) -> Option<Vec<Event>> {
        if self.ended {
            return None;
        }
        let mut lines = Vec::new();
        while lines.is_empty() {
            // The only await point: data received so far is kept in `frames`.
            match body::part(&mut self.body).await {
                Ok(Some(chunk)) => {
                    if self.frames.push(chunk, &mut lines).is_err() {
                        return self.failed("an event of the watch is too long");
                    }
                }
                Ok(None) if self.frames.has_partial_line() => {
                    return self.failed("the watch ended within an event");
                }
                Ok(None) => {
                    self.ended = true;
                    return None;
                }
                Err(why) => return self.failed(&format!("the watch broke: {why}")),
            }
        }
        let mut events = Vec::with_capacity(lines.len());
        for line in lines {
            let event = event(self.ty, &line).unwrap_or_else(Event::Error);
            self.ended = matches!(event, Event::Error(_));
            events.push(event);
            if self.ended {
                break;
            }
        }
        Some(events)
    }
}

/// Returns a frame's type and the text of its object. Servers write frames in one form, which allows this without parsing the object.
fn parts(line: &[u8]) -> Option<(&str, &str)> {
    let rest = std::str::from_utf8(line).ok()?.strip_prefix(r#"{"type":""#)?.strip_suffix('}')?;
    let (kind, object) = rest.split_once(r#"","object":"#)?;
    (object.starts_with('{') && object.ends_with('}')).then_some((kind, object))
}

fn event(ty: TypeRef, line: &Bytes) -> Result<Event, Status> {
    let unreadable =
        |e: &dyn std::fmt::Display| Status::internal_error(format!("an event of the watch cannot be read: {e}"));
    let frame: Frame<'_>;
    let (kind, text) = match parts(line) {
        Some(parts) => parts,
        None => {
            frame = serde_json::from_slice(line).map_err(|e| unreadable(&e))?;
            (&*frame.kind, frame.object.get())
        }
    };
    let object = || Object::from_json(ty, line.slice_ref(text.as_bytes()));
    Ok(match kind {
        "ADDED" => Event::Added(object()?),
        "MODIFIED" => Event::Modified(object()?),
        "DELETED" => Event::Deleted(object()?),
        "BOOKMARK" => {
            let head = peek(text.as_bytes())?;
            Event::Bookmark { revision: head.revision(), initial_events_end: head.initial_events_end }
        }
        "ERROR" => Event::Error(serde_json::from_str(text).map_err(|e| unreadable(&e))?),
        other => return Err(unreadable(&format_args!("unknown type {other:?}"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_events_are_errors_or_name_their_object() {
        const LINES: [&str; 3] = [
            r#"{"type":"MODIFIED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"d","uid":"u","resourceVersion":"7"},"data":{"k":"v"}}}"#,
            r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
            r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","code":410}}"#,
        ];
        let ty = oarlock_schema::resource("", "v1", "configmaps").unwrap().ty;
        let (mut read, mut cut) = (0, 0);
        let whole = |line: &[u8]| serde_json::from_slice::<Frame<'_>>(line).is_ok();
        for line in LINES.into_iter().flat_map(|line| oarlock_testkit::damaged(1, line.as_bytes(), 2000)) {
            let line = Bytes::from(line);
            // The extracted text must equal the parsed object.
            if let Some((kind, object)) = parts(&line).filter(|_| whole(&line)) {
                let frame: Frame<'_> = serde_json::from_slice(&line).unwrap();
                assert_eq!((kind, object), (&*frame.kind, frame.object.get()));
                cut += 1;
            }
            match event(ty, &line) {
                Ok(Event::Added(object) | Event::Modified(object) | Event::Deleted(object)) => {
                    read += 1;
                    let _ = object.obj();
                }
                Ok(Event::Bookmark { .. } | Event::Error(_)) => read += 1,
                Err(status) => assert_eq!(status.code, 500),
            }
        }
        assert!(read > 500 && cut > 500, "only {read} were still readable, {cut} in the usual form");
    }
}
