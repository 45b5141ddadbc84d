//! Mapping of store keys to etcd keys: upstream's layout under a configurable prefix.

use std::collections::HashSet;

use bytes::Bytes;

use super::options::PREFIX;
use crate::Key;

/// Key of upstream's record of the last compaction, shared by all API servers on one etcd.
pub(crate) const COMPACT_REV_KEY: &str = "compact_rev_key";

/// Translates between store keys and etcd keys.
#[derive(Debug)]
pub(crate) struct Layout {
    prefix: String,
    resources: HashSet<String>,
}

impl Layout {
    /// Creates a layout; `prefix` as in `--etcd-prefix`, where empty means upstream's default.
    pub(crate) fn new(prefix: &str, resources: &[String]) -> Self {
        let prefix = match prefix.trim_matches('/') {
            "" => PREFIX.to_owned(),
            inner => format!("/{inner}"),
        };
        Self { prefix, resources: resources.iter().cloned().collect() }
    }

    /// Returns the first key of our range and the first key after the range.
    pub(crate) fn range(&self) -> (Bytes, Bytes) {
        // '0' follows '/'.
        (Bytes::from(format!("{}/", self.prefix)), Bytes::from(format!("{}0", self.prefix)))
    }

    /// The key that stores the base added to etcd's revisions. Upstream has no resource of this name and never watches it.
    pub(crate) fn base(&self) -> Bytes {
        Bytes::from(format!("{}/oarlock/revision-base", self.prefix))
    }

    /// Returns the etcd key of a store key.
    pub(crate) fn encode(&self, key: &Key) -> Bytes {
        let rest = key.as_str().strip_prefix(PREFIX).unwrap_or(key.as_str());
        Bytes::from([self.prefix.as_str(), rest].concat())
    }

    /// Returns the store key of an etcd key; `None` for a key that is no object of ours.
    pub(crate) fn decode(&self, key: &[u8]) -> Option<Key> {
        let rest = std::str::from_utf8(key).ok()?.strip_prefix(self.prefix.as_str())?;
        let text = [PREFIX, rest].concat();
        // `/registry/services/` contains `specs/` and `endpoints/`: the longest matching prefix is the resource.
        let slashes = text.rmatch_indices('/').map(|(at, _)| at + 1);
        let known = slashes.filter_map(|len| text.get(..len).map(|prefix| (len, prefix)));
        let known = known.filter(|(_, prefix)| self.resources.contains(*prefix)).map(|(len, _)| len).next();
        Key::from_parts(&text, known.or_else(|| custom(&text))?)
    }
}

/// Length of `/registry/<group>/<plural>/` when the group can belong to a custom resource.
fn custom(text: &str) -> Option<usize> {
    let mut parts = text.strip_prefix(PREFIX)?.strip_prefix('/')?.splitn(3, '/');
    let (group, plural) = (parts.next()?, parts.next()?);
    parts.next().filter(|rest| !rest.is_empty())?;
    group.contains('.').then(|| PREFIX.len() + 1 + group.len() + 1 + plural.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(prefix: &str) -> Layout {
        let resources = ["/registry/pods/", "/registry/services/specs/", "/registry/minions/"];
        Layout::new(prefix, &resources.map(str::to_owned))
    }

    #[test]
    fn keys_go_there_and_back() {
        for (layout, front) in [(layout(""), "/registry"), (layout("/lab/one/"), "/lab/one")] {
            for (resource, rest) in [
                ("/registry/pods/", "default/web"),
                ("/registry/services/specs/", "default/web"),
                ("/registry/minions/", "n1"),
                ("/registry/oarlock.dev/assignments/", "controllers-3"),
            ] {
                let key = Key::new(resource, rest);
                let there = layout.encode(&key);
                assert!(there.starts_with(front.as_bytes()));
                let back = layout.decode(&there).unwrap();
                assert_eq!((back.resource(), back.rest()), (resource, rest));
                let (first, end) = layout.range();
                assert!(first <= there && there < end);
            }
        }
    }

    #[test]
    fn keys_of_others_are_left_alone() {
        for foreign in
            ["/registry/ranges/serviceips", "/registry/pods/", "/registry", "compact_rev_key", "/other/pods/a/b"]
        {
            assert!(layout("").decode(foreign.as_bytes()).is_none(), "{foreign}");
        }
        assert!(layout("").decode(&[b'/', 0xff]).is_none());
        assert!(layout("").decode(&layout("").base()).is_none(), "what is added to revisions is no object");
    }
}
