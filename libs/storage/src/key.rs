//! Store keys: where an object is stored, in upstream's layout.
//!
//! A key is `<resource prefix><namespace>/<name>` or `<resource prefix><name>`, for example `/registry/pods/` +
//! The text alone does not show where the prefix ends (`/registry/services/specs/…`, `/registry/<group>/<plural>/…`), so a key stores the length of its prefix.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A store key, cheap to clone. Ordering, equality and hash use the key's text.
#[derive(Clone)]
pub struct Key {
    text: Arc<str>,
    resource: u16,
}

impl Key {
    /// Joins a resource prefix (`/registry/pods/`; a missing last slash is added) and the part after it (`default/web-1`).
    ///
    /// Prefixes longer than 65,534 bytes do not occur (names are at most 253 bytes); they are cut to that length.
    #[must_use]
    pub fn new(resource: &str, rest: &str) -> Self {
        let slash = if resource.ends_with('/') { "" } else { "/" };
        let text: Arc<str> = [resource, slash, rest].concat().into();
        let resource = u16::try_from(resource.len() + slash.len()).unwrap_or(u16::MAX);
        Self { text, resource }
    }

    /// Builds the key of a namespaced object.
    #[must_use]
    pub fn namespaced(resource: &str, namespace: &str, name: &str) -> Self {
        let slash = if resource.ends_with('/') { "" } else { "/" };
        let text: Arc<str> = [resource, slash, namespace, "/", name].concat().into();
        let resource = u16::try_from(resource.len() + slash.len()).unwrap_or(u16::MAX);
        Self { text, resource }
    }

    /// Builds the key of a cluster-scoped object.
    #[must_use]
    pub fn cluster(resource: &str, name: &str) -> Self {
        Self::new(resource, name)
    }

    /// Builds a key from its text and the length of its resource prefix; `None` when no prefix of that length is valid.
    #[must_use]
    pub fn from_parts(text: &str, resource: usize) -> Option<Self> {
        let prefix = text.get(..resource)?;
        if !prefix.ends_with('/') || resource >= text.len() {
            return None;
        }
        Some(Self { text: text.into(), resource: u16::try_from(resource).ok()? })
    }

    /// The full text of the key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The resource prefix, with its last slash: `/registry/pods/`.
    #[must_use]
    pub fn resource(&self) -> &str {
        self.text.get(..usize::from(self.resource)).unwrap_or(&self.text)
    }

    /// The part after the resource prefix: `default/web-1`.
    #[must_use]
    pub fn rest(&self) -> &str {
        self.text.get(usize::from(self.resource)..).unwrap_or("")
    }

    /// The object's namespace; empty for a cluster-scoped object.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.rest().split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The object's name.
    #[must_use]
    pub fn name(&self) -> &str {
        let rest = self.rest();
        rest.split_once('/').map_or(rest, |(_, name)| name)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn splits_namespace_and_name_after_the_prefix() {
        let pod = Key::namespaced("/registry/services/specs/", "default", "web");
        assert_eq!((pod.resource(), pod.namespace(), pod.name()), ("/registry/services/specs/", "default", "web"));
        let node = Key::cluster("/registry/minions", "n1");
        assert_eq!((node.resource(), node.namespace(), node.name()), ("/registry/minions/", "", "n1"));
    }

    #[test]
    fn comes_back_from_its_parts() {
        let key = Key::new("/registry/pods/", "a/b");
        assert_eq!(Key::from_parts(key.as_str(), key.resource().len()), Some(key));
        assert_eq!(Key::from_parts("/registry/pods/a", 9), None);
        assert_eq!(Key::from_parts("/registry/pods/", 15), None);
        assert_eq!(Key::from_parts("/registry/pods/", 99), None);
    }
}
