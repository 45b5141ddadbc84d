//! The identities that controllers act under.

use std::sync::Arc;

use oarlock_client::Client;

/// Makes the client of a ServiceAccount in namespace `kube-system`, by the account's name.
pub type Clients = Arc<dyn Fn(&str) -> Client + Send + Sync>;
