//! The current time in the form in which objects state it.

/// Returns the current time as RFC 3339, in whole seconds.
#[must_use]
pub(crate) fn text() -> String {
    oarlock_meta::Time::from_unix(oarlock_runtime::clock::wall().as_second()).to_string()
}
