//! The ports that probes and hooks name.

use oarlock_schema::views::IntOrStr;
use oarlock_schema::views::core_v1::Container;

use super::error::RequestError;

/// A port number, or why the probe has none.
pub(crate) type Port = Result<u16, RequestError>;

/// Returns a port by number, or by its name in the container.
pub(super) fn port(port: IntOrStr<'_>, container: Container<'_>) -> Port {
    match port {
        IntOrStr::Int(port) => number(port),
        IntOrStr::Str(name) => match container.ports().iter().find(|port| port.name() == name) {
            Some(port) => number(port.container_port()),
            None => match name.parse() {
                Ok(port) => number(port),
                Err(_) => Err(RequestError::PortName(name.to_owned())),
            },
        },
    }
}

/// Returns a port by number.
pub(super) fn number(port: i64) -> Port {
    u16::try_from(port).ok().filter(|port| *port > 0).ok_or(RequestError::Port(port))
}
