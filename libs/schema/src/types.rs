//! The graph of types: upstream's Go declarations of each struct and field, as data.
//!
//! Built-in types are statics that the build script writes from `data/v1.35.json`; custom resources compile into
//! the same graph at run time. All code that walks an object (decoders, encoders, defaults, patches, tables)
//! walks this graph.

use crate::name_hash;

/// A type of the graph. Types live as long as the process, so the address of a type identifies the type.
pub type TypeRef = &'static TypeDef;

/// Position of a field in its type's declaration order. Struct nodes are sorted by this position, so objects encode in Go order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FieldId(pub u16);

/// One struct type.
#[derive(Debug)]
pub struct TypeDef {
    /// Short name, such as `core/v1.Pod`.
    pub name: &'static str,
    /// Name of the OpenAPI definition, such as `io.k8s.api.core.v1.Pod`.
    pub openapi: &'static str,
    /// Group, version and kind of a top-level type; `None` for other types.
    pub gvk: Option<Gvk>,
    /// Whether server-side apply owns and replaces values of this type as a whole, in every field.
    pub atomic: bool,
    /// Fields in Go order, embedded structs flattened in place.
    pub fields: &'static [FieldDef],
    /// Indexes into `fields`, sorted by JSON name.
    pub by_name: &'static [u16],
    /// Hash table of indexes into `fields` by JSON name. Its length is a power of two, and a place without a field has an index beyond the fields.
    pub(crate) by_hash: &'static [u16],
    /// Fields that a canonical struct always contains (Go writes them even when zero).
    pub always: &'static [u16],
}

/// Group, version and kind of a top-level type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Gvk {
    /// API group, empty for core.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Kind.
    pub kind: &'static str,
}

/// One field of a struct type.
#[derive(Debug)]
pub struct FieldDef {
    /// JSON name.
    pub name: &'static str,
    /// `"name":`, ready for the encoder.
    pub prefix: &'static str,
    /// Protobuf field number; 0 when protobuf does not carry the field (TypeMeta).
    pub number: u32,
    /// Numbers of the protobuf messages that wrap the field where JSON inlines it, outermost first.
    pub via: &'static [u32],
    /// The kind of value in the field.
    pub shape: Shape,
    /// Whether the Go field is a pointer, so that absent and zero differ.
    pub pointer: bool,
    /// The condition under which the JSON encoding omits the field.
    pub presence: Presence,
    /// Whether protobuf wraps the (inner) list in a message of one `items` field.
    pub wrapped: bool,
    /// The list type for server-side apply.
    pub list: ListType,
    /// Keys of a `ListType::Map`.
    pub keys: &'static [&'static str],
    /// Whether a map or struct is owned and replaced as a whole.
    pub atomic: bool,
    /// Whether a map or struct in this field is owned by its parts, even if its type is atomic.
    pub granular: bool,
    /// The strategy of strategic merge patch.
    pub patch: PatchStrategy,
    /// Key by which strategic merge patch matches list items.
    pub merge_key: Option<&'static str>,
    /// Constant default as JSON text.
    pub default: Option<&'static str>,
    /// Allowed values of an enumeration; empty for an open set.
    pub allowed: &'static [&'static str],
    /// Whether the OpenAPI definition requires the field.
    pub required: bool,
    /// Feature gate that guards the field.
    pub gate: Option<&'static str>,
    /// Whether use of the field is answered with a warning.
    pub deprecated: bool,
}

