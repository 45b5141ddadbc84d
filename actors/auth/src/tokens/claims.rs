//! What a token says, in upstream's spelling and order (Go writes merged claims sorted by name).

use serde::{Deserialize, Serialize};

/// All claims of a token. Times are Unix seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Claims {
    /// Whom the token is meant for. A single text is read as a list of one.
    #[serde(default, deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub aud: Vec<String>,
    /// Expiry.
    #[serde(default, deserialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub exp: Option<i64>,
    /// When it was issued.
    #[serde(default, deserialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub iat: Option<i64>,
    /// Who issued it.
    #[serde(default)]
    pub iss: String,
    /// Its id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub jti: String,
    /// Kubernetes' own claims.
    #[serde(default, rename = "kubernetes.io")]
    pub kubernetes: Kubernetes,
    /// Good from.
    #[serde(default, deserialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub nbf: Option<i64>,
    /// The account's user name.
    #[serde(default)]
    pub sub: String,
}

/// What the token is bound to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kubernetes {
    /// The account's namespace, and that of the bound object.
    #[serde(default)]
    pub namespace: String,
    /// The node it is bound to; of a pod's token the node the pod was on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
    /// The pod it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    /// The secret it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
    /// The account.
    #[serde(default)]
    pub serviceaccount: Reference,
    /// From when on using the token is worth a warning: the expiry that was asked for, where a longer one was given.
    #[serde(default, deserialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub warnafter: Option<i64>,
}

/// An object by name and uid.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its uid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

impl Reference {
    /// A reference.
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

/// A NumericDate may have a fraction, which nobody needs.
fn seconds<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let number = Option::<f64>::deserialize(deserializer)?;
    // `as` saturates; a date beyond i64 is as good as never.
    #[expect(clippy::cast_possible_truncation, reason = "saturation is what is wanted")]
    Ok(number.map(|n| n as i64))
}
