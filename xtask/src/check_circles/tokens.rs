//! The tokens of a Rust file, without comments and literals.

/// A token that matters for modules and paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// An identifier or keyword; a raw identifier without its `r#`.
    Word(String),
    /// The text of a plain string literal, as `#[path = "…"]` has it.
    Text(String),
    /// `::`
    Separator,
    /// Any other sign.
    Sign(char),
}

/// A token and its line, from 1.
#[derive(Clone, Debug)]
pub(super) struct At {
    pub(super) token: Token,
    pub(super) line: usize,
}

/// Splits a file that the compiler accepts.
pub(super) fn tokens(text: &str) -> Vec<At> {
    let mut lexer = Lexer { rest: text, line: 1, found: Vec::new() };
    while let Some(next) = lexer.rest.chars().next() {
        lexer.step(next);
    }
    lexer.found
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    found: Vec<At>,
}

impl Lexer<'_> {
    fn step(&mut self, next: char) {
        match next {
            '/' if self.rest.starts_with("//") => self.skip(self.rest.find('\n').unwrap_or(self.rest.len())),
            '/' if self.rest.starts_with("/*") => self.comment(),
            '"' => self.text(),
            '\'' => self.quote(),
            ':' if self.rest.starts_with("::") => {
                self.push(Token::Separator);
                self.skip(2);
            }
            _ if is_word(next) => self.word(),
            _ => {
                if !next.is_whitespace() {
                    self.push(Token::Sign(next));
                }
                self.skip(next.len_utf8());
            }
        }
    }

    fn push(&mut self, token: Token) {
        self.found.push(At { token, line: self.line });
    }

    fn skip(&mut self, bytes: usize) {
        let (skipped, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.line += skipped.matches('\n').count();
        self.rest = rest;
    }

    /// Skips a block comment, which may hold others.
    fn comment(&mut self) {
        let mut depth = 0_usize;
        loop {
            if self.rest.starts_with("/*") {
                depth += 1;
                self.skip(2);
            } else if self.rest.starts_with("*/") {
                depth -= 1;
                self.skip(2);
            } else {
                let Some(next) = self.rest.chars().next() else { return };
                self.skip(next.len_utf8());
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// A string literal with escapes.
    fn text(&mut self) {
        let mut escaped = false;
        let end = self.rest.char_indices().skip(1).find(|(_, next)| {
            let ends = *next == '"' && !escaped;
            escaped = *next == '\\' && !escaped;
            ends
        });
        let end = end.map_or(self.rest.len(), |(at, _)| at);
        let text = self.rest.get(1..end).unwrap_or_default().to_owned();
        self.push(Token::Text(text));
        self.skip(end + 1);
    }

    /// A character literal, or a lifetime.
    fn quote(&mut self) {
        let mut chars = self.rest.char_indices().skip(1);
        let (first, second) = (chars.next(), chars.next());
        let end = match (first, second) {
            (Some((_, '\\')), _) => {
                self.rest.char_indices().skip(3).find(|(_, next)| *next == '\'').map(|(at, _)| at + 1)
            }
            (_, Some((at, '\''))) => Some(at + 1),
            // A lifetime: its name is no path.
            _ => self.rest.char_indices().skip(1).find(|(_, next)| !is_word(*next)).map(|(at, _)| at),
        };
        self.skip(end.unwrap_or(self.rest.len()));
    }

    /// A word, a number, or a literal with a prefix.
    fn word(&mut self) {
        let end = self.rest.find(|next| !is_word(next)).unwrap_or(self.rest.len());
        let (word, after) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        let raw = matches!(word, "r" | "br" | "cr");
        if raw && (after.starts_with('"') || after.trim_start_matches('#').starts_with('"')) {
            let fence: String = after.chars().take_while(|next| *next == '#').collect();
            let body = after.get(fence.len() + 1..).unwrap_or_default();
            let close = format!("\"{fence}");
            let length = body.find(&close).map_or(after.len(), |at| fence.len() + 1 + at + close.len());
            self.skip(end + length);
        } else if word == "r" && after.starts_with('#') {
            self.skip(2);
        } else {
            // `b"…"`, `c"…"` and `b'…'`: the prefix is dropped, and the literal is read as one without.
            let prefix = matches!(word, "b" | "c") && after.starts_with(['"', '\'']);
            if !prefix {
                self.push(Token::Word(word.to_owned()));
            }
            self.skip(end);
        }
    }
}

fn is_word(next: char) -> bool {
    next.is_alphanumeric() || next == '_'
}
