//! Reads systemd units, as far as those of the package need it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::root;

/// The program that the units start.
pub(super) const PROGRAM: &str = "/usr/bin/oarlock";

/// A unit of the package.
pub(super) struct Unit {
    /// Name without `.service`.
    pub(super) name: String,
    /// Content of the file.
    pub(super) text: String,
}

impl Unit {
    /// Returns all units.
    pub(super) fn all() -> Vec<Self> {
        let folder = std::fs::read_dir(root().join("packaging/systemd")).unwrap();
        let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let units: Vec<Self> = names.map(|name| Self::named(name.strip_suffix(".service").unwrap())).collect();
        assert!(!units.is_empty());
        units
    }

    /// Returns one unit.
    pub(super) fn named(name: &str) -> Self {
        let text = std::fs::read_to_string(root().join(format!("packaging/systemd/{name}.service"))).unwrap();
        Self { name: name.to_owned(), text }
    }

    /// Returns the last value of a directive.
    pub(super) fn value(&self, key: &str) -> Option<&str> {
        let mut directives = self.text.lines().filter_map(|line| line.split_once('='));
        directives.rfind(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// Returns the value of a directive that is a time span in seconds.
    pub(super) fn span(&self, key: &str) -> Duration {
        let seconds = self.value(key).and_then(|value| value.strip_suffix('s'));
        Duration::from_secs(seconds.unwrap_or_else(|| panic!("{}: {key} in seconds", self.name)).parse().unwrap())
    }

    /// Returns the program and its arguments. As in systemd, a word `$NAME` stands for the words of the variable.
    pub(super) fn command(&self) -> Vec<String> {
        let file = self.value("EnvironmentFile").unwrap().strip_prefix("/etc/oarlock/").unwrap();
        let variables = variables(&std::fs::read_to_string(root().join("packaging/etc").join(file)).unwrap());
        let words = self.value("ExecStart").unwrap().split(' ');
        words
            .flat_map(|word| match word.strip_prefix('$') {
                Some(name) => variables[name].split_whitespace().map(str::to_owned).collect(),
                None => vec![word.to_owned()],
            })
            .collect()
    }
}

/// Returns the variables of an environment file.
fn variables(text: &str) -> BTreeMap<String, String> {
    let text = text.replace("\\\n", "");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned()))
        .collect()
}

#[test]
fn variables_are_read_as_systemd_reads_them() {
    let variables = variables("# A=no\nB=c\nD=\"e \\\n  f\"\n");
    assert_eq!(variables.into_iter().collect::<Vec<_>>(), [("B".into(), "c".into()), ("D".into(), "e   f".into())]);
}
