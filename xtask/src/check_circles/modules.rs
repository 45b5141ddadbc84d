//! The modules of a crate, each with the file that holds it.

use std::collections::BTreeMap;

use anyhow::{Context, bail};

use super::parse::{Child, Source, parse};
use super::tokens::tokens;

/// A module's name from the crate's root, without `crate`.
pub(super) type Name = Vec<String>;

/// Reads a file below the crate's `src`; `None` when there is none.
pub(super) type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A module.
pub(super) struct Module {
    /// The file that holds the module, below `src`.
    pub(super) file: String,
    pub(super) source: Source,
}

/// All modules of a crate that are not compiled for tests only.
#[derive(Default)]
pub(super) struct Modules {
    pub(super) all: BTreeMap<Name, Module>,
}

impl Modules {
    /// Follows the `mod` declarations from the file of the crate's root.
    ///
    /// # Errors
    /// When a declared module has no file.
    pub(super) fn load(root: &str, read: Read) -> anyhow::Result<Self> {
        let mut modules = Self::default();
        let text = read(root).with_context(|| format!("{root} cannot be read"))?;
        modules.add(Vec::new(), root, "", parse(&tokens(&text)), read)?;
        Ok(modules)
    }

    /// Adds a module and those inside; `folder` holds the files of those inside.
    fn add(&mut self, name: Name, file: &str, folder: &str, mut source: Source, read: Read) -> anyhow::Result<()> {
        let children = std::mem::take(&mut source.children);
        self.all.insert(name.clone(), Module { file: file.to_owned(), source });
        for Child { name: child, path, inline } in children {
            let below: Name = name.iter().cloned().chain([child.clone()]).collect();
            let own_folder = join(folder, &child);
            if let Some(inline) = inline {
                self.add(below, file, &own_folder, inline, read)?;
                continue;
            }
            let beside = file.rsplit_once('/').map_or("", |(parent, _)| parent);
            let candidates = match path {
                Some(path) => vec![join(beside, &path)],
                None => vec![format!("{own_folder}.rs"), join(&own_folder, "mod.rs")],
            };
            let found = candidates.iter().find_map(|file| Some((file, read(file)?)));
            let Some((child_file, text)) = found else {
                bail!("{file} declares module {child}, and there is no {}", candidates.join(" or "));
            };
            self.add(below, child_file, &own_folder, parse(&tokens(&text)), read)?;
        }
        Ok(())
    }
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}
