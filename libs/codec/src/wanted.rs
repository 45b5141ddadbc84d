//! Which fields of an object are decoded, where few of them are looked at.

/// A tree of field names, such as `metadata` with `labels` and `uid`. What is not wanted is not decoded, only checked for its syntax.
#[derive(Debug)]
pub struct Wanted {
    named: Vec<(&'static str, Option<Wanted>)>,
    /// Those that are not named.
    others: bool,
}

static ALL: Wanted = Wanted { named: Vec::new(), others: true };

impl Wanted {
    /// Everything.
    #[must_use]
    pub fn all() -> &'static Self {
        &ALL
    }

    /// The fields at these paths and everything in them, and nothing else. Paths lead through lists and maps without naming them; no path
    /// begins with another.
    pub fn at<'p>(paths: impl IntoIterator<Item = &'p [&'static str]>) -> Self {
        Self::of(paths, false)
    }

    /// Everything but the fields at these paths.
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
        // What a path ends with is wanted whole, or not at all.
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

    /// What is wanted of the field with this name; `None` when nothing is.
    pub(crate) fn below(&self, name: &str) -> Option<&Self> {
        match self.named.iter().find(|(known, _)| *known == name) {
            Some((_, below)) => below.as_ref(),
            None => self.others.then_some(&ALL),
        }
    }
}
