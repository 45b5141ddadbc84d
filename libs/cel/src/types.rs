//! The types of expressions, and their names in error texts.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The type of an expression.
#[derive(Clone, PartialEq, Debug)]
pub enum Type {
    /// A type that is unknown at compile time.
    Dyn,
    /// The type of an expression with a reported error; matches every type, so that one mistake gives one error.
    Error,
    /// `null`.
    Null,
    /// Booleans.
    Bool,
    /// Signed integers.
    Int,
    /// Unsigned integers.
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
    /// Optional values.
    Optional(Arc<Type>),
    /// Objects with known fields.
    Object(Arc<ObjectType>),
    /// Types of Kubernetes' libraries.
    Opaque(&'static str),
    /// A type parameter of a function, or a type variable of the checker.
    Var(u32),
}

/// The type of an object: its fields by name, as expressions write the names (escaped).
#[derive(PartialEq, Debug)]
pub struct ObjectType {
    /// The name in error texts.
    pub name: &'static str,
    /// Types of the fields.
    pub fields: BTreeMap<&'static str, Type>,
}

impl Type {
    /// Returns the type of lists of `items`.
    #[must_use]
    pub fn list(items: Type) -> Self {
        Self::List(Arc::new(items))
    }

    /// Returns the type of maps from `keys` to `values`.
    #[must_use]
    pub fn map(keys: Type, values: Type) -> Self {
        Self::Map(Arc::new(keys), Arc::new(values))
    }

    /// Returns the type of optional `inner` values.
    #[must_use]
    pub fn optional(inner: Type) -> Self {
        Self::Optional(Arc::new(inner))
    }

    /// Returns the type of a type.
    #[must_use]
    pub fn type_of(inner: Type) -> Self {
        Self::Type(Arc::new(inner))
    }

    /// Makes the type of an object with these fields.
    #[must_use]
    pub fn object(name: &'static str, fields: impl IntoIterator<Item = (&'static str, Type)>) -> Self {
        Self::Object(Arc::new(ObjectType { name, fields: fields.into_iter().collect() }))
    }

    /// Whether any value may match at run time.
    #[must_use]
    pub fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Whether two types are equal as values (`type([1]) == type(['a'])`), ignoring their parameters.
    #[must_use]
    pub fn same_name(&self, other: &Type) -> bool {
        self.name() == other.name()
    }

    /// Returns the name without parameters.
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

    /// Returns the type that a name means in an expression (`int`, `list`).
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

/// Prints the type's form in error texts.
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
