//! The serialised form of objects in questions: type name and JSON.

use oarlock_codec::{DecodeError, Mode};
use oarlock_schema::{Obj, type_named};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
struct EncodedObject {
    #[serde(rename = "type")]
    ty: String,
    json: String,
}

fn sent(obj: &Obj) -> EncodedObject {
    let json = String::from_utf8_lossy(&oarlock_codec::json::encode(obj).bytes).into_owned();
    EncodedObject { ty: obj.ty().name.to_owned(), json }
}

/// Why an object from another process cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ObjectError {
    /// The schema has no such type.
    #[error("no type is called {0}")]
    Type(String),
    /// The JSON is not of the type.
    #[error(transparent)]
    Json(#[from] DecodeError),
}

fn received(sent: &EncodedObject) -> Result<Obj, ObjectError> {
    let ty = type_named(&sent.ty).ok_or_else(|| ObjectError::Type(sent.ty.clone()))?;
    Ok(oarlock_codec::json::decode(sent.json.as_bytes(), ty, Mode::Lenient)?.value)
}

pub(super) fn serialize<S: Serializer>(obj: &Option<Obj>, serializer: S) -> Result<S::Ok, S::Error> {
    obj.as_ref().map(sent).serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Obj>, D::Error> {
    let sent = Option::<EncodedObject>::deserialize(deserializer)?;
    sent.as_ref().map(received).transpose().map_err(D::Error::custom)
}

/// Serialises lists of optional objects.
pub(super) mod list {
    use super::{Deserialize, Deserializer, EncodedObject, Obj, Serialize, Serializer, received, sent};
    use serde::de::Error as _;

    pub(in crate::policy) fn serialize<S: Serializer>(objs: &[Option<Obj>], serializer: S) -> Result<S::Ok, S::Error> {
        let all: Vec<Option<EncodedObject>> = objs.iter().map(|obj| obj.as_ref().map(sent)).collect();
        all.serialize(serializer)
    }

    pub(in crate::policy) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Option<Obj>>, D::Error> {
        let all = Vec::<Option<EncodedObject>>::deserialize(deserializer)?;
        let objs = all.iter().map(|sent| sent.as_ref().map(received).transpose());
        objs.collect::<Result<_, _>>().map_err(D::Error::custom)
    }
}
