//! Messages to the service manager that started the process, by the protocol of systemd's `sd_notify(3)`.
//!
//! The service manager names its socket in the environment variable `NOTIFY_SOCKET`. Without the variable no message is sent.

use std::time::Duration;

use sd_notify::NotifyState;

/// Reports that the process has started and serves. A unit of `Type=notify` counts as active from this message on.
pub(crate) fn ready() {
    send(&[NotifyState::Ready]);
}

/// Reports that the process is stopping and may take as long as `longest`, even where the unit's `TimeoutStopSec` is shorter.
pub(crate) fn stopping(longest: Duration) {
    let micros = u32::try_from(longest.as_micros()).unwrap_or(u32::MAX);
    send(&[NotifyState::Stopping, NotifyState::ExtendTimeoutUsec(micros)]);
}

fn send(states: &[NotifyState<'_>]) {
    // The process's own work does not depend on the service manager, so an error is no reason to end.
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "service manager not reached at NOTIFY_SOCKET");
    }
}
