//! The schema-directed walk: reads a value against its type and makes a canonical struct.
//!
//! The walk behaves as Go's decoder does: names are matched exactly, `null` leaves values unchanged and clears pointers, a repeated
//! field is decoded on top of the first, the first type error is kept while reading continues (so that a later syntax error
//! takes precedence), and a type with a decoder of its own fails at once.

use std::borrow::Cow;

use oarlock_schema::{FieldId, Map, Shape, Str, Struct, TypeRef, Value, canonical};
use thin_vec::ThinVec;

use crate::error::{Finding, FindingKind};
use crate::frame::Frame;
use crate::json;
use crate::source::{Fail, Kind, Source};
use crate::wanted::Wanted;

mod any;
mod scalar;
mod schema_or;

pub(crate) use schema_or::schema_type;

/// The deepest nesting of a tree. Go allows 10,000 levels; no real object is near either limit, and all code that walks a tree
/// recurses on the stack of a request's task. Code that builds trees from other trees (patches, aliases) must keep this limit too.
pub const MAX_DEPTH: u32 = 400;

/// The most findings that upstream reports.
const MAX_FINDINGS: usize = 100;

/// The most bytes of text that all findings may have together, repeated ones included: each text contains the path, and a key in a path may be as long as the
/// body.
const MAX_FINDING_TEXT: usize = 1 << 20;

/// The treatment of unknown and duplicate fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Drop them silently (`fieldValidation=Ignore`).
    #[default]
    Lenient,
    /// Drop them and report them (`fieldValidation=Warn` and `Strict`).
    Strict,
}

/// A decoded value with the findings of strict validation.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded<T> {
    /// The value; a struct is canonical except that empty lists and maps that always appear stay as written.
    pub value: T,
    /// Unknown and duplicate fields in the order of the text, at most 100, each once; empty in [`Mode::Lenient`].
    pub findings: Vec<Finding>,
}

pub(crate) struct Walk<'w, S> {
    pub(crate) src: S,
    pub(crate) findings: Vec<Finding>,
    finding_text: usize,
    /// The first type error; reading continues after the error.
    pub(crate) saved: Option<Box<str>>,
    /// Whether the root has a field that equals `kind` or `apiVersion` except for its case; upstream's peek reads such a field as the kind.
    pub(crate) shadowed: bool,
    /// The wanted fields of the current struct.
    pub(crate) wanted: &'w Wanted,
    strict: bool,
    depth: u32,
}

