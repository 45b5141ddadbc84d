//! Defaults and validation of Secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oarlock_schema::views::core_v1::SecretMut;
use oarlock_schema::{Struct, Value};

/// Moves the write-only `stringData` into `data` (upstream `Convert_v1_Secret_To_core_Secret`).
pub fn default(node: &mut Struct) {
    let Some(Value::Map(texts)) = node.remove_name("stringData") else { return };
    let mut secret = SecretMut::new(node);
    for (key, value) in texts.iter() {
        secret.data_mut().insert(key, STANDARD.encode(value.as_str().unwrap_or("")));
    }
}
