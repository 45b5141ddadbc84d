//! Random numbers that need only differ between processes.

/// Returns a random number; the process id where the system has no randomness.
pub(super) fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()))
}
