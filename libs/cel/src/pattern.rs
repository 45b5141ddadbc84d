//! Regular expressions in RE2's syntax, which has no look-around and matches in linear time.
//!
//! The engine is Rust's `regex`; constructs with another meaning there are translated: classes such as `\d` and `\b` mean ASCII, a bracket or a double sign within a
//! class is literal, `\Q…\E` quotes, and braces that are no repetition are literal.

use std::collections::HashMap;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};

/// The most bytes of a compiled expression.
const MAX_COMPILED_BYTES: usize = 1 << 20;
/// The most repetitions of one part (RE2's limit).
const MAX_REPETITIONS: u32 = 1000;

/// The regular expressions that a program contains as literals, each compiled once.
#[derive(Debug, Default)]
pub(crate) struct Patterns(HashMap<String, Arc<Regex>>);

impl Patterns {
    pub(crate) fn new(texts: Vec<String>) -> Self {
        Self(texts.into_iter().filter_map(|text| Some((text.clone(), Arc::new(compile(&text).ok()?)))).collect())
    }

    /// Returns the compiled expression of a text.
    ///
    /// # Errors
    /// Why the text is no regular expression.
    pub(crate) fn get(&self, text: &str) -> Result<Arc<Regex>, String> {
        match self.0.get(text) {
            Some(known) => Ok(Arc::clone(known)),
            None => compile(text).map(Arc::new),
        }
    }
}

/// Compiles an expression.
///
/// # Errors
/// Why the text is no regular expression.
pub(crate) fn compile(text: &str) -> Result<Regex, String> {
    let translated = translate(text)?;
    let built =
        RegexBuilder::new(&translated).size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_COMPILED_BYTES).build();
    built.map_err(|_| format!("error parsing regexp: `{text}`"))
}

fn translate(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len() + 16);
    let (mut rest, mut class) = (text, 0_usize);
    while let Some(c) = rest.chars().next() {
        let ahead = rest.get(c.len_utf8()..).unwrap_or_default();
        let mut taken = c.len_utf8();
        match c {
            '\\' => {
                let Some(escaped) = ahead.chars().next() else {
                    return Err("error parsing regexp: trailing backslash at end of expression: ``".to_owned());
                };
                taken += escaped.len_utf8();
                match escaped {
                    'Q' if class == 0 => {
                        let quoted = ahead.get(1..).unwrap_or_default();
                        let len = quoted.find("\\E").unwrap_or(quoted.len());
                        out.push_str(&regex::escape(quoted.get(..len).unwrap_or_default()));
                        taken += (len + 2).min(quoted.len());
                    }
                    'd' => out.push_str(if class > 0 { "0-9" } else { "[0-9]" }),
                    'D' => out.push_str("[^0-9]"),
                    'w' => out.push_str(if class > 0 { "0-9A-Za-z_" } else { "[0-9A-Za-z_]" }),
                    'W' => out.push_str("[^0-9A-Za-z_]"),
                    's' => out.push_str(if class > 0 { "\\t\\n\\f\\r " } else { "[\\t\\n\\f\\r ]" }),
                    'S' => out.push_str("[^\\t\\n\\f\\r ]"),
                    'b' if class == 0 => out.push_str("(?-u:\\b)"),
                    'B' if class == 0 => out.push_str("(?-u:\\B)"),
                    // These escapes mean something in Rust's engine and are invalid in RE2.
                    'C' | '<' | '>' | 'G' | 'K' | 'Z' | 'R' | 'X' | 'h' | 'H' | 'u' | 'U' => {
                        return Err(format!("error parsing regexp: invalid escape sequence: `\\{escaped}`"));
                    }
                    // A class or a character by name.
                    'p' | 'P' | 'x' if ahead.get(1..).is_some_and(|rest| rest.starts_with('{')) => {
                        let len = ahead.find('}').map_or(ahead.len(), |end| end + 1);
                        taken = 1 + len;
                        out.push('\\');
                        out.push_str(ahead.get(..len).unwrap_or_default());
                    }
                    other => out.extend(['\\', other]),
                }
            }
            '[' if class == 0 => {
                class = 1;
                out.push('[');
                // A negation, and a leading bracket, which is literal.
                let negated = ahead.starts_with('^');
                if negated {
                    out.push('^');
                    taken += 1;
                }
                if ahead.get(usize::from(negated)..).is_some_and(|rest| rest.starts_with(']')) {
                    out.push_str("\\]");
                    taken += 1;
                }
            }
            '[' => match ahead.strip_prefix(':').and_then(|name| name.find(":]")) {
                Some(len) => {
                    taken += len + 3;
                    out.push_str(rest.get(..taken).unwrap_or_default());
                }
                None => out.push_str("\\["),
            },
            ']' if class > 0 => {
                class = 0;
                out.push(']');
            }
            '&' | '~' if class > 0 => out.extend(['\\', c]),
            '-' if class > 0 && (ahead.starts_with('-') || out.ends_with("\\-")) => out.push_str("\\-"),
            '{' if class == 0 => match repetition(ahead) {
                Some(most) if most > MAX_REPETITIONS => {
                    let shown = rest.find('}').and_then(|end| rest.get(..=end)).unwrap_or(rest);
                    return Err(format!("error parsing regexp: invalid repeat count: `{shown}`"));
                }
                Some(_) => out.push('{'),
                None => out.push_str("\\{"),
            },
            other => out.push(other),
        }
        rest = rest.get(taken..).unwrap_or_default();
    }
    Ok(out)
}

/// Returns the larger count of the repetition that a brace begins, or `None` for a literal brace.
fn repetition(ahead: &str) -> Option<u32> {
    let (inner, _) = ahead.split_once('}')?;
    let (low, high) = inner.split_once(',').unwrap_or((inner, ""));
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().unwrap_or(u32::MAX));
    let low: u32 = number(low).filter(|_| !low.is_empty())?;
    let high = if high.is_empty() { 0 } else { number(high)? };
    Some(low.max(high))
}
