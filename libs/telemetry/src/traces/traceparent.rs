//! The text by which a span is named to other processes (W3C Trace Context, header `traceparent`).

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

/// Name of the HTTP header, of the gRPC metadata and of the bus's field.
pub const HEADER: &str = "traceparent";

/// Returns the `traceparent` of a span; `None` for an invalid context. `tracestate` is not passed on.
#[must_use]
pub fn text(context: &SpanContext) -> Option<String> {
    let flags = u8::from(context.is_sampled());
    context.is_valid().then(|| format!("00-{}-{}-{flags:02x}", context.trace_id(), context.span_id()))
}

/// Reads the context that a message brings, from the values of all its headers of this name. Of several none counts, as the standard asks.
#[must_use]
pub fn sole<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Option<SpanContext> {
    let context = parse(str::from_utf8(values.next()?).ok()?);
    if values.next().is_some() { None } else { context }
}

/// Reads a `traceparent` as a remote span; `None` for a text that is none. The SDK's propagator is not used: it refuses flags of level 2 of the standard and
/// accepts ids that are too short. Flags other than "sampled", and fields of versions later than 00 that this version does not know are ignored, as the standard asks.
#[must_use]
pub fn parse(text: &str) -> Option<SpanContext> {
    /// The most bytes of a text. Version 00 has 55; later versions may have more fields.
    const LONGEST: usize = 256;
    if text.len() > LONGEST {
        return None;
    }
    let mut parts = text.split('-');
    let mut part = |length: usize| {
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        parts.next().filter(|part| part.len() == length && part.bytes().all(hex))
    };
    let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
    if version == "ff" || version == "00" && parts.next().is_some() {
        return None;
    }
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    let sampled = TraceFlags::new(u8::from_str_radix(flags, 16).ok()? & TraceFlags::SAMPLED.to_u8());
    Some(SpanContext::new(trace, span, sampled, true, TraceState::NONE)).filter(SpanContext::is_valid)
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
    fn two_contexts_are_none() {
        let one = TEXT.as_bytes();
        assert_eq!(sole([one].into_iter()), parse(TEXT));
        for values in [&[][..], &[one, one], &[b"\xff"]] {
            assert_eq!(sole(values.iter().copied()), None, "{values:?}");
        }
    }

    #[test]
    fn outside_every_span_there_is_no_text() {
        assert_eq!(super::text(&SpanContext::NONE), None);
    }

    #[test]
    fn unknown_flags_and_fields_of_later_versions_are_ignored() {
        for flags in ["-03", "-ff"] {
            assert!(parse(&TEXT.replace("-01", flags)).unwrap().is_sampled(), "{flags}");
        }
        assert!(!parse(&TEXT.replace("-01", "-02")).unwrap().is_sampled());
        assert!(parse(&format!("{}-later", TEXT.replacen("00", "01", 1))).is_some());
    }

    #[test]
    fn what_the_standard_forbids_is_no_context() {
        let bad = [
            "",
            "00",
            "-",
            "00-1-1-01",
            &format!("{TEXT}-more"),
            &TEXT.replacen("00", "ff", 1),
            &TEXT.replacen("00", "xx", 1),
            &"0".repeat(10_000),
        ];
        for bad in bad {
            assert_eq!(parse(bad), None, "{bad}");
        }
        for bad in [
            TEXT.replace("abc", "000"),
            TEXT.replace("12", "00"),
            TEXT.replace("-01", "-x1"),
            TEXT.replace("abc", "ABC"),
        ] {
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
