//! The two versions of OpenAPI differ little where types are described.

/// A version of OpenAPI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dialect {
    /// 2.0 ("Swagger").
    V2,
    /// 3.0.
    V3,
}

impl Dialect {
    /// How a type is referred to.
    pub(super) fn pointer(self, name: &str) -> String {
        match self {
            Self::V2 => format!("#/definitions/{name}"),
            Self::V3 => format!("#/components/schemas/{name}"),
        }
    }
}
