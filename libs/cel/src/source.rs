//! Positions in the text of an expression, and the form of errors with the text.

use std::fmt::Write as _;

/// The longest line that is shown below an error (cel-go's limit).
const SNIPPET_CHARS: usize = 16_384;

/// A position in an expression: line from 1, column from 0, both in characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 0; error texts show the column from 1.
    pub column: usize,
}

/// Returns the position of a byte offset.
pub(crate) fn position(text: &str, offset: usize) -> Position {
    let before = text.get(..text.floor_char_boundary(offset)).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let column = before.get(start..).map_or(0, |line| line.chars().count());
    Position { line: before.bytes().filter(|b| *b == b'\n').count() + 1, column }
}

/// Formats an error as cel-go does: the position, the message, the line, and a mark below the line.
pub(crate) fn show(text: &str, at: Position, message: &str) -> String {
    let mut out = format!("ERROR: <input>:{}:{}: {message}", at.line, at.column + 1);
    let Some(line) = text.split('\n').nth(at.line - 1).filter(|line| line.len() <= SNIPPET_CHARS) else { return out };
    // Writing to a String cannot fail.
    let _ = write!(out, "\n | {}\n | ", line.replace('\t', " "));
    let mut chars = line.chars();
    out.extend(chars.by_ref().take(at.column).map(|c| if c.len_utf8() > 1 { '\u{ff0e}' } else { '.' }));
    out.push(if chars.next().is_some_and(|c| c.len_utf8() > 1) { '\u{ff3e}' } else { '^' });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_the_place() {
        let text = "a +\n\tbé + c";
        let at = position(text, text.find('c').unwrap());
        assert_eq!(at, Position { line: 2, column: 6 });
        assert_eq!(show(text, at, "no"), "ERROR: <input>:2:7: no\n |  bé + c\n | ..\u{ff0e}...^");
        assert_eq!(position(text, 99), Position { line: 2, column: 7 }, "behind the end is the end");
    }
}
