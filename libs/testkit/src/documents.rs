//! [`commands`]: what documents tell a reader to run, so that a test of each program can check that it takes it.

use std::path::{Path, PathBuf};

/// Folders and files with documents, below the workspace's folder.
const DOCUMENTS: [&str; 5] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs", "loadtests/README.md"];

/// A command in a block of code of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// File and line, such as `docs/operations/crew.md:7`.
    pub place: String,
    /// The program and its arguments. A substitution (`$(…)`) is one argument; variables before the program, redirections and comments are left out.
    pub words: Vec<String>,
}

/// Returns the commands in all documents of the workspace whose first words are these. In a block with prompts (`$ `) the lines after a prompt are
/// commands, in any other block all lines. Blocks of a named language have no commands.
///
/// # Panics
/// When a document cannot be read, or no command begins with these words.
#[must_use]
pub fn commands(first: &[&str]) -> Vec<Shown> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for name in DOCUMENTS {
        find(&root.join(name), &mut files);
    }
    files.sort();
    let all = files.iter().flat_map(|file| {
        let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        of(&file.strip_prefix(&root).unwrap_or(file).display().to_string(), &text)
    });
    let found: Vec<Shown> = all
        .filter(|shown| shown.words.starts_with(&first.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()))
        .collect();
    assert!(!found.is_empty(), "no document has a command that begins with {first:?}");
    found
}

/// Adds the documents in a folder, or the file itself.
fn find(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        entries.for_each(|entry| find(&entry.unwrap().path(), files));
    } else if path.extension().is_some_and(|extension| extension == "md") {
        files.push(path.to_owned());
    }
}

/// Returns the commands in one document.
fn of(name: &str, text: &str) -> Vec<Shown> {
    let mut commands = Vec::new();
    let mut lines = text.lines().zip(1..);
    while let Some((line, _)) = lines.next() {
        let Some(language) = line.strip_prefix("```") else { continue };
        let block: Vec<_> = lines.by_ref().take_while(|(line, _)| !line.starts_with("```")).collect();
        if !language.is_empty() {
            continue;
        }
        let has_prompts = block.iter().any(|(line, _)| line.starts_with("$ "));
        let mut block = block.into_iter();
        while let Some((line, number)) = block.next() {
            let line = if has_prompts { line.strip_prefix("$ ") } else { Some(line) };
            let Some(mut line) = line.map(str::to_owned) else { continue };
            while line.ends_with('\\') {
                line.pop();
                line.extend(block.next().map(|(next, _)| next));
            }
            let shown = |words| Shown { place: format!("{name}:{number}"), words };
            commands.extend(split(&line).into_iter().map(shown));
        }
    }
    commands
}

/// Splits a line of shell into its commands, and each into its words. Knows quotes, substitutions, comments, redirections and what separates commands; nothing
/// is expanded. The commands of a substitution follow that which has it.
fn split(line: &str) -> Vec<Vec<String>> {
    let mut commands: Vec<Vec<String>> = vec![Vec::new()];
    let mut inner = Vec::new();
    let (mut word, mut quote, mut depth) = (None::<String>, None, 0_usize);
    let mut substituted = String::new();
    let mut rest = line.chars().peekable();
    while let Some(next) = rest.next() {
        if depth > 0 {
            depth = match next {
                '(' => depth + 1,
                ')' => depth - 1,
                _ => depth,
            };
            if depth == 0 {
                inner.extend(split(&std::mem::take(&mut substituted)));
            } else {
                substituted.push(next);
            }
        } else if next == '$' && rest.peek() == Some(&'(') && quote != Some('\'') {
            rest.next();
            depth = 1;
            word.get_or_insert_default().push('…');
        } else if quote == Some(next) {
            quote = None;
        } else if quote.is_some() {
            word.get_or_insert_default().push(next);
        } else {
            match next {
                '\'' | '"' => {
                    quote = Some(next);
                    word.get_or_insert_default();
                }
                '#' if word.is_none() => break,
                ' ' => commands.last_mut().unwrap().extend(word.take()),
                '&' | '|' | ';' => {
                    commands.last_mut().unwrap().extend(word.take());
                    commands.push(Vec::new());
                }
                _ => word.get_or_insert_default().push(next),
            }
        }
    }
    commands.last_mut().unwrap().extend(word);
    commands.append(&mut inner);
    for command in &mut commands {
        if let Some(at) = command.iter().position(|word| word.starts_with(['<', '>'])) {
            command.truncate(at);
        }
        let variables = command.iter().take_while(|word| is_assignment(word)).count();
        command.drain(..variables);
    }
    commands.retain(|words| !words.is_empty());
    commands
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_as_a_shell_does() {
        let cases: [(&str, &[&[&str]]); 9] = [
            ("oarlock up   # a comment", &[&["oarlock", "up"]]),
            ("A_1=b C= oarlock up", &[&["oarlock", "up"]]),
            ("a && b | c; d &", &[&["a"], &["b"], &["c"], &["d"]]),
            ("a 'b c' \"d | e\"'f' '' g#h", &[&["a", "b c", "d | ef", "", "g#h"]]),
            ("a > file.txt", &[&["a"]]),
            ("trace=$(kubectl get pods | tr -d -)", &[&["kubectl", "get", "pods"], &["tr", "-d", "-"]]),
            ("a x$(b \"$(c)\")/y", &[&["a", "x…/y"], &["b", "…"], &["c"]]),
            ("a '$(b)'", &[&["a", "$(b)"]]),
            ("", &[]),
        ];
        for (line, wanted) in cases {
            assert_eq!(split(line), wanted, "{line}");
        }
    }

    #[test]
    fn a_document_has_the_commands_of_its_blocks() {
        let text = "oarlock none\n```\noarlock up\noarlock keys \\\n  --parts DIR\n```\ntext\n```yaml\noarlock: none\n```\n\
                    ```\n$ oarlock trace\noarlock prints\n$ cd a && oarlock up\n```\n";
        let shown = |line: u32, words: &str| Shown {
            place: format!("a.md:{line}"),
            words: words.split(' ').map(str::to_owned).collect(),
        };
        let wanted = [
            shown(3, "oarlock up"),
            shown(4, "oarlock keys --parts DIR"),
            shown(12, "oarlock trace"),
            shown(14, "cd a"),
            shown(14, "oarlock up"),
        ];
        assert_eq!(of("a.md", text), wanted);
    }
}
