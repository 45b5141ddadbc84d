//! The connections of an API server to other servers. All are opened here, and two properties of a connection decide about it:
//!
//! - its [`Purpose`] chooses the way: directly, or through a tunnel ([`Routes`], upstream's egress selection);
//! - its [`Cause`] chooses the account: what users cause has limits and metrics of its own, what the control plane causes has others, so that users who open all
//!   connections that they may open leave the control plane as many as before. No connection is ever shared by two requests.
//!
//! A connection beyond a limit is refused at once. Nothing waits for another connection to end, so no queue of users can be in front of the control plane.

mod connection;
mod destination;
mod metrics;
mod routes;
#[cfg(test)]
mod tests;
mod tunnel;

use std::sync::Arc;

use oarlock_runtime::{Instant, clock};
use oarlock_seeded_bug::seeded_bug;
use oarlock_streams::BoxIo;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use destination::Destination;
pub(crate) use destination::authority;
pub use routes::{Purpose, Route, Routes};
pub use tunnel::Tunnel;

use crate::inflight::Seat;
use connection::{Connection, Held};

/// The most connections that the control plane has open. A server has one for each member of etcd.
const MAX_CONTROL_PLANE_CONNECTIONS: usize = 1_000;

/// The connections of a server. Clones share the limits.
#[derive(Clone, Debug)]
pub struct Egress {
    routes: Arc<Routes>,
    control_plane: Arc<Semaphore>,
    /// The permits of the semaphore.
    limit: usize,
}

/// On whose account a connection is opened.
#[derive(Debug)]
pub(crate) enum Cause {
    /// A user's request, which holds a seat among the streams of users.
    User(Seat),
    /// The server itself.
    ControlPlane,
}

impl Cause {
    /// The label in metrics.
    fn name(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::ControlPlane => "control-plane",
        }
    }
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    /// The control plane has as many connections as it may have.
    #[error("the control plane has {0} connections open, and may have no more")]
    Full(usize),
    /// The destination, or the tunnel to it, cannot be reached.
    #[error("{0}")]
    Dial(String),
}

impl Default for Egress {
    /// Every connection is direct.
    fn default() -> Self {
        Self::new(Routes::default())
    }
}

impl Egress {
    /// Creates the connections of a server, which take these ways.
    #[must_use]
    pub fn new(routes: Routes) -> Self {
        Self::with_limit(routes, MAX_CONTROL_PLANE_CONNECTIONS)
    }

    fn with_limit(routes: Routes, limit: usize) -> Self {
        Self { routes: Arc::new(routes), control_plane: Arc::new(Semaphore::new(limit)), limit }
    }

    /// Connects on the account of the control plane.
    ///
    /// # Errors
    /// [`EgressError`].
    pub async fn for_control_plane(
        &self,
        purpose: Purpose,
        to: &Destination<'_>,
        deadline: Instant,
    ) -> Result<BoxIo, EgressError> {
        self.connect(purpose, Cause::ControlPlane, to, deadline).await
    }

    /// Connects, at the latest by the deadline.
    ///
    /// # Errors
    /// [`EgressError`].
    pub(crate) async fn connect(
        &self,
        purpose: Purpose,
        cause: Cause,
        to: &Destination<'_>,
        deadline: Instant,
    ) -> Result<BoxIo, EgressError> {
        let (cause, account) = (cause.name(), self.account(cause)?);
        let begun = clock::now();
        let dialled = match self.routes.of(purpose) {
            Route::Direct => to.dial(deadline).await,
            Route::Tunnel(tunnel) => tunnel.dial(to, deadline).await,
        };
        let took = dialled.is_ok().then(|| begun.elapsed());
        metrics::dialled(cause, took);
        let io = dialled.map_err(EgressError::Dial)?;
        Ok(Box::new(Connection::new(io, Held::new(account, metrics::Open::begin(purpose.name(), cause)))))
    }

    /// Counts a pipe inside the process as a connection of a user.
    pub(crate) fn local(pipe: BoxIo, seat: Seat) -> BoxIo {
        Box::new(Connection::new(pipe, Held::of_pipe(Account::User(seat))))
    }

    /// Takes room for a connection.
    fn account(&self, cause: Cause) -> Result<Account, EgressError> {
        match cause {
            Cause::User(seat) if !seeded_bug!("user_traffic_on_control_plane_connections") => Ok(Account::User(seat)),
            Cause::User(_) | Cause::ControlPlane => {
                let permit = Arc::clone(&self.control_plane).try_acquire_owned();
                permit.map(Account::ControlPlane).map_err(|_| EgressError::Full(self.limit))
            }
        }
    }
}

/// Room for a connection, which is free again when dropped.
#[derive(Debug)]
enum Account {
    User(#[expect(dead_code, reason = "held until dropped")] Seat),
    ControlPlane(#[expect(dead_code, reason = "held until dropped")] OwnedSemaphorePermit),
}
