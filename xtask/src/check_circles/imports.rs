//! Resolves a path to a file. A re-exported name (`pub use`) leads to the file that defines it.

use super::modules::{Module, Modules, Name};

/// How many re-exports a name may pass through; more are a circle of `use`.
const MAX_REEXPORTS: usize = 16;

impl Modules {
    /// The module that defines what a path in module `from` names, or that it names; `None` for what is outside of the crate.
    pub(super) fn resolve(&self, from: &Name, path: &[String]) -> Option<Name> {
        self.follow(from, path, MAX_REEXPORTS).map(|found| found.module)
    }

    fn follow(&self, from: &Name, path: &[String], left: usize) -> Option<Found> {
        let left = left.checked_sub(1)?;
        let (first, mut rest) = path.split_first()?;
        let mut found = match first.as_str() {
            "crate" => Found { module: Vec::new(), is_module: true },
            "self" => Found { module: from.clone(), is_module: true },
            "super" => {
                let (_, parent) = from.split_last()?;
                let mut module = parent.to_vec();
                while let Some((_, more)) = rest.split_first().filter(|(next, _)| *next == "super") {
                    module.pop()?;
                    rest = more;
                }
                Found { module, is_module: true }
            }
            name => self.named(from, name, left)?,
        };
        for name in rest {
            if !found.is_module {
                break;
            }
            found = match self.named(&found.module, name, left) {
                Some(next) => next,
                // Something that a macro defines, or a variant of an enum that is passed on with `*`.
                None => Found { is_module: false, ..found },
            };
        }
        Some(found)
    }

    /// Resolves a name in a module.
    fn named(&self, module: &Name, name: &str, left: usize) -> Option<Found> {
        let left = left.checked_sub(1)?;
        let child: Name = module.iter().map(String::as_str).chain([name]).map(str::to_owned).collect();
        if self.all.contains_key(&child) {
            return Some(Found { module: child, is_module: true });
        }
        let Module { source, .. } = self.all.get(module)?;
        if source.defines.contains(name) {
            return Some(Found { module: module.clone(), is_module: false });
        }
        let alias = source.uses.iter().find(|one| one.name.as_deref() == Some(name));
        // `use x;` names x itself, which is then a crate.
        let alias = alias.filter(|one| one.path.segments.len() > 1);
        if let Some(found) = alias.and_then(|one| self.follow(module, &one.path.segments, left)) {
            return Some(found);
        }
        let globs = source.uses.iter().filter(|one| one.glob);
        globs.filter_map(|one| self.follow(module, &one.path.segments, left)).filter(|found| found.is_module).find_map(
            |found| {
                let of_itself = found.module == *module;
                if of_itself { None } else { self.named(&found.module, name, left) }
            },
        )
    }
}

/// The target of a path.
struct Found {
    module: Name,
    /// Whether the path names the module itself, and not something in it.
    is_module: bool,
}
