//! Keywords and reserved words.

/// Keywords.
const LITERALS: &[&str] = &["true", "false", "null", "in"];

/// Reserved words: not allowed as names of variables or functions, but without a meaning.
pub(crate) const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether a word is a keyword or reserved.
pub(crate) fn is_taken(word: &str) -> bool {
    LITERALS.contains(&word) || RESERVED.contains(&word)
}

/// Whether a variable may have this name.
#[must_use]
pub fn is_identifier(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic());
    starts && name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric()) && !is_taken(name)
}

#[cfg(test)]
mod tests {
    use super::is_identifier;

    #[test]
    fn names_are_told_from_words_and_numbers() {
        for (name, good) in
            [("a", true), ("_1", true), ("a-b", false), ("1a", false), ("", false), ("in", false), ("var", false)]
        {
            assert_eq!(is_identifier(name), good, "{name}");
        }
    }
}
