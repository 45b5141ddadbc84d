//! Completes the text that `prometheus-client` writes: bounds of buckets as Prometheus' Go client writes them, and the plain format, which the crate does not have.
//!
//! Queries name a bucket by the text of its bound. Upstream's components write `le="1e-08"` and, in the plain format, `le="1"`; the crate writes `le="1e-8"` and `le="1.0"`. The plain
//! format has no exemplars and no end mark, and names a counter's family with its suffix `_total`.

use std::fmt::{self, Write};

use super::exemplar_text;
use super::format::Format;

/// What precedes the bound of a bucket; the crate writes this label first.
const BOUND: &str = "_bucket{le=\"";

/// A writer that takes OpenMetrics text, and writes it in a format line by line.
pub(super) struct Lines {
    format: Format,
    out: String,
    line: String,
    /// The `HELP` line of a family of the plain format, until the family's type is known.
    help: String,
    /// Number of the lines just before that are buckets of one histogram.
    buckets: usize,
}

impl Lines {
    pub(super) fn new(format: Format) -> Self {
        Self { format, out: String::new(), line: String::new(), help: String::new(), buckets: 0 }
    }

    /// Returns the whole text.
    pub(super) fn finish(self) -> String {
        self.out
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let bound = with_bound(&line, self.format);
        let bucket = bound.is_some().then_some(self.buckets);
        self.buckets = bucket.map_or(0, |bucket| bucket + 1);
        let mut text = bound.unwrap_or_else(|| line.clone());
        if let Some(bucket) = bucket
            && self.format != Format::Plain
        {
            exemplar_text::append(&mut text, bucket);
        }
        if self.format == Format::Plain {
            text = match text.strip_prefix("# ").and_then(|comment| comment.split_once(' ')) {
                Some(("HELP", rest)) => {
                    rest.clone_into(&mut self.help);
                    self.line = line;
                    self.line.clear();
                    return;
                }
                Some(("TYPE", rest)) => self.plain_family(rest),
                // The unit and the end mark.
                Some(_) => String::new(),
                None if text.starts_with("# ") => String::new(),
                None => text,
            };
        }
        if !text.is_empty() {
            self.out.push_str(&text);
            self.out.push('\n');
        }
        // The buffer is used again.
        self.line = line;
        self.line.clear();
    }

    /// Returns the comments of a family, whose name and type are `family`.
    fn plain_family(&self, family: &str) -> String {
        let (name, kind) = family.rsplit_once(' ').unwrap_or((family, "unknown"));
        let (suffix, kind) = match kind {
            "counter" => ("_total", kind),
            "info" => ("_info", "gauge"),
            "unknown" => ("", "untyped"),
            kind => ("", kind),
        };
        let help = self.help.strip_prefix(name).unwrap_or_default();
        format!("# HELP {name}{suffix}{help}\n# TYPE {name}{suffix} {kind}")
    }
}

impl Write for Lines {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive('\n') {
            match part.strip_suffix('\n') {
                Some(end) => {
                    self.line.push_str(end);
                    self.end_line();
                }
                None => self.line.push_str(part),
            }
        }
        Ok(())
    }
}

/// Returns the line of a bucket with its bound in the form of the format; `None` for other lines.
fn with_bound(line: &str, format: Format) -> Option<String> {
    // A label's value may hold any text, so only the place right after the name counts.
    let bound = line.find('{').and_then(|open| {
        let name = open.checked_sub("_bucket".len())?;
        line.get(name..)?.strip_prefix(BOUND)?.split_once('"')
    });
    let (bound, rest) = bound?;
    let value = bound.parse::<f64>().ok()?;
    let name = line.split('{').next()?;
    Some(format!("{name}{{le=\"{}\"{rest}", number(value, format)))
}

