//! The selection of the controllers to run (upstream `IsControllerEnabled` and the rules of `--controllers`).

use oarlock_seeded_bug::seeded_bug;

use crate::error::Error;
use crate::harness::Row;

/// The mention in `--controllers` of every controller that is on by default.
const ALL: &str = "*";

/// The controllers to run, as `--controllers` names them: `*` is all that are on by default, `foo` the controller `foo`, `-foo` all but that one. A name
/// may be canonical or an alias; of several mentions of one controller the first counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    mentions: Vec<String>,
}

impl Default for Selection {
    fn default() -> Self {
        Self { mentions: vec![ALL.to_owned()] }
    }
}

impl Selection {
    /// Selects the controllers that `controllers` names, except those in `disable` (names without `-`), which takes precedence.
    #[must_use]
    pub fn new(controllers: &[String], disable: &[String]) -> Self {
        let without = disable.iter().map(|name| format!("-{name}"));
        Self { mentions: without.chain(controllers.iter().cloned()).collect() }
    }

    /// Selects the controllers that are on by default, except those in `disable`.
    #[must_use]
    pub fn without(disable: &[String]) -> Self {
        Self::new(&[ALL.to_owned()], disable)
    }

    /// Refuses names that none of `rows` has.
    ///
    /// # Errors
    /// [`Error::Unknown`] with all such names, in the order in which they are mentioned.
    pub(crate) fn check(&self, rows: &[Row]) -> Result<(), Error> {
        let names = self.mentions.iter().filter(|mention| *mention != ALL).map(|mention| bare(mention));
        let mut unknown: Vec<String> = Vec::new();
        for name in names.filter(|name| !rows.iter().any(|row| is(row, name))) {
            if !unknown.iter().any(|known| known == name) {
                unknown.push(name.to_owned());
            }
        }
        if unknown.is_empty() { Ok(()) } else { Err(Error::Unknown(unknown)) }
    }

    /// Whether the selection includes a controller.
    pub(crate) fn runs(&self, row: &Row) -> bool {
        let first = self.mentions.iter().find(|mention| *mention != ALL && is(row, bare(mention)));
        match first {
            Some(mention) => !mention.starts_with('-'),
            None => {
                let by_default = row.on_by_default || seeded_bug!("default_off_runs_unnamed");
                by_default && self.mentions.iter().any(|mention| mention == ALL)
            }
        }
    }
}

/// Returns the name of a mention, without its `-`.
fn bare(mention: &str) -> &str {
    mention.strip_prefix('-').unwrap_or(mention)
}

fn is(row: &Row, name: &str) -> bool {
    row.name == name || row.aliases.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn row(name: &'static str, aliases: &'static [&'static str], on_by_default: bool) -> Row {
        Row { name, aliases, on_by_default, ..Row::PLAIN }
    }

    const ROWS: [Row; 3] = [
        row("a-controller", &["a", "old-a"], true),
        row("b-controller", &[], true),
        row("off-controller", &["off"], false),
    ];

    fn split(text: &str) -> Vec<String> {
        text.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect()
    }

    fn running(controllers: &str, disable: &str) -> Result<String, String> {
        let selection = Selection::new(&split(controllers), &split(disable));
        selection.check(&ROWS).map_err(|error| error.to_string())?;
        let names: Vec<&str> = ROWS.iter().filter(|row| selection.runs(row)).map(|row| row.name).collect();
        Ok(names.join(",").replace("-controller", ""))
    }

    #[test]
    fn stars_names_aliases_and_minuses_choose_as_upstream() {
        for (controllers, disable, expected) in [
            ("*", "", "a,b"),
            ("*,-b-controller", "", "a"),
            ("-b-controller,*", "", "a"),
            ("*,-a", "", "b"),
            ("*,-old-a,a-controller", "", "b"),
            ("a,-a-controller", "", "a"),
            ("a-controller", "", "a"),
            ("-a-controller", "", ""),
            ("", "", ""),
            ("*", "b-controller", "a"),
            ("*,b-controller", "b-controller", "a"),
            ("*", "a", "b"),
        ] {
            assert_eq!(running(controllers, disable).as_deref(), Ok(expected), "{controllers} without {disable}");
        }
        assert!(ROWS.iter().take(2).all(|row| Selection::default().runs(row)));
    }

    #[test]
    fn who_is_off_by_default_runs_only_when_named() {
        for (controllers, expected) in [
            ("*", "a,b"),
            ("*,off-controller", "a,b,off"),
            ("off", "off"),
            ("-a,*,off", "b,off"),
            ("-off,off,*", "a,b"),
        ] {
            assert_eq!(running(controllers, "").as_deref(), Ok(expected), "{controllers}");
        }
    }

    #[test]
    fn names_that_nobody_has_are_refused_in_upstreams_words() {
        for (controllers, disable, text) in [
            ("*,-d-controller", "", "\"d-controller\" is not in the list of known controllers"),
            ("*", "d", "\"d\" is not in the list of known controllers"),
            ("-*", "", "\"*\" is not in the list of known controllers"),
            (
                "x,a,-y,-x",
                "",
                "[\"x\" is not in the list of known controllers, \"y\" is not in the list of known controllers]",
            ),
        ] {
            assert_eq!(running(controllers, disable), Err(text.to_owned()));
        }
    }
}
