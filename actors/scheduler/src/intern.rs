//! Interns strings as small numbers when they enter the scheduler, so that every later comparison and every column
//! works on integers.
//!
//! Interned: names of nodes and namespaces, label keys and values, resource, image and topology names. Not
//! interned: names and uids of pods, which are unbounded. Entries are never dropped, because the interned strings are
//! few and used again. Symbols are compared for equality; no decision depends on their order.

use std::sync::{Arc, LazyLock};

use parking_lot::RwLock;

use crate::map::Map;

/// An interned string. The order of symbols is the order of first use, not of the alphabet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Sym(u32);

impl Sym {
    /// The empty string.
    pub(crate) const EMPTY: Self = Self(0);
    /// `kubernetes.io/hostname`.
    pub(crate) const HOSTNAME: Self = Self(1);
    /// `topology.kubernetes.io/zone`.
    pub(crate) const ZONE: Self = Self(2);
    /// `node.kubernetes.io/unschedulable`.
    pub(crate) const UNSCHEDULABLE: Self = Self(3);
    /// `0.0.0.0`, the address a host port without an address binds.
    pub(crate) const ANY_ADDRESS: Self = Self(4);
}

const WELL_KNOWN: [&str; 5] =
    ["", "kubernetes.io/hostname", "topology.kubernetes.io/zone", "node.kubernetes.io/unschedulable", "0.0.0.0"];

/// A resource a pod may request: an index into the resource columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Res(u16);

impl Res {
    /// Milli-cores.
    pub(crate) const CPU: Self = Self(0);
    /// Bytes.
    pub(crate) const MEMORY: Self = Self(1);
    /// Bytes.
    #[cfg(test)]
    pub(crate) const EPHEMERAL: Self = Self(2);

    /// Returns the index of the resource's column.
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

const WELL_KNOWN_RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

struct Text {
    text: Arc<str>,
    number: Option<i64>,
}

struct Words {
    symbols: Map<Arc<str>, Sym>,
    texts: Vec<Text>,
    resources: Map<Arc<str>, Res>,
    resource_names: Vec<Arc<str>>,
}

/// A table of interned strings and resource names. Clones share the table.
#[derive(Clone)]
pub(crate) struct Interner {
    words: Arc<RwLock<Words>>,
}

static PROCESS: LazyLock<Interner> = LazyLock::new(Interner::default);

impl Default for Interner {
    fn default() -> Self {
        let words =
            Words { symbols: Map::default(), texts: Vec::new(), resources: Map::default(), resource_names: Vec::new() };
        let interner = Self { words: Arc::new(RwLock::new(words)) };
        for text in WELL_KNOWN {
            interner.intern(text);
        }
        for name in WELL_KNOWN_RESOURCES {
            interner.resource(name);
        }
        interner
    }
}

impl Interner {
    /// Returns the process's interner. Objects are projected where they are decoded, without access to a scheduler's state,
    /// so the projections and the scheduler share one interner.
    pub(crate) fn process() -> Self {
        PROCESS.clone()
    }

    /// Returns the symbol of a string, new or known.
    pub(crate) fn intern(&self, text: &str) -> Sym {
        if let Some(symbol) = self.words.read().symbols.get(text) {
            return *symbol;
        }
        let mut words = self.words.write();
        if let Some(symbol) = words.symbols.get(text) {
            return *symbol;
        }
        let symbol = Sym(u32::try_from(words.texts.len()).unwrap_or(u32::MAX));
        let shared: Arc<str> = Arc::from(text);
        words.texts.push(Text { text: Arc::clone(&shared), number: text.parse().ok() });
        words.symbols.insert(shared, symbol);
        symbol
    }

    /// Returns the string of a symbol.
    pub(crate) fn text(&self, symbol: Sym) -> Arc<str> {
        self.words.read().texts.get(symbol.0 as usize).map_or_else(|| Arc::from(""), |entry| Arc::clone(&entry.text))
    }

    /// Returns the integer that a string spells, for the operators `Gt` and `Lt`.
    pub(crate) fn number(&self, symbol: Sym) -> Option<i64> {
        self.words.read().texts.get(symbol.0 as usize).and_then(|entry| entry.number)
    }

    /// Returns the number of a resource name, new or known.
    pub(crate) fn resource(&self, name: &str) -> Res {
        if let Some(resource) = self.words.read().resources.get(name) {
            return *resource;
        }
        let mut words = self.words.write();
        if let Some(resource) = words.resources.get(name) {
            return *resource;
        }
        let resource = Res(u16::try_from(words.resource_names.len()).unwrap_or(u16::MAX));
        let shared: Arc<str> = Arc::from(name);
        words.resource_names.push(Arc::clone(&shared));
        words.resources.insert(shared, resource);
        resource
    }

    /// Returns the name of a resource.
    pub(crate) fn resource_name(&self, resource: Res) -> Arc<str> {
        self.words.read().resource_names.get(resource.index()).map_or_else(|| Arc::from(""), Arc::clone)
    }
}
