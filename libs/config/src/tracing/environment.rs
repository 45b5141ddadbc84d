//! The variables of OpenTelemetry ("Environment Variable Specification", "OTLP Exporter"). An invalid value has no effect and gives a warning, as the specification asks; so does a
//! variable that no part honours.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use oarlock_telemetry::traces::{Ratio, Sampler};

use super::OtlpProtocol;

/// Variables whose name begins with `OTEL_`. What was asked for counts as honoured; the others are warned about.
#[derive(Debug)]
pub(super) struct Variables {
    unused: BTreeMap<String, String>,
    used: BTreeMap<String, String>,
    invalid: Vec<String>,
}

impl Variables {
    /// An empty variable counts as unset.
    pub(super) fn new(all: impl IntoIterator<Item = (String, String)>) -> Self {
        let unused = all.into_iter().filter(|(name, value)| name.starts_with("OTEL_") && !value.trim().is_empty());
        Self { unused: unused.collect(), used: BTreeMap::new(), invalid: Vec::new() }
    }

    /// Returns a text for each variable without effect. Values are not shown, because some are secret.
    pub(super) fn warnings(self) -> Vec<String> {
        let unused = self.unused.into_keys().map(|name| format!("{name} has no effect"));
        self.invalid.into_iter().chain(unused).collect()
    }

