//! Digests of parts of objects, so that a cache can compare pod templates without keeping them.

use oarlock_schema::{Struct, Value};

/// A 128-bit FNV-1a digest of a canonical value. Equal values must have equal digests on every host and in every release, because object names
/// contain digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Digest(u128);

impl Default for Digest {
    fn default() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

impl Digest {
    /// Returns the digest of a struct, computed as if the map at the path `without.0` lacked the key `without.1`.
    pub(crate) fn of(node: &Struct, without: (&[&str], &str)) -> Self {
        let mut digest = Self::default();
        digest.structure(node, Some(without));
        digest
    }

    /// Returns the digest of any value.
    pub(crate) fn value_of(value: &Value) -> Self {
        let mut digest = Self::default();
        digest.value(value, None);
        digest
    }

    /// Adds bytes to the digest.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }

    /// Adds a number to the digest.
    pub(crate) fn number(&mut self, number: i64) {
        self.bytes(&number.to_le_bytes());
    }

    /// Returns the whole digest as a number.
    pub(crate) const fn get(self) -> u128 {
        self.0
    }

    /// Returns 32 bits of the digest.
    pub(crate) fn short(self) -> u32 {
        let folded = self.0 ^ (self.0 >> 64);
        let folded = folded ^ (folded >> 32);
        u32::try_from(folded & u128::from(u32::MAX)).unwrap_or(u32::MAX)
    }

    fn text(&mut self, text: &str) {
        self.number(i64::try_from(text.len()).unwrap_or(i64::MAX));
        self.bytes(text.as_bytes());
    }

    fn structure(&mut self, node: &Struct, without: Option<(&[&str], &str)>) {
        self.bytes(b"{");
        for (field, value) in node.iter() {
            let inner = without.and_then(|(path, key)| {
                let (first, rest) = path.split_first()?;
                (*first == field.name).then_some((rest, key))
            });
            // A map with no key but the ignored one counts as absent.
            if let (Some(([], key)), Value::Map(map)) = (inner, value)
                && map.iter().all(|(known, _)| known == key)
            {
                continue;
            }
            self.text(field.name);
            self.value(value, inner);
        }
        self.bytes(b"}");
    }

    fn value(&mut self, value: &Value, without: Option<(&[&str], &str)>) {
        match value {
            Value::Null => self.bytes(b"n"),
            Value::Bool(flag) => self.bytes(if *flag { b"t" } else { b"f" }),
            Value::Int(number) => {
                self.bytes(b"i");
                self.number(*number);
            }
            Value::Number(text) | Value::Str(text) => {
                self.bytes(b"s");
                self.text(text);
            }
            Value::List(items) => {
                self.bytes(b"[");
                items.iter().for_each(|item| self.value(item, None));
                self.bytes(b"]");
            }
            Value::Struct(node) => self.structure(node, without),
            Value::Map(map) => {
                self.bytes(b"<");
                for (key, value) in map.iter() {
                    if without.is_some_and(|(path, ignored)| path.is_empty() && ignored == key) {
                        continue;
                    }
                    self.text(key);
                    self.value(value, None);
                }
                self.bytes(b">");
            }
        }
    }
}
