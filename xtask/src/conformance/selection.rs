//! Selects the specs that run, and how many run at once.

use std::path::Path;

use anyhow::{Context, ensure};

use super::golden::PASSING;
use super::{Args, Maker, Serial};
use crate::tool::root;

/// Labels of specs that any others may run beside.
const BESIDE_OTHERS: &str = "Conformance && !Serial && !Disruptive";
/// Labels of specs that bear no other beside them.
const ALONE: &str = "Conformance && (Serial || Disruptive)";
/// How the names of those say it.
const MARKS: [&str; 2] = ["[Serial]", "[Disruptive]"];
/// Number of specs that run at once in the second run.
const RERUN_PROCS: usize = 2;
/// Number of specs of missing features that run at once. Such a spec waits up to twenty minutes and uses hardly any processor time.
const KNOWN_PROCS: usize = 24;

/// The specs to run.
pub(crate) struct Selection {
    /// Names of specs.
    names: Option<Vec<String>>,
    /// A regular expression of names.
    focus: Option<String>,
    serial: Serial,
}

/// Specs that one call of ginkgo runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    /// Which one this is of the parts that have this name.
    pub(crate) number: usize,
    /// An expression of the suite's labels.
    pub(crate) labels: &'static str,
    /// Regular expressions of names, one of which must be found; none: all.
    pub(crate) focus: Vec<String>,
    /// Regular expressions of names, none of which may be found.
    pub(crate) skip: Vec<String>,
    pub(crate) procs: usize,
}

impl Part {
    /// The name of its log and of the folder of its report.
    pub(crate) fn log(&self) -> String {
        if self.number == 0 { self.name.to_owned() } else { format!("{}-{}", self.name, self.number) }
    }

    /// A part for each of its expressions.
    fn each(self) -> Vec<Self> {
        let Self { name, labels, skip, procs, .. } = self;
        let one = |(number, focus)| Self { name, number, labels, focus: vec![focus], skip: skip.clone(), procs };
        self.focus.into_iter().enumerate().map(one).collect()
    }

