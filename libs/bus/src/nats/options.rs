//! Options of a NATS member: servers, credentials, TLS, tasks.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_nats::ServerAddr;
use oarlock_pki::parse_chain;
use oarlock_pki::tls::{ServerTrust, client_config};

use super::connection::Dialer;
use crate::credentials::{BadSeed, Seed};
use crate::proof::{BadRoleKeys, RoleKeys};
use crate::role::Identity;

/// Runs the tasks of a bus; if the tasks are dropped, the bus is disconnected for good.
pub trait Spawn: Send + Sync + 'static {
    /// Runs `task` to its end.
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>);
}

/// Runs tasks on the current tokio runtime; for tools and tests, which need no orderly shutdown.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioSpawn;

impl Spawn for TokioSpawn {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        #[expect(clippy::disallowed_methods, reason = "the one place for users without a gate")]
        drop(tokio::spawn(task));
    }
}

/// Servers, credentials and trust of a bus member.
#[derive(Clone)]
pub struct Options {
    /// Servers of one cluster: `nats://host:port`, or `tls://host:port` to require TLS.
    pub servers: Vec<String>,
    /// Text of a seed file; `None` for a server that requires no login.
    pub credentials: Option<String>,
    /// Certificate authorities (PEM) trusted for the servers' certificates; when set, every server must speak TLS.
    pub authorities: Option<String>,
    /// Text of the file with the roles' public keys ([`RoleKeys`]); without it no answer can be [proven](crate::Bus::ask_proven).
    pub role_keys: Option<String>,
    /// Runs the tasks.
    pub spawn: Arc<dyn Spawn>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("servers", &self.servers).finish_non_exhaustive()
    }
}

/// Error for options with which no connection can ever be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadOptions {
    /// No server is named.
    #[error("no NATS server is named")]
    NoServers,
    /// The text is not the address of a NATS server.
    #[error("{0:?} is no address of a NATS server: nats://host:port or tls://host:port")]
    Server(String),
    /// The credentials contain no seed.
    #[error(transparent)]
    Seed(#[from] BadSeed),
    /// The text of the roles' public keys is malformed.
    #[error(transparent)]
    RoleKeys(#[from] BadRoleKeys),
    /// The certificate authorities are invalid.
    #[error("authorities of NATS servers: {0}")]
    Authorities(String),
    /// TLS is required but no certificate authority is given.
    #[error("{0:?} speaks TLS: its authority must be given")]
    NoAuthorities(String),
}

impl Options {
    pub(super) fn check(self, identity: &Identity) -> Result<(Dialer, Arc<dyn Spawn>), BadOptions> {
        if self.servers.is_empty() {
            return Err(BadOptions::NoServers);
        }
        let address = |text: &String| -> Result<ServerAddr, BadOptions> {
            let address: ServerAddr = text.parse().map_err(|_| BadOptions::Server(text.clone()))?;
            match address.scheme() {
                _ if !text.contains("://") || address.host().is_empty() => Err(BadOptions::Server(text.clone())),
                "nats" => Ok(address),
                "tls" if self.authorities.is_some() => Ok(address),
                "tls" => Err(BadOptions::NoAuthorities(text.clone())),
                _ => Err(BadOptions::Server(text.clone())),
            }
        };
        let servers = self.servers.iter().map(address).collect::<Result<_, _>>()?;
        let seed = self.credentials.as_deref().map(Seed::parse).transpose()?;
        let role_keys = self.role_keys.as_deref().map(RoleKeys::parse).transpose()?.unwrap_or_default();
        let bad = |error: oarlock_pki::Error| BadOptions::Authorities(error.to_string());
        let tls = match &self.authorities {
            None => None,
            Some(pem) => {
                let trusted = parse_chain(pem).map_err(bad)?;
                let mut config = client_config(ServerTrust::Authorities(trusted), None).map_err(bad)?;
                config.alpn_protocols.clear();
                Some(config)
            }
        };
        Ok((Dialer { servers, seed, role_keys, tls, identity: identity.clone() }, self.spawn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;

    fn check(servers: &[&str], credentials: Option<&str>, authorities: Option<&str>) -> Result<(), BadOptions> {
        let options = Options {
            servers: servers.iter().map(|server| (*server).to_owned()).collect(),
            credentials: credentials.map(str::to_owned),
            authorities: authorities.map(str::to_owned),
            role_keys: None,
            spawn: Arc::new(TokioSpawn),
        };
        options.check(&Identity::new(Role::Inspector, "i").unwrap()).map(drop)
    }

    #[test]
    fn what_can_never_work_is_refused_at_once() {
        assert_eq!(check(&[], None, None), Err(BadOptions::NoServers));
        for bad in ["", "http://a:4222", "ws://a:4222", "nats://", "nats://a:port"] {
            assert_eq!(check(&[bad], None, None), Err(BadOptions::Server(bad.to_owned())));
        }
        assert!(matches!(check(&["nats://a:4222"], Some("seed"), None), Err(BadOptions::Seed(_))));
        assert!(matches!(check(&["nats://a:4222"], None, Some("pem")), Err(BadOptions::Authorities(_))));
        assert!(matches!(check(&["tls://a:4222"], None, None), Err(BadOptions::NoAuthorities(_))));
        assert_eq!(check(&["nats://a:4222", "nats://b:4222"], None, None), Ok(()));
    }
}
