//! The text by which a span is named to other processes (W3C Trace Context, header `traceparent`).

use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{SpanContext, TraceContextExt as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;

/// Name of the HTTP header, of the gRPC metadata and of the bus's field.
pub const HEADER: &str = "traceparent";

/// One header.
struct Carrier<'a>(&'a str);

impl Extractor for Carrier<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        (key == HEADER).then_some(self.0)
    }

    fn keys(&self) -> Vec<&str> {
        vec![HEADER]
    }
}

/// Returns the `traceparent` of a span; `None` for an invalid context. `tracestate` is not passed on.
#[must_use]
pub fn text(context: &SpanContext) -> Option<String> {
    let flags = u8::from(context.is_sampled());
    context.is_valid().then(|| format!("00-{}-{}-{flags:02x}", context.trace_id(), context.span_id()))
}

/// Reads a `traceparent` as a remote span; `None` for a text that is none. Fields of versions later than 00 that this version does not know are ignored, as the standard asks.
#[must_use]
pub fn parse(text: &str) -> Option<SpanContext> {
    /// Bytes of a text of version 00; later versions are longer, and each process bounds what it reads.
    const LONGEST: usize = 256;
    if text.len() > LONGEST {
        return None;
    }
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &Carrier(text));
    Some(context.span().span_context().clone()).filter(SpanContext::is_valid)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "00-00000000000000000000000000000abc-0000000000000012-01";

    #[test]
    fn a_context_is_read_as_it_is_written() {
        let context = parse(TEXT).unwrap();
        assert_eq!((context.trace_id(), context.span_id()), (0xabc.into(), 0x12.into()));
        assert!(context.is_sampled() && context.is_remote());
        assert!(!parse(&TEXT.replace("-01", "-00")).unwrap().is_sampled());
        assert_eq!(super::text(&context).as_deref(), Some(TEXT));
    }

    #[test]
    fn outside_every_span_there_is_no_text() {
        assert_eq!(super::text(&SpanContext::NONE), None);
    }

    #[test]
    fn what_the_standard_forbids_is_no_context() {
        let bad = ["", "00", "-", &TEXT.replacen("00", "ff", 1), &TEXT.replacen("00", "xx", 1), &"0".repeat(10_000)];
        for bad in bad {
            assert_eq!(parse(bad), None, "{bad}");
        }
        for bad in [TEXT.replace("abc", "000"), TEXT.replace("12", "00"), TEXT.replace("-01", "-x1")] {
            assert_eq!(parse(&bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_fail_in_another_way(text in "\\PC{0,80}") {
            let _context: Option<SpanContext> = parse(&text);
        }
    }
}
