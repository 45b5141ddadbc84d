//! A cloud provider in another process, called over gRPC.

use std::error::Error as _;
use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;
use http::uri::PathAndQuery;
use oarlock_contracts::Method;
use parking_lot::Mutex;
use prost::Message;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, ConnectError, Request, Status};
use tonic_prost::ProstCodec;

use crate::provider::{Error, Provider};
use crate::wire;

/// Deadline for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Address and TLS settings of an external provider.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `https://host:port`; on this host also `http://host:port` and `unix:///path`.
    pub endpoint: String,
    /// Certificate authorities (PEM) trusted for the provider's certificate; the host's when empty.
    pub authorities: String,
    /// Client certificate and key (PEM).
    pub identity: Option<(String, String)>,
}

/// Error for options with which no connection can ever be made.
#[derive(Debug, thiserror::Error)]
#[error("cloud provider {endpoint}: {cause}")]
pub struct BadEndpoint {
    endpoint: String,
    #[source]
    cause: EndpointError,
}

/// What is wrong with the options.
#[derive(Debug, thiserror::Error)]
enum EndpointError {
    /// The endpoint is of another kind than those that are served.
    #[error("must be https://host:port, http://localhost:port or unix:///path")]
    Scheme,
    /// Another host would be called without TLS.
    #[error("another host is reached by https://")]
    Unprotected,
    /// The endpoint is no URL, or a certificate or key is invalid.
    #[error("{}", chain(.0))]
    Invalid(#[from] tonic::transport::Error),
}

/// A [`Provider`] in another process. Connects at the first call, and again after a lost connection.
#[derive(Debug)]
pub struct External {
    endpoint: Endpoint,
    channel: Mutex<Channel>,
}

impl External {
    /// Creates the provider without connecting. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`BadEndpoint`].
    pub fn new(options: &Options) -> Result<Self, BadEndpoint> {
        let endpoint = endpoint(options).map_err(|cause| BadEndpoint { endpoint: options.endpoint.clone(), cause })?;
        Ok(Self { channel: Mutex::new(endpoint.connect_lazy()), endpoint })
    }

    async fn call<Q, R>(&self, method: Method<Q, R>, message: Q, within: Duration) -> Result<R, Error>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let mut request = Request::new(message);
        // The provider gets the deadline too: an operation that is unfinished by then must not be continued.
        request.set_timeout(within);
        let channel = self.channel.lock().clone();
        let exchange = async {
            let mut grpc = Grpc::new(channel);
            grpc.ready().await.map_err(|error| Error::Unsent(chain(&error)))?;
            let answer =
                grpc.unary(request, PathAndQuery::from_static(method.path()), ProstCodec::<Q, R>::default()).await;
            answer.map(tonic::Response::into_inner).map_err(|status| failure(&status))
        };
        match timeout(within, exchange).await {
            Ok(answer) => answer,
            Err(_) => {
                // The peer may be lost. Pings would detect this, but servers close connections that ping too often.
                *self.channel.lock() = self.endpoint.connect_lazy();
                Err(Error::Unanswered(format!("nothing within {within:.1?}")))
            }
        }
    }
}

#[async_trait]
impl Provider for External {
    async fn get(
        &self,
        request: wire::GetLoadBalancerRequest,
        within: Duration,
    ) -> Result<wire::GetLoadBalancerAnswer, Error> {
        self.call(wire::CloudProvider::GET_LOAD_BALANCER, request, within).await
    }

    async fn ensure(
        &self,
        request: wire::EnsureLoadBalancerRequest,
        within: Duration,
    ) -> Result<wire::EnsureLoadBalancerAnswer, Error> {
        self.call(wire::CloudProvider::ENSURE_LOAD_BALANCER, request, within).await
    }

    async fn update(
        &self,
        request: wire::UpdateLoadBalancerRequest,
        within: Duration,
    ) -> Result<wire::UpdateLoadBalancerAnswer, Error> {
        self.call(wire::CloudProvider::UPDATE_LOAD_BALANCER, request, within).await
    }

