//! Trace context, which links asks to their cause across processes (W3C Trace Context, `traceparent` version 00).
//!
//! Asks sent inside [`scope`] carry the scope's trace; an ask outside any scope starts a new trace.

use std::fmt;
use std::str::FromStr;

/// A span within a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace: u128,
    span: u64,
    sampled: bool,
}

/// Error for a text that is no `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a traceparent, as \"00-<32 hex digits>-<16 hex digits>-01\"")]
pub struct Malformed;

impl TraceContext {
    /// Creates the root of a trace; `None` for an id of zero, which the standard forbids.
    #[must_use]
    pub fn root(trace: u128, span: u64) -> Option<Self> {
        (trace != 0 && span != 0).then_some(Self { trace, span, sampled: true })
    }

    /// Creates another span of the same trace.
    #[must_use]
    pub(crate) fn child(self, span: u64) -> Self {
        Self { span: if span == 0 { self.span } else { span }, ..self }
    }

    /// Returns the id of the trace, as shown in logs.
    #[must_use]
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace)
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

impl FromStr for TraceContext {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let mut parts = text.split('-');
        let mut part = |length: usize| {
            let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            parts.next().filter(|part| part.len() == length && part.bytes().all(hex)).ok_or(Malformed)
        };
        let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        let trace = u128::from_str_radix(trace, 16).map_err(|_| Malformed)?;
        let span = u64::from_str_radix(span, 16).map_err(|_| Malformed)?;
        let flags = u8::from_str_radix(flags, 16).map_err(|_| Malformed)?;
        let known = version == "00" && parts.next().is_none();
        let root = Self::root(trace, span).filter(|_| known).ok_or(Malformed)?;
        Ok(Self { sampled: flags & 1 == 1, ..root })
    }
}

tokio::task_local! {
    static CURRENT: Option<TraceContext>;
}

/// Runs `work`; its asks on the same task belong to the trace.
pub async fn scope<F: Future>(context: Option<TraceContext>, work: F) -> F::Output {
    CURRENT.scope(context, work).await
}

/// Returns the span of the current scope.
#[must_use]
pub fn current() -> Option<TraceContext> {
    CURRENT.try_with(|context| *context).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes_and_nothing_else() {
        let context = TraceContext::root(0xabc, 0x12).unwrap();
        let text = "00-00000000000000000000000000000abc-0000000000000012-01";
        assert_eq!((context.to_string().as_str(), text.parse()), (text, Ok(context)));
        for bad in ["", "00", "01-00000000000000000000000000000abc-0000000000000012-01", &text.replace("abc", "ABC")] {
            assert_eq!(bad.parse::<TraceContext>(), Err(Malformed), "{bad}");
        }
        for bad in [text.replace("abc", "000"), text.replace("12", "00"), format!("{text}-"), text.replace("-01", "-1")]
        {
            assert_eq!(bad.parse::<TraceContext>(), Err(Malformed), "{bad}");
        }
    }

    #[tokio::test]
    async fn holds_inside_its_scope_only() {
        let context = TraceContext::root(1, 2);
        assert_eq!(scope(context, async { current() }).await, context);
        assert_eq!(current(), None);
    }
}
