//! Types, as the checker knows them and as error texts name them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A type.
#[derive(Clone, PartialEq, Debug)]
pub enum Type {
    /// Not known before the expression runs.
    Dyn,
    /// What has an error already; fits everything, so that one mistake is one error.
    Error,
    /// `null`.
    Null,
    /// Booleans.
    Bool,
    /// Whole numbers with a sign.
    Int,
    /// Whole numbers without.
    Uint,
    /// Doubles.
    Double,
    /// Texts.
    String,
    /// Bytes.
    Bytes,
    /// Moments.
    Timestamp,
    /// Spans of time.
    Duration,
    /// Lists.
    List(Arc<Type>),
    /// Maps.
    Map(Arc<Type>, Arc<Type>),
    /// Types of values.
    Type(Arc<Type>),
    /// A value or none.
    Optional(Arc<Type>),
    /// Objects with known fields.
    Object(Arc<ObjectType>),
    /// Kubernetes' own types.
    Opaque(&'static str),
    /// A type parameter of a function, or what the checker has yet to find out.
    Var(u32),
}

/// An object's fields by name, as expressions write them (escaped).
#[derive(PartialEq, Debug)]
pub struct ObjectType {
    /// As error texts name it.
    pub name: &'static str,
    /// Types of fields.
    pub fields: BTreeMap<&'static str, Type>,
}

impl Type {
    /// Lists of something.
    #[must_use]
    pub fn list(items: Type) -> Self {
        Self::List(Arc::new(items))
    }

    /// Maps of something.
    #[must_use]
    pub fn map(keys: Type, values: Type) -> Self {
        Self::Map(Arc::new(keys), Arc::new(values))
    }

    /// Something or none.
    #[must_use]
    pub fn optional(inner: Type) -> Self {
        Self::Optional(Arc::new(inner))
    }

    /// The type of a type.
    #[must_use]
    pub fn type_of(inner: Type) -> Self {
        Self::Type(Arc::new(inner))
    }

    /// An object with these fields.
    #[must_use]
    pub fn object(name: &'static str, fields: impl IntoIterator<Item = (&'static str, Type)>) -> Self {
        Self::Object(Arc::new(ObjectType { name, fields: fields.into_iter().collect() }))
    }

    /// Whether anything may turn out to fit.
    #[must_use]
    pub fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Whether two types are one as values (`type([1]) == type(['a'])`): what they hold is not compared.
    #[must_use]
    pub fn same_name(&self, other: &Type) -> bool {
        self.name() == other.name()
    }

    /// The name without parameters.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Dyn => "dyn",
            Self::Error => "!error!",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Duration => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(..) => "map",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Object(object) => object.name,
            Self::Opaque(name) => name,
            Self::Var(_) => "dyn",
        }
    }

    /// The type that a name stands for in an expression (`int`, `list`).
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "bool" => Self::Bool,
            "int" => Self::Int,
            "uint" => Self::Uint,
            "double" => Self::Double,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            "null_type" => Self::Null,
            "google.protobuf.Timestamp" => Self::Timestamp,
            "google.protobuf.Duration" => Self::Duration,
            "list" => Self::list(Self::Dyn),
            "map" => Self::map(Self::Dyn, Self::Dyn),
            "type" => Self::type_of(Self::Dyn),
            "optional_type" => Self::optional(Self::Dyn),
            "net.IP" => Self::Opaque("net.IP"),
            "net.CIDR" => Self::Opaque("net.CIDR"),
            "kubernetes.URL" => Self::Opaque("kubernetes.URL"),
            "kubernetes.Quantity" => Self::Opaque("kubernetes.Quantity"),
            "kubernetes.Semver" => Self::Opaque("kubernetes.Semver"),
            _ => return None,
        })
    }
}

/// As error texts show types.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(items) => write!(f, "list({items})"),
            Self::Map(keys, values) => write!(f, "map({keys}, {values})"),
            Self::Type(inner) => write!(f, "type({inner})"),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            other => f.write_str(other.name()),
        }
    }
}
