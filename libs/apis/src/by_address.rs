//! Maps from schema types, keyed by the address of the type's static definition for a fast lookup.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use oarlock_schema::TypeDef;

/// A hasher of static addresses; one multiplication spreads them sufficiently.
#[derive(Clone, Default)]
pub(crate) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }
    fn write_usize(&mut self, n: usize) {
        self.0 = (self.0 ^ n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

/// A map from types to values, keyed by the type's address for a fast lookup.
pub(crate) type ByAddress<T> = HashMap<usize, T, BuildHasherDefault<AddressHasher>>;

/// Returns the map key of a type.
pub(crate) fn address(ty: &TypeDef) -> usize {
    std::ptr::from_ref(ty) as usize
}