    /// Whether nothing is recorded whatever else is set. Every value but `true` is false, as the specification says of boolean variables.
    pub(super) fn sdk_disabled(&mut self) -> bool {
        self.get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// Whether nothing is exported, although a collector may be named.
    pub(super) fn exports_nothing(&mut self) -> bool {
        let none = self.parsed("OTEL_TRACES_EXPORTER", "otlp or none", |value| match value {
            "otlp" => Some(false),
            "none" => Some(true),
            _ => None,
        });
        none.unwrap_or(false)
    }

    /// Returns protocol and URL of the collector, if a variable names it.
    pub(super) fn endpoint(&mut self) -> Option<(OtlpProtocol, String)> {
        let (own, common) = (self.url("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), self.url("OTEL_EXPORTER_OTLP_ENDPOINT"));
        let [own_protocol, protocol] =
            ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"].map(|name| {
                self.parsed(name, "grpc or http/protobuf", |value| match value {
                    "grpc" => Some(OtlpProtocol::Grpc),
                    "http/protobuf" => Some(OtlpProtocol::Http),
                    _ => None,
                })
            });
        let protocol = own_protocol.or(protocol).unwrap_or(OtlpProtocol::Http);
        let url = match (own, common) {
            (Some(own), _) => own,
            (None, Some(common)) if protocol == OtlpProtocol::Http => {
                format!("{}/v1/traces", common.trim_end_matches('/'))
            }
            (None, common) => common?,
        };
        Some((protocol, url))
    }

    fn url(&mut self, name: &str) -> Option<String> {
        self.parsed(name, "a URL of scheme http or https", |value| {
            let rest = value.strip_prefix("http://").or_else(|| value.strip_prefix("https://"))?;
            let host = rest.split('/').next().filter(|host| !host.is_empty() && !host.contains(['@', ' ']));
            host.map(|_| value.to_owned())
        })
    }

    /// Returns the sampler: every trace that begins here, unless a variable says otherwise.
    pub(super) fn sampler(&mut self) -> Sampler {
        let argument = self
            .parsed("OTEL_TRACES_SAMPLER_ARG", "a number from 0 to 1", |value| Ratio::fraction(value.parse().ok()?));
        let sampler = self.parsed("OTEL_TRACES_SAMPLER", "the name of a sampler of the specification", |value| {
            let (parent_based, name) = value.strip_prefix("parentbased_").map_or((false, value), |name| (true, name));
            let ratio = match name {
                "always_on" => Ratio::ALL,
                "always_off" => Ratio::NONE,
                "traceidratio" => argument.unwrap_or(Ratio::ALL),
                _ => return None,
            };
            Some(Sampler { ratio, parent_based })
        });
        sampler.unwrap_or(Sampler::parent_based(Ratio::ALL))
    }

    /// Returns the headers of each request; the names in lower case.
    pub(super) fn headers(&mut self) -> Vec<(String, String)> {
        let (own, common) = (self.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS"), self.get("OTEL_EXPORTER_OTLP_HEADERS"));
        own.or(common)
            .map(|list| pairs(&list))
            .unwrap_or_default()
            .into_iter()
            .map(|(name, value)| (name.to_lowercase(), value))
            .collect()
    }

    /// Whether requests are compressed: not, unless a variable says `gzip`.
    pub(super) fn gzip(&mut self) -> bool {
        let [own, common] = ["OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION"].map(|name| {
            self.parsed(name, "gzip or none", |value| match value {
                "gzip" => Some(true),
                "none" => Some(false),
                _ => None,
            })
        });
        own.or(common).unwrap_or(false)
    }

    /// Returns the deadline of one request: 10 s, unless a variable says otherwise.
    pub(super) fn timeout(&mut self) -> Duration {
        let own = self.millis("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT");
        own.or(self.millis("OTEL_EXPORTER_OTLP_TIMEOUT")).unwrap_or(Duration::from_secs(10))
    }

    /// Returns the file with the collector's certificate authorities.
    pub(super) fn certificate(&mut self) -> Option<PathBuf> {
        let own = self.get("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE");
        own.or(self.get("OTEL_EXPORTER_OTLP_CERTIFICATE")).map(PathBuf::from)
    }

    /// Returns how long a span waits for others at most: 5 s, unless a variable says otherwise.
    pub(super) fn delay(&mut self) -> Duration {
        self.millis("OTEL_BSP_SCHEDULE_DELAY").unwrap_or(Duration::from_secs(5))
    }

    /// Returns the capacity of the queue: 2048 spans, unless a variable says otherwise.
    pub(super) fn queue(&mut self) -> usize {
        self.count("OTEL_BSP_MAX_QUEUE_SIZE").unwrap_or(2048)
    }

    /// Returns the most spans of one request: 512, unless a variable says otherwise.
    pub(super) fn batch(&mut self) -> usize {
        self.count("OTEL_BSP_MAX_EXPORT_BATCH_SIZE").unwrap_or(512)
    }

    /// Returns the attributes of the process. `OTEL_SERVICE_NAME` counts before `service.name` in `OTEL_RESOURCE_ATTRIBUTES`, and this before `service`.
    pub(super) fn resource(&mut self, service: &str) -> Vec<(String, String)> {
        const NAME: &str = "service.name";
        let mut attributes: BTreeMap<String, String> =
            self.get("OTEL_RESOURCE_ATTRIBUTES").map(|list| pairs(&list)).unwrap_or_default().into_iter().collect();
        match self.get("OTEL_SERVICE_NAME") {
            Some(name) => {
                attributes.insert(NAME.to_owned(), name);
            }
            None => {
                attributes.entry(NAME.to_owned()).or_insert_with(|| service.to_owned());
            }
        }
        attributes.into_iter().collect()
    }

    fn millis(&mut self, name: &str) -> Option<Duration> {
        self.parsed(name, "a number of milliseconds above 0", |value| {
            value.parse().ok().filter(|millis| *millis > 0).map(Duration::from_millis)
        })
    }

    fn count(&mut self, name: &str) -> Option<usize> {
        /// A bound of the bound, so that a mistyped number cannot use up the process's memory.
        const MAX_COUNT: usize = 1 << 16;
        self.parsed(name, "a number from 1 to 65536", |value| {
            value.parse().ok().filter(|count| (1..=MAX_COUNT).contains(count))
        })
    }

    /// Returns the parsed value of a variable; one that `parse` refuses counts as unset and is warned about.
    fn parsed<T>(&mut self, name: &str, expected: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let value = self.get(name)?;
        let parsed = parse(&value);
        if parsed.is_none() {
            self.invalid.push(format!("{name} has no effect: it must be {expected}"));
        }
        parsed
    }

    fn get(&mut self, name: &str) -> Option<String> {
        if let Some((name, value)) = self.unused.remove_entry(name) {
            self.used.insert(name, value);
        }
        self.used.get(name).map(|value| value.trim().to_owned())
    }
}

/// Parses `name=value,name=value` with percent-encoded values (W3C Baggage); pairs without a name or an equals sign are left out.
fn pairs(list: &str) -> Vec<(String, String)> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let name = name.trim();
        (!name.is_empty()).then(|| (name.to_owned(), decoded(value.trim())))
    };
    list.split(',').filter_map(pair).collect()
}

/// Decodes `%xx`; a text that does not decode stays as it is.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let Some(byte) = digit().and_then(|high| u8::try_from(high << 4 | digit()?).ok()) else {
            return text.to_owned();
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}
