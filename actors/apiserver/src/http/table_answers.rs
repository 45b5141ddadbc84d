//! Table answers (`kubectl get`): the columns come from the schema facts, the cells from the printers.

use bytes::Bytes;
use oarlock_client::{List, Object, Reply};
use oarlock_codec::printers::{self, Now, Print};
use oarlock_codec::{json, partial};
use oarlock_meta::{MicroTime, Status};
use oarlock_runtime::clock;
use oarlock_schema::{Obj, Resource, Value};

use super::accept::Include;
use super::list_head::head;
use crate::target::Target;

/// Annotation of the bookmark that ends the initial events (KEP-3157).
pub(super) const INITIAL_END: &str = "k8s.io/initial-events-end";

/// Version and contents of a Table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// `v1` or `v1beta1` of `meta.k8s.io`.
    pub(crate) version: &'static str,
    /// What each row contains besides its cells.
    pub(crate) include: Include,
    /// Whether column definitions are included; in a watch only the first event has them.
    pub(crate) headers: bool,
}

/// Encodes a reply as a Table in compact JSON.
///
/// # Errors
/// 406 for a reply that has no rows, 500 when an object does not decode.
pub(crate) fn render(
    reply: &Reply,
    target: &Target<'_>,
    version: &'static str,
    include: Include,
) -> Result<Bytes, Status> {
    let style = Style { version, include, headers: true };
    match reply {
        Reply::Object { object, .. } => one(object, &Columns::of(target.resource(), target.subresource), style),
        Reply::List(list) => many(list, &Columns::of(target.resource(), ""), style),
        Reply::Status(_) => Err(Status::not_acceptable(&["application/json"])),
    }
}

/// Encodes one object as a Table with one row.
///
/// # Errors
/// 500 when the object does not decode.
pub(crate) fn row(object: &Object, resource: &'static Resource, style: Style) -> Result<Bytes, Status> {
    one(object, &Columns::of(resource, ""), style)
}

/// The columns of an endpoint, and the printer of their cells.
struct Columns {
    resource: &'static Resource,
    scale: bool,
    print: Print,
}

impl Columns {
    fn of(resource: &'static Resource, subresource: &str) -> Self {
        let scale = subresource == "scale";
        let print = if scale { printers::scale_printer() } else { printers::printer(resource) };
        Self { resource, scale, print }
    }

    /// Returns the column definitions. The API requires descriptions; we use the column's name, not upstream's sentences.
    fn definitions(&self) -> String {
        // Names and types need no JSON escapes.
        let one = |name: &str, ty: &str, format: &str, priority: i32| {
            format!(
                r#"{{"name":"{name}","type":"{ty}","format":"{format}","description":"{name}","priority":{priority}}}"#
            )
        };
        let columns: Vec<String> = if self.scale {
            printers::SCALE_COLUMNS.iter().map(|(name, ty, format)| one(name, ty, format, 0)).collect()
        } else {
            self.resource.columns.iter().map(|c| one(c.name, c.ty, c.format, c.priority)).collect()
        };
        format!("[{}]", columns.join(","))
    }

    fn begin(&self, out: &mut Vec<u8>, style: Style) {
        out.extend_from_slice(b",\"columnDefinitions\":");
        let definitions = if style.headers { self.definitions() } else { "null".to_owned() };
        out.extend_from_slice(definitions.as_bytes());
        out.extend_from_slice(b",\"rows\":");
    }

    fn row(&self, object: &Object, style: Style, now: Now, out: &mut Vec<u8>) -> Result<(), Status> {
        let obj = object.obj()?;
        let row = (self.print)(&obj, now);
        out.extend_from_slice(b"{\"cells\":");
        json::encode_value(&row.cells.into_iter().collect::<Value>(), out);
        if let Some((reason, message)) = row.completed {
            let conditions =
                format!(r#"[{{"type":"Completed","status":"True","reason":"{reason}","message":"{message}"}}]"#);
            out.extend_from_slice(b",\"conditions\":");
            out.extend_from_slice(conditions.as_bytes());
        }
        out.extend_from_slice(b",\"object\":");
        match style.include {
            Include::None if !ends_initial_events(&obj) => out.extend_from_slice(b"null"),
            Include::Object if !ends_initial_events(&obj) => out.extend_from_slice(object.bytes.trim_ascii_end()),
            _ => {
                let metadata = partial::metadata_json(&object.bytes, style.version);
                out.extend_from_slice(&metadata.ok_or_else(|| Status::internal_error("stored bytes are no object"))?);
            }
        }
        out.push(b'}');
        Ok(())
    }
}

/// Whether an object is the bookmark that ends the initial events. That bookmark keeps its metadata, which holds the marking annotation, whatever
/// `includeObject` says.
fn ends_initial_events(obj: &Obj) -> bool {
    obj.meta().annotations().get(INITIAL_END).is_some()
}

fn now() -> Now {
    Now(MicroTime::from_unix_micros(clock::wall().as_microsecond()))
}

fn one(object: &Object, columns: &Columns, style: Style) -> Result<Bytes, Status> {
    let mut out = Vec::with_capacity(2048);
    let revision = object.revision;
    out.extend_from_slice(
        format!("{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/{}\",\"metadata\":{{", style.version).as_bytes(),
    );
    if !revision.is_zero() {
        out.extend_from_slice(format!("\"resourceVersion\":\"{revision}\"").as_bytes());
    }
    out.push(b'}');
    columns.begin(&mut out, style);
    out.push(b'[');
    columns.row(object, style, now(), &mut out)?;
    out.extend_from_slice(b"]}");
    Ok(out.into())
}

fn many(list: &List, columns: &Columns, style: Style) -> Result<Bytes, Status> {
    let now = now();
    let mut out = Vec::with_capacity(2048 + list.items.len() * 768);
    out.extend_from_slice(head("Table", &format!("meta.k8s.io/{}", style.version), list).as_bytes());
    columns.begin(&mut out, style);
    if list.items.is_empty() && columns.resource.columns.iter().any(|c| c.name == "Created At") {
        // Go encodes a nil list as null: the items of resources without a printer begin with null.
        out.extend_from_slice(b"null}");
        return Ok(out.into());
    }
    let mut items: Vec<&Object> = list.items.iter().collect();
    if let Some(order) = printers::order(columns.resource) {
        items.sort_by_cached_key(|object| object.obj().map(|obj| order(&obj)).unwrap_or_default());
    }
    out.push(b'[');
    for (i, object) in items.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        columns.row(object, style, now, &mut out)?;
    }
    out.extend_from_slice(b"]}");
    Ok(out.into())
}
