//! Bugs on purpose, which show that the tests of a rule can fail.
//!
//! Beside a rule stands the bug that it forbids, behind [`seeded_bug!`] and its name. `cargo xtask seeded-bugs` has a row for each, with the test that
//! must turn red. An ordinary build holds none of them: the macro is `false`, and the compiler knows.
//!
//! - `--cfg seeded_bug="its_name"` builds with one bug.
//! - `--cfg seeded_bug="any"`, for this crate alone, builds with all of them asleep; a process wakes the one that is named in its environment as
//!   `OARLOCK_SEEDED_BUG`. So one build serves every row.

/// Whether the bug of this name is there.
#[macro_export]
macro_rules! seeded_bug {
    ($name:literal) => {
        cfg!(seeded_bug = $name) || $crate::awake($name)
    };
}

/// Whether this process has been asked for a bug of the build.
#[cfg(not(seeded_bug = "any"))]
#[must_use]
pub const fn awake(_name: &str) -> bool {
    false
}

/// Whether this process has been asked for a bug of the build.
#[cfg(seeded_bug = "any")]
#[must_use]
pub fn awake(name: &str) -> bool {
    static ASKED_FOR: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("OARLOCK_SEEDED_BUG").ok());
    ASKED_FOR.as_deref() == Some(name)
}
