//! Parses the modules and paths of a file, without the parts that are compiled for tests only.

use std::collections::BTreeSet;

use super::tokens::{At, Token};

/// The modules, imports and paths of one module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct Source {
    /// Names that `use` brings in.
    pub(super) uses: Vec<Use>,
    /// Paths in expressions, types and signatures.
    pub(super) paths: Vec<Path>,
    /// Names of items that the module defines.
    pub(super) defines: BTreeSet<String>,
    /// Modules inside.
    pub(super) children: Vec<Child>,
}

/// A path and its line.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) segments: Vec<String>,
    pub(super) line: usize,
}

/// A name that a `use` declares.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) path: Path,
    /// The imported name; none for `*` and `_`.
    pub(super) name: Option<String>,
    /// Whether the use ends in `*`.
    pub(super) glob: bool,
}

/// A module inside another.
#[derive(Clone, Debug)]
pub(super) struct Child {
    pub(super) name: String,
    /// The file that `#[path = "…"]` names.
    pub(super) path: Option<String>,
    /// The module's text when it is in the same file.
    pub(super) inline: Option<Source>,
}

/// Reads the tokens of a file.
pub(super) fn parse(tokens: &[At]) -> Source {
    Parser { tokens, at: 0 }.module()
}

struct Parser<'a> {
    tokens: &'a [At],
    at: usize,
}

