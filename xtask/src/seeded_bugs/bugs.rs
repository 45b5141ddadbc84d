//! The list of seeded bugs, and the test that catches each.

mod actors;
mod libs;
mod programs;

/// A forbidden bug and the test that must fail with it, and pass without.
pub(crate) struct Bug {
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    /// `--test` target of the package; none: a test inside its library.
    pub(crate) suite: Option<&'static str>,
    pub(crate) test: &'static str,
}

const fn bug(name: &'static str, package: &'static str, suite: Option<&'static str>, test: &'static str) -> Bug {
    Bug { name, package, suite, test }
}

/// A bug in the program that a test of whole programs starts.
const fn program_bug(name: &'static str, test: &'static str) -> Bug {
    Bug { name, package: "oarlock-tests-integration", suite: Some("all"), test }
}

/// Returns every bug.
pub(crate) fn all_bugs() -> impl Iterator<Item = &'static Bug> {
    [actors::BUGS, libs::BUGS, programs::BUGS].into_iter().flatten()
}
