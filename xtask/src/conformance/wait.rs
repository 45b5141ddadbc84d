//! Waits for conditions of other programs.

use std::time::Duration;

use anyhow::bail;

use crate::tool::now;

/// The time between two checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Waits until a condition holds. `look` checks the condition; its inner error says why the condition does not hold yet.
///
/// # Errors
/// The last inner error when time is up, or the outer error of `look`.
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
