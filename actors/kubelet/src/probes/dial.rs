//! Opens TCP connections, with errors in Go's words.
//!
//! Upstream sets a short linger time, so that probes leave few sockets in TIME_WAIT. With it closing can block the thread, so this module does not.

use std::time::Duration;

use oarlock_runtime::clock;
use tokio::net::TcpStream;

use super::error::RequestError;
use crate::environment::host_port;

/// Connects within `timeout`.
///
/// # Errors
/// As `dial tcp 10.0.0.1:80: connect: connection refused`.
pub(crate) async fn connect(host: &str, port: u16, timeout: Duration) -> Result<TcpStream, RequestError> {
    let at = host_port(host, port.into());
    match clock::timeout(timeout, TcpStream::connect((host, port))).await {
        Ok(Ok(stream)) => {
            // Small requests must not wait for more data (Nagle's algorithm).
            let _ = stream.set_nodelay(true);
            Ok(stream)
        }
        Ok(Err(error)) if error.raw_os_error().is_none() => {
            Err(RequestError::Lookup { host: host.to_owned(), text: plain(&error) })
        }
        Ok(Err(error)) => Err(RequestError::Connect { address: at, text: plain(&error) }),
        Err(_) => Err(RequestError::ConnectTimeout(at)),
    }
}

/// Returns an operating system error in Go's words.
pub(crate) fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}
