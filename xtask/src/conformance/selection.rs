//! Selects the specs that run, and how many run at once.

use std::path::Path;

use anyhow::{Context, ensure};

use super::golden::PASSING;
use super::{Args, Maker};
use crate::tool::root;

/// Labels of specs that any others may run beside.
const BESIDE_OTHERS: &str = "Conformance && !Serial && !Disruptive";
/// Labels of specs that bear no other beside them.
const ALONE: &str = "Conformance && (Serial || Disruptive)";
/// How the names of those say it.
const MARKS: [&str; 2] = ["[Serial]", "[Disruptive]"];
/// Number of specs that run at once in the second run.
const RERUN_PROCS: usize = 2;

/// The specs to run.
pub(crate) struct Selection {
    /// Names of specs.
    names: Option<Vec<String>>,
    /// A regular expression of names.
    focus: Option<String>,
    serial: bool,
}

/// Specs that are run together.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    /// An expression of the suite's labels.
    pub(crate) labels: &'static str,
    /// Regular expressions of names, one of which must be found; none: all.
    pub(crate) focus: Vec<String>,
    pub(crate) procs: usize,
}

impl Part {
    /// The named specs, with few at once.
    pub(crate) fn again(names: &[String]) -> Self {
        Self {
            name: "again",
            labels: "Conformance",
            focus: names.iter().map(|name| exactly(name)).collect(),
            procs: RERUN_PROCS,
        }
    }
}

impl Selection {
    /// Returns the selection that the arguments ask for.
    ///
    /// # Errors
    /// When the list cannot be read, or is empty.
    pub(crate) fn of(args: &Args) -> anyhow::Result<Self> {
        let names = match &args.list {
            None => None,
            Some(file) => {
                let text = std::fs::read_to_string(root().join(file)).with_context(|| file.display().to_string())?;
                let names: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
                ensure!(!names.is_empty(), "{}: no spec is named", file.display());
                Some(names)
            }
        };
        ensure!(args.procs > 0, "--procs must be 1 at least");
        Ok(Self { names, focus: args.focus.clone(), serial: args.serial })
    }

    /// The names of a list.
    pub(crate) fn names(&self) -> &[String] {
        self.names.as_deref().unwrap_or_default()
    }

    /// Returns the parts of the selection, which run one after the other.
    pub(crate) fn parts(&self, procs: usize) -> Vec<Part> {
        let part = |name, labels, focus, procs| Part { name, labels, focus, procs };
        let Some(names) = &self.names else {
            let focus: Vec<String> = self.focus.iter().cloned().collect();
            let alone = self.serial.then(|| part("serial", ALONE, focus.clone(), 1));
            return [part("parallel", BESIDE_OTHERS, focus, procs)].into_iter().chain(alone).collect();
        };
        let (alone, others): (Vec<&String>, Vec<&String>) = names.iter().partition(|name| is_serial(name));
        let exactly = |names: Vec<&String>| names.into_iter().map(|name| exactly(name)).collect::<Vec<_>>();
        let parts = [part("parallel", BESIDE_OTHERS, exactly(others), procs), part("serial", ALONE, exactly(alone), 1)];
        parts.into_iter().filter(|part| !part.focus.is_empty()).collect()
    }

    /// Returns the title of the selection in the table; `None` for a selection of some specs only.
    pub(crate) fn title(&self, args: &Args) -> Option<String> {
        let specs = match (&args.list, &self.focus, self.serial) {
            (Some(list), _, _) if list == Path::new(PASSING) => "golden list",
            (Some(_), _, _) | (None, Some(_), _) => return None,
            (None, None, false) => "all specs but the serial ones",
            (None, None, true) => "all specs",
        };
        let whose = |maker| if maker == Maker::Ours { "our" } else { "upstream's" };
        Some(format!("{specs}, {} control plane, {} nodes", whose(args.control_plane), whose(args.nodes)))
    }
}

fn is_serial(name: &str) -> bool {
    MARKS.iter().any(|mark| name.contains(mark))
}

/// Characters with a special meaning in regular expressions.
const SPECIAL: &str = r"\.+*?()|[]{}^$";

/// The regular expression that finds this name only. Its beginning is open: ginkgo looks for it after the suite's own name.
fn exactly(name: &str) -> String {
    let escaped: String =
        name.chars().flat_map(|c| SPECIAL.contains(c).then_some('\\').into_iter().chain([c])).collect();
    format!("{escaped}$")
}

#[cfg(test)]
mod tests {
    use super::{ALONE, BESIDE_OTHERS, Part, Selection, exactly};

    fn selection(names: Option<&[&str]>, focus: Option<&str>, serial: bool) -> Selection {
        let names = names.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        Selection { names, focus: focus.map(str::to_owned), serial }
    }

    #[test]
    fn serial_specs_of_a_list_run_alone() {
        let parts = selection(Some(&["a [Conformance]", "b [Serial] [Conformance]"]), None, false).parts(7);
        let part = |name, labels, focus: &str, procs| Part { name, labels, focus: vec![focus.to_owned()], procs };
        assert_eq!(
            parts,
            [
                part("parallel", BESIDE_OTHERS, r"a \[Conformance\]$", 7),
                part("serial", ALONE, r"b \[Serial\] \[Conformance\]$", 1),
            ]
        );
        assert_eq!(selection(Some(&["b [Disruptive]"]), None, false).parts(7).len(), 1);
    }

    #[test]
    fn serial_specs_are_left_out_unless_they_are_asked_for() {
        assert_eq!(selection(None, Some("x|y"), false).parts(3).len(), 1);
        let parts = selection(None, Some("x|y"), true).parts(3);
        assert_eq!(parts.iter().map(|part| (part.procs, part.focus.len())).collect::<Vec<_>>(), [(3, 1), (1, 1)]);
        assert!(selection(None, None, false).parts(3)[0].focus.is_empty());
    }

    #[test]
    fn a_name_is_no_pattern() {
        assert_eq!(exactly("a.b (1) [x]'s a-b"), r"a\.b \(1\) \[x\]'s a-b$");
    }
}
