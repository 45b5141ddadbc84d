//! The differences between OpenAPI 2.0 and 3.0 in the description of types.

/// A version of OpenAPI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dialect {
    /// 2.0 ("Swagger").
    V2,
    /// 3.0.
    V3,
}

impl Dialect {
    /// Returns the path by which documents refer to a type.
    pub(super) fn pointer(self, name: &str) -> String {
        match self {
            Self::V2 => format!("#/definitions/{name}"),
            Self::V3 => format!("#/components/schemas/{name}"),
        }
    }
}
