//! Parses files of variables for `fileKeyRef` (`pkg/kubelet/util/env`): lines of `NAME='value'`, without any shell syntax.

/// The first line of a file of variables that is none, by its number from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FormatError {
    /// A line without the form of a variable.
    #[error("invalid environment variable format at line {line}: {fault}")]
    Line {
        /// Number of the line.
        line: usize,
        /// What is wrong with the line.
        fault: LineFault,
    },
    /// A value whose closing quote is missing.
    #[error("invalid environment variable format starting at line {line}: unclosed single quote")]
    Unclosed {
        /// Number of the line with the opening quote.
        line: usize,
    },
}

/// What is wrong with a line of a file of variables; upstream's texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LineFault {
    #[error("missing '='")]
    NoEqualsSign,
    #[error("empty variable name")]
    EmptyName,
    #[error("whitespace before '=' is not allowed")]
    BlankAfterName,
    #[error("value must be enclosed in single quotes")]
    Unquoted,
    #[error("unexpected content after closing quote")]
    ContentAfterQuote,
}

/// Returns the value of `key` in a file of variables; an empty text when the file does not have the key.
///
/// # Errors
/// When a line before the key is no variable.
pub(super) fn value(text: &str, key: &str) -> Result<String, FormatError> {
    const BLANK: [char; 2] = [' ', '\t'];
    let invalid = |line, fault| Err(FormatError::Line { line, fault });
    let mut lines = (1..).zip(text.lines());
    while let Some((at, line)) = lines.next() {
        let line = line.trim_start_matches(BLANK);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, rest)) = line.split_once('=') else { return invalid(at, LineFault::NoEqualsSign) };
        if name.trim_end_matches(BLANK).is_empty() {
            return invalid(at, LineFault::EmptyName);
        }
        if name.ends_with(BLANK) {
            return invalid(at, LineFault::BlankAfterName);
        }
        if rest.starts_with(BLANK) {
            // As in a shell, the variable is empty, and the next word is a separate command.
            if name == key {
                return Ok(String::new());
            }
            continue;
        }
        let Some(mut rest) = rest.strip_prefix('\'') else {
            return invalid(at, LineFault::Unquoted);
        };
        let (mut value, mut last) = (String::new(), at);
        let after = loop {
            if let Some((end, after)) = rest.split_once('\'') {
                value.push_str(end);
                break after.trim_start_matches(BLANK);
            }
            value.extend([rest, "\n"]);
            let Some((next, line)) = lines.next() else {
                return Err(FormatError::Unclosed { line: at });
            };
            (last, rest) = (next, line);
        };
        if !after.is_empty() && !after.starts_with('#') {
            return invalid(last, LineFault::ContentAfterQuote);
        }
        if name == key {
            return Ok(value);
        }
    }
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn values_stand_in_quotes_and_may_have_lines() {
        let text = "# first\n\n  A='1'  # one\nB='$(A) \"x\"'\nC='two\nlines'\r\nD= 'x'\nE=''\nA='again'\n";
        for (key, want) in [("A", "1"), ("B", "$(A) \"x\""), ("C", "two\nlines"), ("D", ""), ("E", ""), ("Z", "")] {
            assert_eq!(value(text, key).as_deref(), Ok(want), "{key}");
        }
    }

    #[test]
    fn what_is_no_variable_is_refused_with_its_line() {
        let at = "invalid environment variable format at line 2: ";
        for (line, why) in [
            ("A", format!("{at}missing '='")),
            ("='1'", format!("{at}empty variable name")),
            ("A ='1'", format!("{at}whitespace before '=' is not allowed")),
            ("A=1", format!("{at}value must be enclosed in single quotes")),
            ("A='1' x", format!("{at}unexpected content after closing quote")),
            ("A='1", "invalid environment variable format starting at line 2: unclosed single quote".to_owned()),
        ] {
            assert_eq!(value(&format!("X='1'\n{line}"), "Y").map_err(|error| error.to_string()), Err(why), "{line}");
            assert_eq!(value(&format!("X='1'\n{line}"), "X").as_deref(), Ok("1"), "what follows the key is not read");
        }
    }

    #[test]
    fn damaged_files_are_refused_or_read() {
        for text in oarlock_testkit::damaged_text(7, "# c\nA='1' # x\nB='two\nlines'\nC= 'y'\n", 2000) {
            let _ = value(&text, "C");
        }
    }
}
