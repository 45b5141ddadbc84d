//! The sending of one batch, over either transport.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use oarlock_config::{OtlpProtocol, TracingExport};
use opentelemetry::KeyValue;
use opentelemetry_otlp::{Compression, SpanExporter, WithExportConfig as _, WithHttpConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tonic::metadata::{AsciiMetadataKey, MetadataMap, MetadataValue};
use tonic::transport::{Certificate, ClientTlsConfig};

use crate::http1::Http1;

/// A collector of spans.
pub(crate) trait Collector: Send + Sync {
    /// Sends a batch, and again after failures that may pass.
    ///
    /// # Errors
    /// Why the collector has not accepted the batch.
    fn send(&self, batch: Vec<SpanData>) -> BoxFuture<'_, Result<(), String>>;
}

impl Collector for SpanExporter {
    fn send(&self, batch: Vec<SpanData>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move { self.export(batch).await.map_err(|error| error.to_string()) })
    }
}

/// Prepares a connection, which is opened with the first batch.
///
/// # Errors
/// What is wrong with the settings.
pub(crate) fn connect(settings: &TracingExport) -> Result<Arc<dyn Collector>, String> {
    let mut exporter = match settings.protocol {
        OtlpProtocol::Grpc => grpc(settings),
        OtlpProtocol::Http => http(settings),
    }?;
    let attributes = settings.resource.iter().map(|(name, value)| KeyValue::new(name.clone(), value.clone()));
    exporter.set_resource(&Resource::builder_empty().with_attributes(attributes).build());
    Ok(Arc::new(exporter))
}

fn grpc(settings: &TracingExport) -> Result<SpanExporter, String> {
    let mut metadata = MetadataMap::new();
    for (name, value) in &settings.headers {
        let key = AsciiMetadataKey::from_bytes(name.as_bytes()).map_err(|_| format!("{name:?} is no header"))?;
        // The value may be secret.
        let value =
            MetadataValue::try_from(value.as_str()).map_err(|_| format!("the value of header {name} is malformed"))?;
        metadata.insert(key, value);
    }
    let mut builder = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(&settings.endpoint)
        .with_timeout(settings.timeout)
        .with_metadata(metadata);
    if settings.gzip {
        builder = builder.with_compression(Compression::Gzip);
    }
    if settings.endpoint.starts_with("https:") {
        let tls = ClientTlsConfig::new();
        builder = builder.with_tls_config(match &settings.authorities {
            Some(authorities) => tls.ca_certificate(Certificate::from_pem(authorities)),
            None => tls.with_enabled_roots(),
        });
    }
    builder.build().map_err(|error| error.to_string())
}

fn http(settings: &TracingExport) -> Result<SpanExporter, String> {
    let headers: HashMap<String, String> = settings.headers.iter().cloned().collect();
    let mut builder = SpanExporter::builder()
        .with_http()
        .with_endpoint(&settings.endpoint)
        .with_timeout(settings.timeout)
        .with_headers(headers)
        .with_http_client(Http1::new(settings)?);
    if settings.gzip {
        builder = builder.with_compression(Compression::Gzip);
    }
    builder.build().map_err(|error| error.to_string())
}
