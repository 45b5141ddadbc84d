//! What changes about a server while it runs: whether it is ready, whether it is going.

use tokio::sync::watch;

/// The flags behind the health checks.
#[derive(Debug)]
pub struct State {
    bootstrapped: watch::Sender<bool>,
    stopping: watch::Sender<bool>,
}

impl Default for State {
    fn default() -> Self {
        Self { bootstrapped: watch::channel(false).0, stopping: watch::channel(false).0 }
    }
}

impl State {
    /// What must be there when readyz says ok is there.
    pub fn set_bootstrapped(&self) {
        self.bootstrapped.send_replace(true);
    }

    /// Whether it is.
    #[must_use]
    pub fn is_bootstrapped(&self) -> bool {
        *self.bootstrapped.borrow()
    }

    /// Waits until it is.
    pub async fn bootstrapped(&self) {
        // Err means that the sender is gone, which `self` holds.
        let _ = self.bootstrapped.subscribe().wait_for(|done| *done).await;
    }

    /// The server stops taking traffic.
    pub fn set_stopping(&self) {
        self.stopping.send_replace(true);
    }

    /// Whether it does.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }
}
