//! Which files of a crate import which, and the circles among them.

use std::collections::{BTreeMap, VecDeque};

use super::modules::{Modules, Name};

/// The name of files that list rows.
const TABLE: &str = "table.rs";
/// The name of files that start what a list holds.
const START: &str = "start.rs";

/// An import of one file by another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) from: String,
    pub(super) to: String,
    /// Line of the first path in `from` that leads to `to`.
    pub(super) line: usize,
}

/// The imports among the files of a crate, without those between a file and the files below its folder.
#[derive(Default)]
pub(super) struct Graph {
    imports: BTreeMap<String, BTreeMap<String, usize>>,
}

impl Graph {
    /// Adds the files of a library or program.
    pub(super) fn add(&mut self, modules: &Modules) {
        for (name, module) in &modules.all {
            let uses = module.source.uses.iter().map(|one| &one.path);
            for path in uses.chain(&module.source.paths) {
                let Some(target) = modules.resolve(name, &path.segments) else { continue };
                let Some(other) = modules.all.get(&target) else { continue };
                if module.file == other.file || one_line(modules, &module.file, &other.file) {
                    continue;
                }
                let line =
                    self.imports.entry(module.file.clone()).or_default().entry(other.file.clone()).or_insert(path.line);
                *line = path.line.min(*line);
            }
        }
    }

    fn all(&self) -> impl Iterator<Item = Import> {
        let of = |(from, to): (&String, &BTreeMap<String, usize>)| {
            let from = from.clone();
            to.iter()
                .map(move |(to, line)| Import { from: from.clone(), to: to.clone(), line: *line })
                .collect::<Vec<_>>()
        };
        self.imports.iter().flat_map(of)
    }

    /// The imports that are part of a circle.
    pub(super) fn in_circles(&self) -> Vec<Import> {
        self.all().filter(|import| self.way(&import.to, &import.from).is_some()).collect()
    }

    /// The shortest circle that an import is part of, beginning with it.
    pub(super) fn circle_of(&self, import: &Import) -> Vec<Import> {
        let files = self.way(&import.to, &import.from).unwrap_or_default();
        let pairs = files.iter().zip(files.iter().skip(1));
        let back = pairs.filter_map(|(from, to)| {
            let line = *self.imports.get(*from)?.get(*to)?;
            Some(Import { from: (*from).to_owned(), to: (*to).to_owned(), line })
        });
        std::iter::once(import.clone()).chain(back).collect()
    }

    /// The imports of lists of rows by files that do not start what is listed.
    pub(super) fn table_imports(&self) -> Vec<Import> {
        let is = |file: &str, name: &str| file.rsplit('/').next() == Some(name);
        self.all().filter(|import| is(&import.to, TABLE) && !is(&import.from, START)).collect()
    }

    /// The shortest way from one file to another along imports, with both.
    fn way<'a>(&'a self, from: &'a str, to: &str) -> Option<Vec<&'a str>> {
        let mut before: BTreeMap<&str, &str> = BTreeMap::new();
        let mut queue = VecDeque::from([from]);
        while let Some(file) = queue.pop_front() {
            if file == to {
                let mut way = vec![file];
                while let Some(one) = way.last().filter(|one| **one != from).and_then(|one| before.get(one)) {
                    way.push(one);
                }
                way.reverse();
                return Some(way);
            }
            for next in self.imports.get(file).into_iter().flat_map(BTreeMap::keys).map(String::as_str) {
                if next != from && !before.contains_key(next) {
                    before.insert(next, file);
                    queue.push_back(next);
                }
            }
        }
        None
    }
}

/// Whether one of two files is the parent of the other, or the parent's parent, and so on.
fn one_line(modules: &Modules, one: &str, other: &str) -> bool {
    let top = |file: &str| -> Option<&Name> {
        let of_file = modules.all.iter().filter(|(_, module)| module.file == file);
        of_file.map(|(name, _)| name).min_by_key(|name| name.len())
    };
    let (Some(one), Some(other)) = (top(one), top(other)) else { return false };
    one.starts_with(other) || other.starts_with(one)
}
