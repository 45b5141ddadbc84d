//! The formats of `/metrics`, and the choice between them.

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text format 0.0.4, which every scraper reads.
    Plain,
    /// OpenMetrics 1.0.0, the one format with exemplars.
    OpenMetrics,
    /// OpenMetrics under its first version number, 0.0.1. The texts of both versions are equal.
    EarlyOpenMetrics,
}

impl Format {
    /// Returns the format that an `Accept` header asks for. The clause with the highest weight counts, among equals the first. A header that names no format gets
    /// [`Format::Plain`], as from Prometheus' Go client (`expfmt.NegotiateIncludingOpenMetrics`).
    #[must_use]
    pub fn accepted(header: Option<&str>) -> Self {
        let mut best = (0.0, Self::Plain);
        for (weight, format) in header.unwrap_or("").split(',').filter_map(clause) {
            if weight > best.0 {
                best = (weight, format);
            }
        }
        best.1
    }

    /// Returns the media type of the format.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::EarlyOpenMetrics => "application/openmetrics-text; version=0.0.1; charset=utf-8",
        }
    }
}

/// Returns weight and format of a clause of an `Accept` header; `None` for other media types and versions.
fn clause(text: &str) -> Option<(f32, Format)> {
    let mut parts = text.split(';').map(str::trim);
    let media = parts.next()?.to_ascii_lowercase();
    let (mut version, mut weight) = ("", 1.0);
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        match name.trim().to_ascii_lowercase().as_str() {
            "version" => version = value.trim().trim_matches('"'),
            "q" => weight = value.trim().parse().ok().filter(|weight: &f32| weight.is_finite())?,
            _ => {}
        }
    }
    let format = match (media.as_str(), version) {
        ("text/plain", "" | "0.0.4") => Format::Plain,
        ("application/openmetrics-text", "1.0.0") => Format::OpenMetrics,
        ("application/openmetrics-text", "" | "0.0.1") => Format::EarlyOpenMetrics,
        _ => return None,
    };
    Some((weight, format))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clause_of_the_highest_weight_counts() {
        // What Prometheus 2.42 and 3 send.
        let second = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let third = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        for (header, expected) in [
            (None, Format::Plain),
            (Some(second), Format::OpenMetrics),
            (Some(third), Format::OpenMetrics),
            (Some("*/*"), Format::Plain),
            (Some("text/html, application/json"), Format::Plain),
            (Some("text/plain"), Format::Plain),
            (Some("application/openmetrics-text"), Format::EarlyOpenMetrics),
            (Some("APPLICATION/OpenMetrics-Text; Version=\"1.0.0\""), Format::OpenMetrics),
            (Some("application/openmetrics-text;version=2.0.0, text/plain"), Format::Plain),
            (Some("text/plain;q=0.2, application/openmetrics-text;version=1.0.0;q=0.9"), Format::OpenMetrics),
            (Some("application/openmetrics-text;version=1.0.0;q=0"), Format::Plain),
            (Some("application/openmetrics-text;q=NaN"), Format::Plain),
            (Some(";;;=,,"), Format::Plain),
        ] {
            assert_eq!(Format::accepted(header), expected, "{header:?}");
        }
    }
}