/// The kind of value that a field, list item or map value has.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// `true` or `false`.
    Bool,
    /// Whole number of 32 bits.
    Int32,
    /// Whole number of 64 bits.
    Int64,
    /// IEEE double.
    Float64,
    /// Text.
    Str,
    /// Bytes, base64 in JSON.
    Bytes,
    /// `resource.Quantity`, canonical text.
    Quantity,
    /// A whole number or text.
    IntOrString,
    /// RFC 3339 with whole seconds.
    Time,
    /// RFC 3339 with microseconds.
    MicroTime,
    /// Go duration text (`1h0m0s`).
    Duration,
    /// `runtime.RawExtension`: any object.
    RawExtension,
    /// `metav1.FieldsV1`: a field set, kept as its compact JSON text in a `Value::Str`, because only server-side apply parses field sets.
    FieldsV1,
    /// `apiextensions.JSON`: any JSON value.
    Json,
    /// A schema or a boolean (`additionalProperties`).
    SchemaOrBool,
    /// A schema or a list of schemas (`items`).
    SchemaOrArray,
    /// A schema or a list of names (`dependencies`).
    SchemaOrStringArray,
    /// A struct.
    Struct(TypeRef),
    /// A list.
    List(&'static Shape),
    /// A map with text keys.
    Map(&'static Shape),
}

impl Shape {
    /// Returns the struct type of this shape or of its items or values.
    #[must_use]
    pub fn element_type(&self) -> Option<TypeRef> {
        match self {
            Self::Struct(ty) => Some(ty),
            Self::List(inner) | Self::Map(inner) => inner.element_type(),
            _ => None,
        }
    }

    /// Whether the shape is a struct in Go, which `omitempty` never leaves out.
    #[must_use]
    pub fn is_go_struct(&self) -> bool {
        use Shape::{
            Duration, FieldsV1, IntOrString, Json, MicroTime, Quantity, RawExtension, SchemaOrArray, SchemaOrBool,
            SchemaOrStringArray, Struct, Time,
        };
        matches!(
            self,
            Struct(_)
                | Quantity
                | IntOrString
                | Time
                | MicroTime
                | Duration
                | RawExtension
                | FieldsV1
                | Json
                | SchemaOrBool
                | SchemaOrArray
                | SchemaOrStringArray
        )
    }
}

/// The condition under which Go's JSON encoding omits a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// Never.
    Always,
    /// `omitempty`: empty scalars, lists, maps and nil pointers; never struct values.
    OmitEmpty,
    /// `omitzero`: also zero struct values.
    OmitZero,
}

/// List semantics of server-side apply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListType {
    /// Replaced as a whole.
    Atomic,
    /// Each item is its own key.
    Set,
    /// Items are matched by `FieldDef::keys`.
    Map,
}

/// Semantics of strategic merge patch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PatchStrategy {
    /// `merge`: list items are merged, by `merge_key` or by value.
    pub merge: bool,
    /// `replace`: the value is replaced even if it is an object.
    pub replace: bool,
    /// `retainKeys`: keys that the patch does not name are removed.
    pub retain_keys: bool,
}

impl TypeDef {
    /// Returns the field with this JSON name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<(FieldId, &'static FieldDef)> {
        let mask = self.by_hash.len().wrapping_sub(1);
        let mut place = name_hash::hash(name) & mask;
        // At least one place is empty, and there the search ends.
        loop {
            let id = FieldId(*self.by_hash.get(place)?);
            let def = self.def(id)?;
            if def.name == name {
                return Some((id, def));
            }
            place = (place + 1) & mask;
        }
    }

    /// Returns the field with this name. The search starts right after `after`, because clients send fields in declaration order.
    #[must_use]
    pub fn field_near(&self, after: Option<FieldId>, name: &str) -> Option<(FieldId, &'static FieldDef)> {
        let start = after.map_or(0, |id| usize::from(id.0) + 1);
        for (offset, def) in self.fields.iter().skip(start).take(8).enumerate() {
            if def.name == name {
                return Some((FieldId(u16::try_from(start + offset).ok()?), def));
            }
        }
        self.field(name)
    }

    /// Returns the definition of a field id.
    #[must_use]
    pub fn def(&self, id: FieldId) -> Option<&'static FieldDef> {
        self.fields.get(usize::from(id.0))
    }

    /// Returns the fields with their ids, in declaration order.
    pub fn iter(&self) -> impl Iterator<Item = (FieldId, &'static FieldDef)> + use<> {
        let fields = self.fields;
        (0u16..).map(FieldId).zip(fields.iter())
    }

    /// Returns the last segment of the name: `Pod` of `core/v1.Pod`.
    #[must_use]
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }
}

impl PartialEq for TypeDef {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for TypeDef {}
