//! The claims of a token, in upstream's spelling and order (Go writes merged claims sorted by name).

use serde::{Deserialize, Serialize};

/// All claims of a token. Times are Unix seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Claims {
    /// The audiences. A single text is read as a list of one.
    #[serde(default, deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub aud: Vec<String>,
    /// Expiry.
    #[serde(default, deserialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub exp: Option<i64>,
    /// The time of issue.
    #[serde(default, deserialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub iat: Option<i64>,
    /// The issuer.
    #[serde(default)]
    pub iss: String,
    /// The token's id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub jti: String,
    /// Kubernetes' private claims.
    #[serde(default, rename = "kubernetes.io")]
    pub kubernetes: Kubernetes,
    /// The start of validity.
    #[serde(default, deserialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub nbf: Option<i64>,
    /// The ServiceAccount's user name.
    #[serde(default)]
    pub sub: String,
}

/// The objects that a token is bound to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kubernetes {
    /// The namespace of the account and of the bound object.
    #[serde(default)]
    pub namespace: String,
    /// The bound node; for a pod's token the node of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
    /// The bound pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    /// The bound Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
    /// The account.
    #[serde(default)]
    pub serviceaccount: Reference,
    /// The time from which use of the token gives a warning: the requested expiry, where a longer one was issued.
    #[serde(default, deserialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub warnafter: Option<i64>,
}

/// The name and uid of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// The object's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The object's uid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

impl Reference {
    /// Creates a reference.
    pub fn new(name: impl Into<String>, uid: impl Into<String>) -> Self {
        Self { name: name.into(), uid: uid.into() }
    }
}

fn one_or_many<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Audience {
        One(String),
        Many(Vec<String>),
        None(()),
    }
    Ok(match Audience::deserialize(deserializer)? {
        Audience::One(one) => vec![one],
        Audience::Many(many) => many,
        Audience::None(()) => Vec::new(),
    })
}

/// Parses a NumericDate; a fraction is dropped.
fn seconds<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let number = Option::<f64>::deserialize(deserializer)?;
    // `as` saturates; a date beyond i64 means never.
    #[expect(clippy::cast_possible_truncation, reason = "saturation is what is wanted")]
    Ok(number.map(|n| n as i64))
}
