//! Seeded bugs: deliberate bugs that prove that the tests of a rule can fail.
//!
//! Next to a rule's code is the bug that the rule forbids, inside [`seeded_bug!`] with the bug's name. `cargo xtask seeded-bugs` has a row for each bug, with the
//! test that must fail.
//!
//! - Debug builds contain all seeded bugs, disabled: a process enables the one named by the environment variable `OARLOCK_SEEDED_BUG`. So one build serves
//!   ordinary tests and every row.
//! - Builds without debug assertions (`release`, `dist`) contain none: the macro expands to a constant `false`, so the compiler removes the bug's code.
//! - `--cfg seeded_bug="its_name"` builds with one bug always enabled; `--cfg seeded_bug="none"` makes a debug build without any.

/// Whether the seeded bug of this name is enabled.
#[macro_export]
macro_rules! seeded_bug {
    ($name:literal) => {
        cfg!(seeded_bug = $name) || $crate::awake($name)
    };
}

/// Whether the environment of this process enables the seeded bug of this name.
#[cfg(any(not(debug_assertions), seeded_bug = "none"))]
#[must_use]
pub const fn awake(_name: &str) -> bool {
    false
}

/// Whether the environment of this process enables the seeded bug of this name.
#[cfg(not(any(not(debug_assertions), seeded_bug = "none")))]
#[must_use]
pub fn awake(name: &str) -> bool {
    static ASKED_FOR: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("OARLOCK_SEEDED_BUG").ok());
    ASKED_FOR.as_deref() == Some(name)
}
