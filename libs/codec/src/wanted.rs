//! Which fields of an object are decoded, where few of them are looked at.

/// A tree of field names, such as `metadata` with `labels` and `uid`. What it does not name is not decoded, only checked for its syntax.
#[derive(Debug, Default)]
pub struct Wanted {
    /// None: everything here is wanted.
    below: Vec<(&'static str, Wanted)>,
}

impl Wanted {
    /// Everything.
    pub(crate) const ALL: &'static Self = &Self { below: Vec::new() };

    /// The fields at these paths, and everything in them.
    pub fn at<'p>(paths: impl IntoIterator<Item = &'p [&'static str]>) -> Self {
        let mut root = Self::default();
        for path in paths {
            let mut node = &mut root;
            for name in path {
                let known = node.below.iter().position(|(known, _)| known == name);
                let at = known.unwrap_or_else(|| {
                    node.below.push((name, Self::default()));
                    node.below.len() - 1
                });
                let Some((_, next)) = node.below.get_mut(at) else { break };
                node = next;
            }
        }
        root
    }

    /// What is wanted of the field with this name; `None` when nothing is.
    pub(crate) fn of(&'static self, name: &str) -> Option<&'static Self> {
        if self.below.is_empty() {
            return Some(self);
        }
        self.below.iter().find(|(known, _)| *known == name).map(|(_, below)| below)
    }
}