impl<'de, S: Source<'de>> Walk<'_, S> {
    pub(crate) fn new(src: S, mode: Mode) -> Self {
        let (strict, wanted) = (mode == Mode::Strict, Wanted::all());
        Self { src, findings: Vec::new(), finding_text: 0, saved: None, shadowed: false, wanted, strict, depth: 0 }
    }

    /// Makes a lenient walk of a value at depth `depth` of another tree.
    pub(crate) fn below(src: S, depth: u32) -> Self {
        Self { depth, ..Self::new(src, Mode::Lenient) }
    }

    /// Reads the whole value as a struct of type `ty`.
    pub(crate) fn root(&mut self, ty: TypeRef) -> Result<Struct, Fail> {
        match self.src.peek()? {
            Kind::Map => self.structure(ty, &Frame::ROOT, None),
            Kind::Null => self.src.null().map(|()| Struct::zero(ty)),
            kind => {
                self.mismatch(kind.word(), &Shape::Struct(ty), &Frame::ROOT)?;
                Ok(Struct::zero(ty))
            }
        }
    }

    /// Reads the whole value as any shape.
    pub(crate) fn shaped(&mut self, shape: &Shape) -> Result<Value, Fail> {
        let mut value = Value::Null;
        self.item(shape, &Frame::ROOT, &mut value)?;
        Ok(if value.is_null() { zero_item(shape) } else { value })
    }

    #[cold]
    fn find(&mut self, kind: FindingKind, name: &str, frame: &Frame<'_>) {
        if !self.strict || self.findings.len() >= MAX_FINDINGS || self.finding_text >= MAX_FINDING_TEXT {
            return;
        }
        let finding = Finding { kind, path: frame.finding(name) };
        self.finding_text += finding.path.len();
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    /// Records a type error and skips the value.
    #[cold]
    fn mismatch(&mut self, what: &str, shape: &Shape, frame: &Frame<'_>) -> Result<(), Fail> {
        self.save(|| frame.type_error(what, &go_type(shape)));
        self.src.skip(self.depth)
    }

    /// Records the first type error. Later errors are not formatted: each text contains the path, and every item may have an error.
    #[cold]
    fn save(&mut self, text: impl FnOnce() -> String) {
        self.saved.get_or_insert_with(|| text().into());
    }

    fn enter(&mut self) -> Result<(), Fail> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Fail::Depth);
        }
        self.src.begin();
        Ok(())
    }

    fn structure(&mut self, ty: TypeRef, frame: &Frame<'_>, old: Option<Struct>) -> Result<Struct, Fail> {
        self.enter()?;
        let mut node = old.unwrap_or_else(|| Struct::with_capacity(ty, 4));
        let wanted = self.wanted;
        let mut seen = Seen::default();
        let mut repeated_maps = RepeatedMaps::default();
        let mut last = None;
        let mut first = true;
        while let Some(key) = self.src.next_key(first)? {
            first = false;
            let Some((id, def)) = ty.field_near(last, &key) else {
                if self.depth == 1 && ["kind", "apiVersion"].iter().any(|name| key.eq_ignore_ascii_case(name)) {
                    self.shadowed = true;
                }
                self.find(FindingKind::Unknown, &key, frame);
                self.src.skip(self.depth)?;
                continue;
            };
            let repeated = seen.is_repeat(id);
            if repeated {
                self.find(FindingKind::Duplicate, def.name, frame);
            }
            last = Some(id);
            match wanted.below(def.name) {
                Some(below) => self.wanted = below,
                None => {
                    self.src.skip(self.depth)?;
                    continue;
                }
            }
            let kind = self.src.peek()?;
            if kind == Kind::Null {
                self.src.null()?;
                repeated_maps.forget(id);
                if (def.pointer || matches!(def.shape, Shape::List(_) | Shape::Map(_) | Shape::Bytes))
                    && let Some(slot) = node.field_mut(id)
                {
                    *slot = Value::Null;
                }
                continue;
            }
            // Values are read into their final position: moving them costs more than reading them.
            let slot = node.entry(id, || Value::Null);
            if kind == Kind::Str && matches!(def.shape, Shape::Str) {
                *slot = Value::Str(to_str(self.src.str()?));
                continue;
            }
            if let (true, Shape::Map(inner), Kind::Map) = (repeated, &def.shape, kind) {
                let more = self.entries(inner, &frame.field(ty, def))?;
                repeated_maps.add(id, more);
                continue;
            }
            self.value(kind, &def.shape, &frame.field(ty, def), slot)?;
        }
        self.depth -= 1;
        self.wanted = wanted;
        if !repeated_maps.0.is_empty() {
            repeated_maps.settle(&mut node);
        }
        canonical::settle_written(&mut node, frame.owner());
        Ok(node)
    }

    /// Reads a value that is not null. A value of the wrong type is recorded as an error and leaves the slot unchanged. Structs and maps are read on top of the
    /// slot's previous value.
    fn value(&mut self, kind: Kind, shape: &Shape, frame: &Frame<'_>, slot: &mut Value) -> Result<(), Fail> {
        match (shape, kind) {
            (Shape::Str, Kind::Str) => *slot = Value::Str(to_str(self.src.str()?)),
            (Shape::Bool, Kind::Bool) => *slot = Value::Bool(self.src.bool()?),
            (Shape::Struct(ty), Kind::Map) => {
                let old = match std::mem::take(slot) {
                    Value::Struct(old) => Some(old),
                    _ => None,
                };
                *slot = Value::Struct(self.structure(ty, frame, old)?);
            }
            (Shape::List(inner), Kind::List) => {
                *slot = Value::List(ThinVec::new());
                if let Value::List(items) = slot {
                    self.list(inner, frame, items)?;
                }
            }
            (Shape::Map(inner), Kind::Map) => {
                let entries = self.entries(inner, frame)?;
                let old = match std::mem::take(slot) {
                    Value::Map(old) => old,
                    _ => Map::default(),
                };
                *slot = Value::Map(old.with(entries));
            }
            (Shape::Int32 | Shape::Int64 | Shape::Float64, Kind::Number) => self.numeric(shape, frame, slot)?,
            (Shape::Bytes, Kind::Str | Kind::List) => self.bytes(kind, frame, slot)?,
            (Shape::Quantity, _) => *slot = self.quantity(kind)?,
            (Shape::IntOrString, _) => *slot = self.int_or_string(kind, frame)?,
            (Shape::Time | Shape::MicroTime | Shape::Duration, _) => *slot = self.moment(shape, kind, frame)?,
            (Shape::RawExtension | Shape::Json, _) => *slot = self.any(&Frame::ROOT, true)?,
            (Shape::FieldsV1, _) => *slot = Value::Str(to_str(json::escaped(self.src.raw(self.depth)?))),
            (Shape::SchemaOrBool | Shape::SchemaOrArray | Shape::SchemaOrStringArray, _) => {
                *slot = self.schema_or(shape, kind, frame)?;
            }
            _ => self.mismatch(kind.word(), shape, frame)?,
        }
        Ok(())
    }

    /// Reads a list item or map value into a null slot; `null` and values of the wrong type leave the slot null.
    fn item(&mut self, shape: &Shape, frame: &Frame<'_>, slot: &mut Value) -> Result<(), Fail> {
        match self.src.peek()? {
            Kind::Null => self.src.null(),
            kind => self.value(kind, shape, frame, slot),
        }
    }

    fn list(&mut self, inner: &Shape, frame: &Frame<'_>, items: &mut ThinVec<Value>) -> Result<(), Fail> {
        self.enter()?;
        while self.src.next_item(items.is_empty())? {
            let frame = frame.index(items.len());
            items.push(Value::Null);
            let Some(slot) = items.last_mut() else { break };
            self.item(inner, &frame, slot)?;
            if slot.is_null() {
                *slot = zero_item(inner);
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Returns the entries of a map in input order.
    fn entries(&mut self, inner: &Shape, frame: &Frame<'_>) -> Result<ThinVec<(Str, Value)>, Fail> {
        self.enter()?;
        let mut keys = Keys::default();
        let mut entries = ThinVec::new();
        let mut first = true;
        while let Some(key) = self.src.next_key(first)? {
            first = false;
            if self.strict && keys.is_repeat(&entries, &key) {
                self.find(FindingKind::Duplicate, &key, frame);
            }
            entries.push((to_str(key), Value::Null));
            let Some((key, slot)) = entries.last_mut() else { break };
            self.item(inner, &frame.key(key), slot)?;
            if slot.is_null() {
                *slot = zero_item(inner);
            }
        }
        self.depth -= 1;
        Ok(entries)
    }
}

/// Entries of map fields that occur several times in one struct. Each occurrence adds to the map; inserting its entries at once would move the others each
/// time, so all are collected until the struct is complete.
#[derive(Default)]
struct RepeatedMaps(Vec<(FieldId, ThinVec<(Str, Value)>)>);

impl RepeatedMaps {
    fn add(&mut self, id: FieldId, entries: ThinVec<(Str, Value)>) {
        match self.0.iter_mut().find(|(known, _)| *known == id) {
            Some((_, all)) => all.extend(entries),
            None => self.0.push((id, entries)),
        }
    }

    /// Drops the entries of a field after a `null`, which clears the field.
    fn forget(&mut self, id: FieldId) {
        self.0.retain(|(known, _)| *known != id);
    }

    fn settle(self, node: &mut Struct) {
        for (id, entries) in self.0 {
            let slot = node.entry(id, || Value::Null);
            let old = match std::mem::take(slot) {
                Value::Map(old) => old,
                _ => Map::default(),
            };
            *slot = Value::Map(old.with(entries));
        }
    }
}

/// The fields of one struct that have been read.
#[derive(Default)]
struct Seen {
    low: u64,
    high: Vec<FieldId>,
}

impl Seen {
    fn is_repeat(&mut self, id: FieldId) -> bool {
        if id.0 < 64 {
            let bit = 1 << id.0;
            let again = self.low & bit != 0;
            self.low |= bit;
            return again;
        }
        let again = self.high.contains(&id);
        self.high.push(id);
        again
    }
}

/// The keys of one map that have been read. As long as keys come sorted, comparing with the last one suffices.
#[derive(Default)]
pub(crate) struct Keys {
    unsorted: Option<std::collections::BTreeSet<Str>>,
}

impl Keys {
    pub(crate) fn is_repeat(&mut self, entries: &[(Str, Value)], key: &str) -> bool {
        if self.unsorted.is_none() {
            match entries.last() {
                Some((last, _)) if last.as_str() >= key => {
                    self.unsorted = Some(entries.iter().map(|(k, _)| k.clone()).collect());
                }
                _ => return false,
            }
        }
        self.unsorted.as_mut().is_some_and(|keys| !keys.insert(Str::new(key)))
    }
}

/// Returns the zero value of a list item or map value. Empty bytes and lists in these positions are stored as empty, not as `null`.
pub(crate) fn zero_item(shape: &Shape) -> Value {
    match shape {
        Shape::Bytes => Value::from(""),
        Shape::List(_) => Value::List(ThinVec::new()),
        _ => Value::zero(shape),
    }
}

pub(crate) fn to_str(text: Cow<'_, str>) -> Str {
    match text {
        Cow::Borrowed(text) => Str::new(text),
        Cow::Owned(text) => Str::from(text),
    }
}

/// Returns the name of a shape's Go type. Named texts and numbers (`v1.RestartPolicy`) show as their plain type.
fn go_type(shape: &Shape) -> String {
    match shape {
        Shape::Bool => "bool".into(),
        Shape::Int32 => "int32".into(),
        Shape::Int64 => "int64".into(),
        Shape::Float64 => "float64".into(),
        Shape::Bytes => "[]uint8".into(),
        Shape::Struct(ty) => ty.name.rsplit('/').next().unwrap_or(ty.name).to_owned(),
        Shape::List(inner) => format!("[]{}", go_type(inner)),
        // Nearly all maps of quantities have this Go type.
        Shape::Map(Shape::Quantity) => "v1.ResourceList".into(),
        Shape::Map(inner) => format!("map[string]{}", go_type(inner)),
        Shape::Quantity => "resource.Quantity".into(),
        Shape::IntOrString => "intstr.IntOrString".into(),
        Shape::RawExtension => "runtime.RawExtension".into(),
        Shape::Time => "v1.Time".into(),
        Shape::MicroTime => "v1.MicroTime".into(),
        Shape::Duration => "v1.Duration".into(),
        Shape::FieldsV1 => "v1.FieldsV1".into(),
        Shape::Json => "v1.JSON".into(),
        Shape::SchemaOrBool => "v1.JSONSchemaPropsOrBool".into(),
        Shape::SchemaOrArray => "v1.JSONSchemaPropsOrArray".into(),
        Shape::SchemaOrStringArray => "v1.JSONSchemaPropsOrStringArray".into(),
        Shape::Str => "string".into(),
    }
}
