//! `Status` on the wire: the v1 object in upstream's field order.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Details, Reason, Status};

#[derive(Serialize)]
struct MetaOut<'a> {
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    continue_token: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Out<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: MetaOut<'a>,
    status: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a Details>,
    #[serde(skip_serializing_if = "is_zero")]
    code: u16,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out a reference")]
fn is_zero(n: &u16) -> bool {
    *n == 0
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Out {
            kind: "Status",
            api_version: "v1",
            metadata: MetaOut { continue_token: self.continue_token.as_deref() },
            status: if self.success { "Success" } else { "Failure" },
            message: &self.message,
            reason: self.reason.as_str(),
            details: self.details.as_deref(),
            code: self.code,
        }
        .serialize(serializer)
    }
}

#[derive(Deserialize, Default)]
struct MetaIn {
    #[serde(default, rename = "continue")]
    continue_token: Option<Box<str>>,
}

#[derive(Deserialize)]
struct In<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    metadata: Option<MetaIn>,
    #[serde(default, borrow)]
    status: Cow<'a, str>,
    #[serde(default)]
    message: String,
    #[serde(default, borrow)]
    reason: Cow<'a, str>,
    #[serde(default)]
    details: Option<Box<Details>>,
    #[serde(default)]
    code: i32,
}

/// Fails when the object's kind is not `Status`.
impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = In::deserialize(deserializer)?;
        if wire.kind != "Status" {
            return Err(serde::de::Error::custom(format_args!("expected a Status, got kind {:?}", wire.kind)));
        }
        Ok(Self {
            success: wire.status == "Success",
            message: wire.message,
            reason: Reason::from_word(&wire.reason),
            details: wire.details,
            code: u16::try_from(wire.code).unwrap_or_default(),
            continue_token: wire.metadata.and_then(|meta| meta.continue_token).filter(|token| !token.is_empty()),
        })
    }
}
