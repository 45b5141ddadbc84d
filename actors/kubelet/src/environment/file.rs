//! Parses files of variables for `fileKeyRef` (`pkg/kubelet/util/env`): lines of `NAME='value'`, without any shell syntax.

/// Returns the value of `key` in a file of variables; an empty text when the file does not have the key.
///
/// # Errors
/// When a line before the key is no variable; upstream's text.
pub(super) fn value(text: &str, key: &str) -> Result<String, String> {
    const BLANK: [char; 2] = [' ', '\t'];
    let invalid = |line: usize, what: &str| Err(format!("invalid environment variable format at line {line}: {what}"));
    let mut lines = (1..).zip(text.lines());
    while let Some((at, line)) = lines.next() {
        let line = line.trim_start_matches(BLANK);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, rest)) = line.split_once('=') else { return invalid(at, "missing '='") };
        if name.trim_end_matches(BLANK).is_empty() {
            return invalid(at, "empty variable name");
        }
        if name.ends_with(BLANK) {
            return invalid(at, "whitespace before '=' is not allowed");
        }
        if rest.starts_with(BLANK) {
            // As in a shell, the variable is empty, and the next word is a separate command.
            if name == key {
                return Ok(String::new());
            }
            continue;
        }
        let Some(mut rest) = rest.strip_prefix('\'') else {
            return invalid(at, "value must be enclosed in single quotes");
        };
        let (mut value, mut last) = (String::new(), at);
        let after = loop {
            if let Some((end, after)) = rest.split_once('\'') {
                value.push_str(end);
                break after.trim_start_matches(BLANK);
            }
            value.extend([rest, "\n"]);
            let Some((next, line)) = lines.next() else {
                return Err(format!(
                    "invalid environment variable format starting at line {at}: unclosed single quote"
                ));
            };
            (last, rest) = (next, line);
        };
        if !after.is_empty() && !after.starts_with('#') {
            return invalid(last, "unexpected content after closing quote");
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
            assert_eq!(value(&format!("X='1'\n{line}"), "Y"), Err(why), "{line}");
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
