//! Bugs on purpose, which show that the tests of a rule can fail.
//!
//! Beside a rule stands the bug that it forbids, behind [`seeded_bug!`] and its name. `cargo xtask seeded-bugs` has a row for each, with the test that
//! must turn red.
//!
//! - Debug builds hold all of them, asleep: a process wakes the one that its environment names as `OARLOCK_SEEDED_BUG`. So one build serves ordinary
//!   tests and every row.
//! - Builds without debug assertions (`release`, `dist`) hold none: the macro is `false`, and the compiler knows.
//! - `--cfg seeded_bug="its_name"` builds with one bug for good; `--cfg seeded_bug="none"` makes a debug build without any.

/// Whether the bug of this name is there.
#[macro_export]
macro_rules! seeded_bug {
    ($name:literal) => {
        cfg!(seeded_bug = $name) || $crate::awake($name)
    };
}

/// Whether this process has been asked for a bug of the build.
#[cfg(any(not(debug_assertions), seeded_bug = "none"))]
#[must_use]
pub const fn awake(_name: &str) -> bool {
    false
}

/// Whether this process has been asked for a bug of the build.
#[cfg(not(any(not(debug_assertions), seeded_bug = "none")))]
#[must_use]
pub fn awake(name: &str) -> bool {
    static ASKED_FOR: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("OARLOCK_SEEDED_BUG").ok());
    ASKED_FOR.as_deref() == Some(name)
}
