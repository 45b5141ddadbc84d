//! Selects the fields of an object to decode, for callers that read only a few fields.

/// A tree of field names, such as `metadata` with `labels` and `uid`. Other fields are not decoded, only checked for their syntax.
#[derive(Debug)]
pub struct Wanted {
    named: Vec<(&'static str, Option<Wanted>)>,
    /// Whether the fields that are not named are wanted.
    others: bool,
}

static ALL: Wanted = Wanted { named: Vec::new(), others: true };

impl Wanted {
    /// Returns the tree of all fields.
    #[must_use]
    pub fn all() -> &'static Self {
        &ALL
    }

    /// Selects the fields at these paths with everything in them, and no others. Paths skip lists and maps; no path
    /// may begin with another.
    pub fn at<'p>(paths: impl IntoIterator<Item = &'p [&'static str]>) -> Self {
        Self::of(paths, false)
    }

    /// Selects everything but the fields at these paths.
    pub fn but<'p>(paths: impl IntoIterator<Item = &'p [&'static str]>) -> Self {
        Self::of(paths, true)
    }

    fn of<'p>(paths: impl IntoIterator<Item = &'p [&'static str]>, others: bool) -> Self {
        let mut root = Self { named: Vec::new(), others };
        for path in paths {
            root.name(path);
        }
        root
    }

    fn name(&mut self, path: &[&'static str]) {
        let Some((name, rest)) = path.split_first() else { return };
        let node = |others| Some(Self { named: Vec::new(), others });
        // The last field of a path is wanted as a whole, or not at all.
        let below = match (rest, self.others) {
            ([], true) => None,
            ([], false) => node(true),
            (_, others) => node(others),
        };
        let at = self.named.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            self.named.push((name, below));
            self.named.len() - 1
        });
        if let Some((_, Some(next))) = self.named.get_mut(at) {
            next.name(rest);
        }
    }

    /// Returns the wanted parts of the field with this name; `None` for an unwanted field.
    pub(crate) fn below(&self, name: &str) -> Option<&Self> {
        match self.named.iter().find(|(known, _)| *known == name) {
            Some((_, below)) => below.as_ref(),
            None => self.others.then_some(&ALL),
        }
    }
}
