//! Validation of selections (upstream: `ValidateEgressSelectorConfiguration`). Unlike upstream's, the paths of errors name the selection.

use std::path::PathBuf;

use oarlock_meta::{ErrorList, FieldError, Path};

use super::file::{Connection, Selection, Tcp, TlsConfig, Transport, Uds};
use super::{EgressConnection, EgressName, EgressProxy, EgressSelection, EgressTls};

const PROTOCOLS: [&str; 3] = ["Direct", "HTTPConnect", "GRPC"];

/// Returns the selections as they take effect.
///
/// # Errors
/// The list of all errors.
pub(super) fn check(written: Vec<Selection>) -> Result<Vec<EgressSelection>, ErrorList> {
    let mut errors = ErrorList::default();
    let (mut selections, mut names) = (Vec::new(), Vec::new());
    let list = Path::new("egressSelections");
    for (index, selection) in written.into_iter().enumerate() {
        let at = list.index(index);
        let name = name(&selection.name, &names, &at.child("name"), &mut errors);
        names.extend(name);
        let connection = connection(selection.connection, &at.child("connection"), &mut errors);
        if let (Some(name), Some(connection)) = (name, connection) {
            selections.push(EgressSelection { name, connection });
        }
    }
    if errors.is_empty() { Ok(selections) } else { Err(errors) }
}

fn name(text: &str, earlier: &[EgressName], at: &Path<'_>, errors: &mut ErrorList) -> Option<EgressName> {
    // Upstream accepts the older name in lower case alone, the others in any case.
    let lower = if text == "master" { "controlplane".to_owned() } else { text.to_lowercase() };
    let name = EgressName::named(&lower);
    if name.is_none() {
        errors.push(FieldError::not_supported(at, &lower, &EgressName::ALL));
    }
    if earlier.iter().any(|earlier| Some(*earlier) == name) {
        errors.push(FieldError::duplicate(at, &lower));
    }
    name
}

/// Returns the way of a connection; `None` after an error.
fn connection(written: Connection, at: &Path<'_>, errors: &mut ErrorList) -> Option<EgressConnection> {
    let place = at.child("transport");
    let Connection { proxy_protocol, transport } = written;
    match (proxy_protocol.as_str(), transport) {
        ("Direct", None) => return Some(EgressConnection::Direct),
        ("Direct", Some(_)) => {
            errors.push(FieldError::invalid(&place, "direct", "config must be absent for direct connect"));
        }
        ("GRPC", Some(transport)) => return grpc(transport, &place, errors),
        ("HTTPConnect", Some(transport)) => {
            return proxy(transport, &place, errors).map(EgressConnection::HttpConnect);
        }
        (protocol @ ("GRPC" | "HTTPConnect"), None) => {
            errors.push(FieldError::required(&place, format!("transport must be set for {protocol}")));
        }
        (other, _) => errors.push(FieldError::not_supported(&at.child("proxyProtocol"), other, &PROTOCOLS)),
    }
    None
}

fn grpc(transport: Transport, at: &Path<'_>, errors: &mut ErrorList) -> Option<EgressConnection> {
    if transport.tcp.is_some() {
        // Upstream ignores the field.
        errors.push(FieldError::forbidden(&at.child("tcp"), "GRPC is supported over UDS only"));
    }
    let Some(uds) = transport.uds else {
        errors.push(FieldError::required(&at.child("uds"), "UDS must be set with GRPC"));
        return None;
    };
    socket(uds, at, errors).map(EgressConnection::Grpc)
}

fn proxy(transport: Transport, at: &Path<'_>, errors: &mut ErrorList) -> Option<EgressProxy> {
    let place = at.child("tcp");
    match (transport.tcp, transport.uds) {
        (Some(tcp), None) => address(tcp, &place, errors),
        (None, Some(uds)) => socket(uds, at, errors).map(EgressProxy::Unix),
        (Some(tcp), Some(_)) => {
            errors.push(FieldError::invalid(&place, tcp.url, "TCP and UDS cannot both be set"));
            None
        }
        (None, None) => {
            errors.push(FieldError::required(&place, "One of TCP or UDS must be set"));
            None
        }
    }
}

fn socket(uds: Uds, at: &Path<'_>, errors: &mut ErrorList) -> Option<PathBuf> {
    if uds.uds_name.is_empty() {
        let uds = at.child("uds");
        errors.push(FieldError::invalid(&uds.child("udsName"), "", "must be present for UDS connections"));
        return None;
    }
    Some(uds.uds_name.into())
}

fn address(tcp: Tcp, at: &Path<'_>, errors: &mut ErrorList) -> Option<EgressProxy> {
    let (url, tls) = (at.child("url"), at.child("tlsConfig"));
    let mut authority = |rest: &str| {
        let authority = host_and_port(rest);
        if authority.is_none() {
            // Upstream finds this when it dials.
            errors.push(FieldError::invalid(&url, &tcp.url, "must have a host and a port"));
        }
        authority
    };
    if let Some(rest) = tcp.url.strip_prefix("http://") {
        let authority = authority(rest);
        if tcp.tls_config.is_some() {
            errors.push(FieldError::invalid(&tls, &tcp.url, "config must not be present when using HTTP"));
            return None;
        }
        return authority.map(EgressProxy::Plain);
    }
    let Some(rest) = tcp.url.strip_prefix("https://") else {
        errors.push(FieldError::invalid(&url, tcp.url, "supported connection protocols are http:// and https://"));
        return None;
    };
    let authority = authority(rest);
    let Some(config) = tcp.tls_config else {
        errors.push(FieldError::required(&tls, "TLSConfig must be present when using HTTPS"));
        return None;
    };
    let files = files(config, &tls, errors)?;
    Some(EgressProxy::Tls(authority?, files))
}

/// Returns the part of a URL between scheme and path, if it is `host:port`.
fn host_and_port(rest: &str) -> Option<String> {
    let authority = rest.split(['/', '?', '#']).next()?;
    let (host, port) = authority.rsplit_once(':')?;
    let bracketed = host.starts_with('[') && host.ends_with(']');
    let valid = !host.is_empty() && !host.contains(['@', ' ']) && (bracketed || !host.contains(':'));
    (valid && port.parse::<u16>().is_ok_and(|port| port > 0)).then(|| authority.to_owned())
}

fn files(config: TlsConfig, at: &Path<'_>, errors: &mut ErrorList) -> Option<EgressTls> {
    let mut file = |name: &str, path: String, absent: Option<&str>, missing: &str| {
        let at = at.child(name);
        let path = PathBuf::from(path);
        match absent {
            Some(text) if path.as_os_str().is_empty() => errors.push(FieldError::invalid(&at, "", text)),
            None if path.as_os_str().is_empty() => {}
            _ if !path.exists() => {
                errors.push(FieldError::invalid(&at, path.display().to_string(), missing));
            }
            _ => return Some(path),
        }
        None
    };
    let unset = config.ca_bundle.is_empty();
    let authorities = file("caBundle", config.ca_bundle, None, "TLS config ca bundle does not exist");
    let certificate =
        file("clientCert", config.client_cert, Some("Using TLS requires clientCert"), "TLS client cert does not exist");
    let key =
        file("clientKey", config.client_key, Some("Using TLS requires clientKey"), "TLS client key does not exist");
    let ca_bundle = if unset { None } else { Some(authorities?) };
    Some(EgressTls { ca_bundle, client_certificate: certificate?, client_key: key? })
}