impl Parser<'_> {
    /// A module, to the end of the file or to the brace that closes it.
    fn module(&mut self) -> Source {
        let mut found = Source::default();
        let (mut depth, mut path) = (0_usize, None);
        while let Some(token) = self.peek(0).cloned() {
            match token {
                Token::Sign('#') => {
                    let inner = self.peek(1) == Some(&Token::Sign('!'));
                    match self.attribute() {
                        Attribute::Test if inner => {
                            while self.peek(0).is_some_and(|next| depth > 0 || *next != Token::Sign('}')) {
                                self.at += 1;
                            }
                            self.at += 1;
                            return Source::default();
                        }
                        Attribute::Test => self.skip_item(),
                        Attribute::Path(text) => path = Some(text),
                        Attribute::Other => {}
                    }
                    continue;
                }
                Token::Sign('{') => depth += 1,
                Token::Sign('}') => {
                    let Some(less) = depth.checked_sub(1) else {
                        self.at += 1;
                        return found;
                    };
                    depth = less;
                }
                Token::Word(word) if self.item(&word, &mut found, &mut path) => continue,
                _ => {}
            }
            self.at += 1;
        }
        found
    }

    /// Reads what begins with this word; false when it is nothing that matters, and is still to be passed.
    fn item(&mut self, word: &str, found: &mut Source, path: &mut Option<String>) -> bool {
        let name = self.word(1).map(str::to_owned);
        match (word, name) {
            ("mod", Some(name)) => {
                let path = path.take();
                let opens = self.peek(2) == Some(&Token::Sign('{'));
                self.at += 3;
                let inline = opens.then(|| self.module());
                found.children.push(Child { name, path, inline });
                true
            }
            ("use", _) if self.peek(1) != Some(&Token::Sign('<')) => {
                self.at += 1;
                self.use_tree(Vec::new(), found);
                true
            }
            ("pub", _) if self.peek(1) == Some(&Token::Sign('(')) => {
                while self.peek(0).is_some_and(|token| *token != Token::Sign(')')) {
                    self.at += 1;
                }
                true
            }
            ("struct" | "enum" | "union" | "trait" | "type" | "fn" | "const" | "static", Some(name)) => {
                found.defines.insert(name);
                false
            }
            _ if self.peek(1) == Some(&Token::Separator) && !self.continues() => {
                let line = self.line();
                let mut segments = vec![word.to_owned()];
                self.at += 1;
                while self.peek(0) == Some(&Token::Separator) {
                    let Some(next) = self.word(1).map(str::to_owned) else { break };
                    segments.push(next);
                    self.at += 2;
                }
                found.paths.push(Path { segments, line });
                true
            }
            _ => false,
        }
    }

    /// Reads one tree of a `use` below these segments, up to the sign that ends it.
    fn use_tree(&mut self, mut segments: Vec<String>, found: &mut Source) {
        let line = self.line();
        let mut name = None;
        let mut glob = false;
        loop {
            match self.peek(0).cloned() {
                Some(Token::Word(word)) if word == "as" => {
                    name = self.word(1).filter(|name| *name != "_").map(str::to_owned);
                    self.at += 2;
                    break;
                }
                Some(Token::Word(word)) => {
                    // `{self}` is the module itself.
                    if word != "self" || segments.is_empty() {
                        segments.push(word);
                    }
                    name = segments.last().cloned();
                    self.at += 1;
                }
                Some(Token::Separator) => {
                    if segments.is_empty() {
                        // `::name` is another crate.
                        segments.push(String::new());
                    }
                    self.at += 1;
                }
                Some(Token::Sign('*')) => {
                    (glob, name) = (true, None);
                    self.at += 1;
                }
                Some(Token::Sign('{')) => {
                    self.at += 1;
                    while self.peek(0).is_some_and(|token| *token != Token::Sign('}')) {
                        self.use_tree(segments.clone(), found);
                        if self.peek(0) == Some(&Token::Sign(',')) {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                _ => break,
            }
        }
        found.uses.push(Use { path: Path { segments, line }, name, glob });
    }

    /// Reads an attribute.
    fn attribute(&mut self) -> Attribute {
        let from = self.at;
        let mut depth = 0_usize;
        while let Some(token) = self.peek(0) {
            match token {
                Token::Sign('[') => depth += 1,
                Token::Sign(']') => depth = depth.saturating_sub(1),
                _ => {}
            }
            let closes = *token == Token::Sign(']') && depth == 0;
            self.at += 1;
            if closes {
                break;
            }
        }
        let inside: Vec<&Token> = self.tokens.iter().take(self.at).skip(from).map(|at| &at.token).collect();
        let words: Vec<&str> = inside.iter().filter_map(|token| word_of(token)).collect();
        match words.as_slice() {
            ["cfg", "test"] | ["cfg", "all", "test", ..] => Attribute::Test,
            ["path"] => {
                let text =
                    inside.iter().find_map(|token| if let Token::Text(text) = token { Some(text) } else { None });
                text.map_or(Attribute::Other, |text| Attribute::Path(text.clone()))
            }
            _ => Attribute::Other,
        }
    }

    /// Passes the item, field or statement that an attribute is about.
    fn skip_item(&mut self) {
        while self.peek(0) == Some(&Token::Sign('#')) {
            self.attribute();
        }
        let item = self.word(0).is_some_and(|word| ITEMS.contains(&word));
        let mut depth = 0_usize;
        while let Some(token) = self.peek(0).cloned() {
            match token {
                Token::Sign('(' | '[' | '{') => depth += 1,
                Token::Sign(')' | ']' | '}') => {
                    let Some(less) = depth.checked_sub(1) else { return };
                    depth = less;
                }
                _ => {}
            }
            let block = depth == 0 && token == Token::Sign('}');
            let ends = depth == 0 && (token == Token::Sign(';') || (!item && token == Token::Sign(',')));
            self.at += 1;
            if block || ends {
                return;
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.at + ahead).map(|at| &at.token)
    }

    fn word(&self, ahead: usize) -> Option<&str> {
        self.peek(ahead).and_then(word_of)
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).map_or(0, |at| at.line)
    }

    /// Whether the current word continues with a path, or is a field or method.
    fn continues(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|before| self.tokens.get(before)).map(|at| &at.token);
        matches!(before, Some(Token::Separator | Token::Sign('.')))
    }
}

enum Attribute {
    /// What follows is compiled for tests only.
    Test,
    /// `#[path = "…"]`
    Path(String),
    Other,
}

/// Words that begin an item, which ends with a semicolon or a block and may hold commas before.
const ITEMS: [&str; 16] = [
    "pub",
    "mod",
    "use",
    "fn",
    "struct",
    "enum",
    "union",
    "trait",
    "impl",
    "const",
    "static",
    "type",
    "async",
    "unsafe",
    "extern",
    "macro_rules",
];

fn word_of(token: &Token) -> Option<&str> {
    if let Token::Word(word) = token { Some(word) } else { None }
}