    /// The named specs, with few at once.
    pub(crate) fn again(names: &[String]) -> Self {
        Self {
            name: "again",
            number: 0,
            labels: "Conformance",
            focus: names.iter().map(|name| exactly(name)).collect(),
            skip: Vec::new(),
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

    /// Returns the steps of the run, one after another; the parts of a step run at the same time. Specs of missing features (`known`) are parts of their own with many at
    /// once, so that the others do not wait for them; since one ginkgo runs serial specs after one another whatever its width, each of these is a part.
    /// A regular expression selects few specs, which stay together.
    pub(crate) fn parts(&self, procs: usize, known: &[&str]) -> Vec<Vec<Part>> {
        let part =
            |name, labels, procs| move |Wanted { focus, skip }| Part { name, number: 0, labels, focus, skip, procs };
        let (beside, waiting) = self.wanted(known, false);
        let (alone, alone_waiting) = self.wanted(known, true);
        let steps = [
            (
                Serial::Only,
                [
                    beside.map(part("parallel", BESIDE_OTHERS, procs)),
                    waiting.map(part("waiting", BESIDE_OTHERS, KNOWN_PROCS)),
                ]
                .into_iter()
                .flatten()
                .collect(),
            ),
            (Serial::Without, alone.map(part("serial", ALONE, 1)).into_iter().collect()),
            (Serial::Without, alone_waiting.map(part("serial-waiting", ALONE, 1)).map_or_else(Vec::new, Part::each)),
        ];
        // A list says itself which of them run.
        let steps = steps.into_iter().filter(|(unless, _)| self.names.is_some() || self.serial != *unless);
        steps.map(|(_, parts)| parts).filter(|parts| !parts.is_empty()).collect()
    }

    /// Of the serial specs, or of the others: those that can pass, and those of missing features.
    fn wanted(&self, known: &[&str], serial: bool) -> (Option<Wanted>, Option<Wanted>) {
        let known: Vec<&str> = known.iter().copied().filter(|name| is_serial(name) == serial).collect();
        match (&self.names, &self.focus) {
            (Some(names), _) => {
                let names = names.iter().map(String::as_str).filter(|name| is_serial(name) == serial);
                let (waiting, others) = names.partition(|name| known.contains(name));
                (Wanted::only(others), Wanted::only(waiting))
            }
            (None, Some(focus)) => (Some(Wanted { focus: vec![focus.clone()], skip: Vec::new() }), None),
            (None, None) => {
                let skip = known.iter().copied().map(exactly).collect();
                (Some(Wanted { focus: Vec::new(), skip }), Wanted::only(known))
            }
        }
    }

    /// Returns the title of the selection in the table; `None` for a selection of some specs only.
    pub(crate) fn title(&self, args: &Args) -> Option<String> {
        let specs = match (&args.list, &self.focus, self.serial) {
            (Some(list), _, _) if list == Path::new(PASSING) => "golden list",
            (Some(_), _, _) | (None, Some(_), _) => return None,
            (None, None, Serial::Without) => "all specs but the serial ones",
            (None, None, Serial::Also) => "all specs",
            (None, None, Serial::Only) => "the serial specs",
        };
        let whose = |maker| if maker == Maker::Ours { "our" } else { "upstream's" };
        Some(format!("{specs}, {} control plane, {} nodes", whose(args.control_plane), whose(args.nodes)))
    }
}

/// The specs of a part.
#[derive(Default)]
struct Wanted {
    focus: Vec<String>,
    skip: Vec<String>,
}

impl Wanted {
    /// The named specs, if there are any.
    fn only(names: Vec<&str>) -> Option<Self> {
        (!names.is_empty()).then(|| Self { focus: names.into_iter().map(exactly).collect(), skip: Vec::new() })
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
    use super::super::Serial;
    use super::{ALONE, BESIDE_OTHERS, KNOWN_PROCS, Part, Selection, exactly};

    fn selection(names: Option<&[&str]>, focus: Option<&str>, serial: Serial) -> Selection {
        let names = names.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        Selection { names, focus: focus.map(str::to_owned), serial }
    }

    fn part(name: &'static str, labels: &'static str, focus: &[&str], procs: usize) -> Part {
        let focus = focus.iter().map(|name| exactly(name)).collect();
        Part { name, number: 0, labels, focus, skip: Vec::new(), procs }
    }

    #[test]
    fn serial_specs_of_a_list_run_alone() {
        let parts =
            selection(Some(&["a [Conformance]", "b [Serial] [Conformance]"]), None, Serial::Without).parts(7, &[]);
        assert_eq!(
            parts,
            [
                vec![part("parallel", BESIDE_OTHERS, &["a [Conformance]"], 7)],
                vec![part("serial", ALONE, &["b [Serial] [Conformance]"], 1)],
            ]
        );
        assert_eq!(selection(Some(&["b [Disruptive]"]), None, Serial::Without).parts(7, &[]).len(), 1);
    }

    #[test]
    fn specs_of_missing_features_run_apart_from_the_others() {
        let known = ["c", "d [Serial]", "e [Serial]"];
        let parts = selection(Some(&["a", "c", "d [Serial]", "e [Serial]"]), None, Serial::Without).parts(7, &known);
        let waiting = || part("waiting", BESIDE_OTHERS, &["c"], KNOWN_PROCS);
        let waiting_alone = |number, name| Part { number, ..part("serial-waiting", ALONE, &[name], 1) };
        let waiting_alone = || vec![waiting_alone(0, "d [Serial]"), waiting_alone(1, "e [Serial]")];
        assert_eq!(parts, [vec![part("parallel", BESIDE_OTHERS, &["a"], 7), waiting()], waiting_alone(),]);
        let but = |names: &[&str], part| Part { skip: names.iter().map(|name| exactly(name)).collect(), ..part };
        assert_eq!(
            selection(None, None, Serial::Also).parts(7, &known),
            [
                vec![but(&["c"], part("parallel", BESIDE_OTHERS, &[], 7)), waiting()],
                vec![but(&known[1..], part("serial", ALONE, &[], 1))],
                waiting_alone(),
            ]
        );
    }

    #[test]
    fn serial_specs_are_left_out_unless_they_are_asked_for() {
        let shape = |serial| -> Vec<(&str, usize, usize)> {
            let parts = selection(None, Some("x|y"), serial).parts(3, &["x"]);
            parts.iter().flatten().map(|part| (part.name, part.procs, part.focus.len())).collect()
        };
        assert_eq!(shape(Serial::Without), [("parallel", 3, 1)]);
        assert_eq!(shape(Serial::Also), [("parallel", 3, 1), ("serial", 1, 1)]);
        assert_eq!(shape(Serial::Only), [("serial", 1, 1)]);
        assert!(selection(None, None, Serial::Without).parts(3, &[])[0][0].focus.is_empty());
    }

    #[test]
    fn a_name_is_no_pattern() {
        assert_eq!(exactly("a.b (1) [x]'s a-b"), r"a\.b \(1\) \[x\]'s a-b$");
    }
}
