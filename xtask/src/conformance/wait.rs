//! Waits for conditions of other programs.

use std::time::Duration;

use anyhow::bail;

use crate::tool::now;

/// The time between two checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Looks until something is so. `look` says why it is not.
///
/// # Errors
/// With what `look` said last, when it is not so in time; or that of `look`.
pub(crate) fn until(
    what: &str,
    patience: Duration,
    mut look: impl FnMut() -> anyhow::Result<Result<(), String>>,
) -> anyhow::Result<()> {
    let start = now();
    loop {
        let Err(why) = look()? else { return Ok(()) };
        if start.elapsed() > patience {
            bail!("{what}: not after {} s: {why}", patience.as_secs());
        }
        #[expect(clippy::disallowed_methods, reason = "a chore that polls another program's readiness")]
        std::thread::sleep(CHECK_INTERVAL);
    }
}