/// Formats a number as Go does with `%g`, and in OpenMetrics always with a point or an exponent.
fn number(value: f64, format: Format) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    // Go's shortest form has an exponent from a million and below a ten-thousandth, of two digits at least.
    if !(-4..6).contains(&exponent) && value != 0.0 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.unsigned_abs());
    }
    let text = value.to_string();
    if format == Format::Plain || text.contains('.') { text } else { format!("{text}.0") }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::EncodeLabelSet;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::gauge::Gauge;
    use prometheus_client::registry::Registry;

    use super::super::{HistogramWithExemplars, encode, exponential};
    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
    struct Labels {
        text: &'static str,
    }

    /// A label that a careless parser takes for an exemplar, a bound and a new line.
    const HOSTILE: &str = "} 1 # {le=\"7\"} \\ \n# EOF";
    const ESCAPED: &str = "} 1 # {le=\\\"7\\\"} \\\\ \\n# EOF";

    fn registry() -> Registry {
        let mut registry = Registry::default();
        let seconds: Family<Labels, HistogramWithExemplars, _> =
            Family::new_with_constructor(|| HistogramWithExemplars::new([1e-8, 0.005, 1.0, 2_592_000.0]));
        let trace = Some([("trace_id", "0af7651916cd43dd8448eb211c80319c".to_owned())]);
        seconds.get_or_create(&Labels { text: HOSTILE }).observe(0.5, trace, None);
        registry.register("seconds", "Time", seconds);
        let adds = Counter::<u64>::default();
        adds.inc();
        registry.register("adds", "Keys", adds);
        let depth = Gauge::<i64>::default();
        registry.register("depth", "Waiting", depth);
        registry
    }

    #[test]
    fn open_metrics_has_upstreams_bounds_and_exemplars() {
        let text = encode(Format::OpenMetrics, [&registry()]);
        let bucket = |bound: &str, rest: &str| format!("seconds_bucket{{le=\"{bound}\",text=\"{ESCAPED}\"}} {rest}\n");
        let expected = [
            "# HELP seconds Time.\n# TYPE seconds histogram\n".to_owned(),
            format!("seconds_sum{{text=\"{ESCAPED}\"}} 0.5\nseconds_count{{text=\"{ESCAPED}\"}} 1\n"),
            bucket("1e-08", "0"),
            bucket("0.005", "0"),
            bucket("1.0", "1 # {trace_id=\"0af7651916cd43dd8448eb211c80319c\"} 0.5"),
            bucket("2.592e+06", "1"),
            bucket("+Inf", "1"),
            "# HELP adds Keys.\n# TYPE adds counter\nadds_total 1\n".to_owned(),
            "# HELP depth Waiting.\n# TYPE depth gauge\ndepth 0\n# EOF\n".to_owned(),
        ];
        assert_eq!(text, expected.concat());
    }

    #[test]
    fn the_plain_format_has_the_same_samples() {
        let text = encode(Format::Plain, [&registry()]);
        let bucket = |bound: &str, count: u8| format!("seconds_bucket{{le=\"{bound}\",text=\"{ESCAPED}\"}} {count}\n");
        let expected = [
            "# HELP seconds Time.\n# TYPE seconds histogram\n".to_owned(),
            format!("seconds_sum{{text=\"{ESCAPED}\"}} 0.5\nseconds_count{{text=\"{ESCAPED}\"}} 1\n"),
            bucket("1e-08", 0),
            bucket("0.005", 0),
            bucket("1", 1),
            bucket("2.592e+06", 1),
            bucket("+Inf", 1),
            "# HELP adds_total Keys.\n# TYPE adds_total counter\nadds_total 1\n".to_owned(),
            "# HELP depth Waiting.\n# TYPE depth gauge\ndepth 0\n".to_owned(),
        ];
        assert_eq!(text, expected.concat());
    }

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        for (value, plain, open) in [
            (0.0, "0", "0.0"),
            (1.0, "1", "1.0"),
            (0.0001, "0.0001", "0.0001"),
            (0.00001, "1e-05", "1e-05"),
            (1.5e-5, "1.5e-05", "1.5e-05"),
            (16.384, "16.384", "16.384"),
            (100_000.0, "100000", "100000.0"),
            (1e6, "1e+06", "1e+06"),
            (15_552_000.0, "1.5552e+07", "1.5552e+07"),
            (1e-100, "1e-100", "1e-100"),
            (f64::INFINITY, "+Inf", "+Inf"),
        ] {
            assert_eq!(number(value, Format::Plain), plain);
            assert_eq!(number(value, Format::OpenMetrics), open);
        }
    }

    #[test]
    fn bounds_of_a_queue_are_upstreams() {
        let texts: Vec<String> = exponential(10e-9, 10.0, 10).map(|bound| number(bound, Format::Plain)).collect();
        assert_eq!(
            texts,
            [
                "1e-08",
                "1e-07",
                "1e-06",
                "9.999999999999999e-06",
                "9.999999999999999e-05",
                "0.001",
                "0.01",
                "0.1",
                "1",
                "10"
            ]
        );
    }
}
