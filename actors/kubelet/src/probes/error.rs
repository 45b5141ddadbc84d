//! Errors of requests to containers, in Go's words.

use oarlock_meta::GoDuration;
use oarlock_meta::quote::quote;

/// Why a container was not asked, or did not answer, for a probe or a hook.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RequestError {
    /// The number is no port.
    #[error("invalid port number: {0}")]
    Port(i64),
    /// No port of the container has the name.
    #[error("strconv.Atoi: parsing \"{0}\": invalid syntax")]
    PortName(String),
    /// A header of the spec cannot be sent.
    #[error("net/http: invalid header field {part} for \"{header}\"")]
    Header {
        /// `name` or `value`.
        part: &'static str,
        /// The name of the header.
        header: String,
    },
    /// The spec gives no request: its path or host is malformed.
    #[error("{0}")]
    Malformed(String),
    /// The host name has no address.
    #[error("dial tcp: lookup {host}: {text}")]
    Lookup {
        /// The host name.
        host: String,
        /// The resolver's text.
        text: String,
    },
    /// The connection was refused.
    #[error("dial tcp {address}: connect: {text}")]
    Connect {
        /// Host and port.
        address: String,
        /// The operating system's text.
        text: String,
    },
    /// The connection did not come about in time.
    #[error("dial tcp {0}: i/o timeout")]
    ConnectTimeout(String),
    /// The server answered a TLS handshake in plain HTTP.
    #[error("http: server gave HTTP response to HTTPS client")]
    PlainHttp,
    /// The TLS handshake failed.
    #[error("{0}")]
    Tls(String),
    /// The connection ended without an answer.
    #[error("{0}")]
    Interrupted(String),
    /// The server redirected too often.
    #[error("stopped after {0} redirects")]
    Redirects(usize),
    /// No answer came in time.
    #[error("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")]
    Timeout,
    /// No connection to a gRPC server came about in time.
    #[error("timeout: failed to connect service {} within {within}: context deadline exceeded", quote(.address))]
    GrpcConnectTimeout {
        /// Host and port.
        address: String,
        /// The timeout.
        within: GoDuration,
    },
    /// A gRPC call failed.
    #[error("{0}")]
    Grpc(String),
    /// A gRPC server says that the service is unhealthy; holds its word for it.
    #[error("service unhealthy (responded with {})", quote(.0))]
    Unhealthy(String),
}

impl RequestError {
    /// Whether no later request succeeds while the pod stays as it is.
    pub(crate) const fn is_permanent(&self) -> bool {
        matches!(self, Self::Port(_) | Self::PortName(_) | Self::Header { .. } | Self::Malformed(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_spec_asks_wrongly_stays_wrong_and_what_the_network_refuses_may_pass() {
        let header = RequestError::Header { part: "name", header: "a b".to_owned() };
        for error in [RequestError::Port(0), RequestError::PortName("web".to_owned()), header] {
            assert!(error.is_permanent(), "{error}");
        }
        for error in [RequestError::PlainHttp, RequestError::Timeout, RequestError::ConnectTimeout("a:1".to_owned())] {
            assert!(!error.is_permanent(), "{error}");
        }
    }
}