    async fn delete(
        &self,
        request: wire::DeleteLoadBalancerRequest,
        within: Duration,
    ) -> Result<wire::DeleteLoadBalancerAnswer, Error> {
        self.call(wire::CloudProvider::DELETE_LOAD_BALANCER, request, within).await
    }

    async fn instance(
        &self,
        request: wire::GetInstanceRequest,
        within: Duration,
    ) -> Result<wire::GetInstanceAnswer, Error> {
        self.call(wire::CloudProvider::GET_INSTANCE, request, within).await
    }
}

fn endpoint(options: &Options) -> Result<Endpoint, EndpointError> {
    let (scheme, rest) = options.endpoint.split_once("://").unwrap_or_default();
    if !(matches!(scheme, "http" | "https") || (scheme == "unix" && rest.starts_with('/'))) {
        return Err(EndpointError::Scheme);
    }
    let mut builder = Endpoint::from_shared(options.endpoint.clone())?;
    match scheme {
        "http" if !builder.uri().host().is_some_and(is_here) => {
            return Err(EndpointError::Unprotected);
        }
        "https" => {
            let mut tls = match options.authorities.as_str() {
                "" => ClientTlsConfig::new().with_enabled_roots(),
                pem => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
            };
            if let Some((certificate, key)) = &options.identity {
                tls = tls.identity(Identity::from_pem(certificate, key));
            }
            builder = builder.tls_config(tls)?;
        }
        _ => {}
    }
    Ok(builder.connect_timeout(CONNECT_TIMEOUT).tcp_nodelay(true))
}

/// Whether a host name means this machine.
fn is_here(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Classifies a status.
fn failure(status: &Status) -> Error {
    // A status with a source was created locally: no connection, or a connection that broke during the call.
    if let Some(cause) = status.source() {
        let mut causes = std::iter::successors(Some(cause), |error| (*error).source());
        let text = chain(cause);
        return match causes.any(|error| error.downcast_ref::<ConnectError>().is_some()) {
            true => Error::Unsent(text),
            false => Error::Unanswered(text),
        };
    }
    let said = match status.message() {
        "" => status.code().description().to_owned(),
        said => said.to_owned(),
    };
    match status.code() {
        Code::NotFound => Error::NotFound(said),
        // Proxies may answer with these codes too.
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown => Error::Unanswered(said),
        _ => Error::Refused(said),
    }
}

/// Formats an error with its sources.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    let mut texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.dedup();
    texts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(endpoint: &str) -> Options {
        Options { endpoint: endpoint.to_owned(), ..Options::default() }
    }

    #[tokio::test]
    async fn endpoints_are_urls() {
        for good in [
            "http://127.0.0.1:1",
            "http://[::1]:1",
            "http://localhost:1",
            "https://cloud.example.org:9443",
            "unix:///run/cloud.sock",
        ] {
            External::new(&options(good)).unwrap();
        }
        for bad in [
            "",
            "127.0.0.1:1",
            "http://cloud.example.org:80",
            "http://10.0.0.1:80",
            "ftp://x",
            "unix://relative",
            "http://",
            "https:",
        ] {
            let error = External::new(&options(bad)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("cloud provider {bad}: ")), "{error}");
        }
    }

    #[tokio::test]
    async fn a_call_that_reached_nobody_is_over() {
        for nobody in ["http://127.0.0.1:1", "unix:///nonexistent/cloud.sock"] {
            let provider = External::new(&options(nobody)).unwrap();
            let error = provider.instance(wire::GetInstanceRequest::default(), CONNECT_TIMEOUT).await.unwrap_err();
            assert!(matches!(error, Error::Unsent(_)) && error.is_over(), "{error:?}");
        }
    }

    #[test]
    fn what_the_provider_says_is_an_answer_and_what_others_say_is_none() {
        assert_eq!(failure(&Status::not_found("none")), Error::NotFound("none".into()));
        assert_eq!(failure(&Status::failed_precondition("old epoch")), Error::Refused("old epoch".into()));
        assert_eq!(failure(&Status::resource_exhausted("quota")), Error::Refused("quota".into()));
        assert!(!failure(&Status::unavailable("proxy")).is_over());
        assert!(!failure(&Status::deadline_exceeded("late")).is_over());
    }
}
