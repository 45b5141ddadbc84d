//! The check of agents.

pub(crate) mod service_account;

use async_trait::async_trait;

use super::identifiers::Identifiers;

/// What an agent presents when it connects.
#[derive(Clone, Copy, Debug)]
pub struct Credentials<'a> {
    /// The client certificate with its chain, which the listener has verified; empty without one.
    pub certificates: &'a [oarlock_pki::CertificateDer<'static>],
    /// The token of the metadata `Authorization: Bearer`.
    pub token: Option<&'a str>,
    /// The agent's id, which the agent chose. An agent with the id of another one would receive its connections.
    pub agent: &'a str,
    /// What the agent declares about itself. An agent that names the host of another one would receive its connections.
    pub identifiers: &'a Identifiers,
}

/// Refusal of an agent, with a text that the agent gets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Denied(pub String);

/// A check of agents.
#[async_trait]
pub trait Authenticate: Send + Sync + 'static {
    /// Checks an agent that connects.
    ///
    /// # Errors
    /// [`Denied`].
    async fn authenticate(&self, credentials: &Credentials<'_>) -> Result<(), Denied>;
}

/// Admits agents that have presented a client certificate. The listener must verify certificates against the authority of agents.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientCertificate;

#[async_trait]
impl Authenticate for ClientCertificate {
    async fn authenticate(&self, credentials: &Credentials<'_>) -> Result<(), Denied> {
        match credentials.certificates {
            [] => Err(Denied("no client certificate".to_owned())),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use oarlock_pki::CertificateDer;

    use super::*;

    #[tokio::test]
    async fn an_agent_without_a_certificate_is_denied() {
        let (identifiers, presented) = (Identifiers::default(), [CertificateDer::from(vec![1])]);
        let credentials =
            |certificates| Credentials { certificates, token: Some("t"), agent: "a", identifiers: &identifiers };
        let denied = ClientCertificate.authenticate(&credentials(&[])).await;
        assert_eq!(denied, Err(Denied("no client certificate".to_owned())));
        assert_eq!(ClientCertificate.authenticate(&credentials(&presented)).await, Ok(()));
    }
}
