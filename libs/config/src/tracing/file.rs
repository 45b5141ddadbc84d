//! The file of kind TracingConfiguration (upstream: `k8s.io/component-base/tracing/api/v1`).

use std::path::{Path, PathBuf};

use oarlock_telemetry::traces::Ratio;
use serde::Deserialize;

use super::DEFAULT_ENDPOINT;
use crate::files::text;
use crate::{Error, Result};

/// Versions of the kind, all of one content.
const API_VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];

/// The content of the file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct File {
    /// URL of the collector, for gRPC without TLS, as upstream's components connect.
    pub(super) url: String,
    /// Share of the requests that are traced.
    pub(super) ratio: Ratio,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Written {
    api_version: String,
    kind: String,
    endpoint: Option<String>,
    sampling_rate_per_million: Option<i32>,
}

impl File {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// When the file cannot be read, has a field that the kind has not, or a field is invalid.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let written = serde_norway::from_str(&text(path)?);
        let written: Written = written.map_err(|source| Error::Parse { path: path.to_owned(), source })?;
        let wrong =
            |field: &str, reason: String| Error::Field { path: PathBuf::from(path), field: field.to_owned(), reason };
        if !API_VERSIONS.contains(&written.api_version.as_str()) {
            return Err(wrong(
                "apiVersion",
                format!("{:?} is not one of {}", written.api_version, API_VERSIONS.join(", ")),
            ));
        }
        if written.kind != "TracingConfiguration" {
            return Err(wrong("kind", format!("{:?} is not \"TracingConfiguration\"", written.kind)));
        }
        let rate = written.sampling_rate_per_million.unwrap_or(0);
        let ratio = u32::try_from(rate)
            .map_err(|_| "must not be negative")
            .and_then(|rate| Ratio::per_million(rate).ok_or("must be at most one million"));
        let ratio = ratio.map_err(|why| wrong("samplingRatePerMillion", format!("{rate} {why}")))?;
        let endpoint = written.endpoint.as_deref().unwrap_or(DEFAULT_ENDPOINT);
        let url = url(endpoint).map_err(|why| wrong("endpoint", format!("{endpoint:?} {why}")))?;
        Ok(Self { url, ratio })
    }
}

/// Converts an endpoint, `host:port` or `dns:///host:port`, to a URL.
///
/// # Errors
/// What is wrong with the endpoint.
fn url(endpoint: &str) -> std::result::Result<String, String> {
    let authority = match endpoint.split_once("//") {
        None => endpoint,
        Some(("dns:", rest)) => rest.trim_start_matches('/'),
        Some((scheme, _)) => return Err(format!("has the scheme {scheme:?}; only dns: and none are supported")),
    };
    let port = authority.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(port)) if port > 0 && !authority.contains(['/', '@', '?', '#', ' ']) => {
            Ok(format!("http://{authority}"))
        }
        _ => Err("is not host:port".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &str) -> Result<File> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tracing.yaml");
        std::fs::write(&path, content).unwrap();
        File::read(&path)
    }

    const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n";

    #[test]
    fn every_version_of_the_kind_is_read() {
        for version in API_VERSIONS {
            let file = read(&format!(
                "apiVersion: {version}\nkind: TracingConfiguration\nendpoint: otel.svc:4317\nsamplingRatePerMillion: 100\n"
            ));
            let expected = File { url: "http://otel.svc:4317".to_owned(), ratio: Ratio::per_million(100).unwrap() };
            assert_eq!(file.unwrap(), expected);
        }
    }

    #[test]
    fn without_fields_the_local_collector_gets_what_clients_sample() {
        assert_eq!(read(HEAD).unwrap(), File { url: "http://localhost:4317".to_owned(), ratio: Ratio::NONE });
    }

    #[test]
    fn endpoints_are_hosts_with_ports() {
        for (endpoint, expected) in
            [("[::1]:4317", "http://[::1]:4317"), ("dns:///a.b:1", "http://a.b:1"), ("dns://a:1", "http://a:1")]
        {
            assert_eq!(url(endpoint).as_deref(), Ok(expected));
        }
        for bad in [
            "",
            "host",
            ":4317",
            "host:",
            "host:0",
            "host:port",
            "host:70000",
            "a/b:1",
            "u@h:1",
            "http://h:1",
            "unix:///s",
        ] {
            assert!(url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn errors_name_the_file_and_the_field() {
        for (content, expected) in [
            (format!("{HEAD}samplingRatePerMillion: -1\n"), "samplingRatePerMillion: -1 must not be negative"),
            (
                format!("{HEAD}samplingRatePerMillion: 1000001\n"),
                "samplingRatePerMillion: 1000001 must be at most one million",
            ),
            (format!("{HEAD}endpoint: http://h:1\n"), "endpoint: \"http://h:1\" has the scheme"),
            (format!("{HEAD}endpoints: h:1\n"), "unknown field `endpoints`"),
            (format!("{HEAD}samplingRatePerMillion: many\n"), "invalid type"),
            (HEAD.replace("/v1", "/v2"), "apiVersion: \"apiserver.config.k8s.io/v2\" is not one of"),
            (HEAD.replace("Tracing", "Egress"), "kind: \"EgressConfiguration\""),
            ("kind: TracingConfiguration".to_owned(), "missing field `apiVersion`"),
        ] {
            let error = read(&content).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("tracing.yaml: "), "{error}");
        }
    }
}
