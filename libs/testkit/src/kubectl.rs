//! Runs the real kubectl and prints a transcript.

mod following;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub use self::following::Following;
use crate::binary;
use crate::wait::eventually;

/// Runner of kubectl against one cluster. Every command and its output is printed, so that a failing test shows the whole session.
#[derive(Clone, Debug)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
    more: Vec<(String, String)>,
}

impl Kubectl {
    /// Creates a runner with this kubeconfig.
    ///
    /// # Panics
    /// When kubectl is not installed.
    #[must_use]
    pub fn new(kubeconfig: &Path) -> Self {
        Self::of(&binary::kubectl(), kubeconfig)
    }

    /// Creates a runner of another kubectl than the machine's.
    #[must_use]
    pub fn of(program: &Path, kubeconfig: &Path) -> Self {
        // kubectl caches discovery per host and port: a later test on the same port must not find this cache.
        let home = kubeconfig.parent().unwrap_or(Path::new("/tmp")).join("kubectl-home");
        Self { program: program.to_owned(), kubeconfig: kubeconfig.to_owned(), home, more: Vec::new() }
    }

    /// Returns the runner with one more environment variable.
    #[must_use]
    pub fn with_env(&self, name: &str, value: &str) -> Self {
        let mut other = self.clone();
        other.more.push((name.to_owned(), value.to_owned()));
        other
    }

    /// Sets the environment for kubectl on a program that will call kubectl.
    pub fn configure(&self, command: &mut Command) {
        command.env("KUBECONFIG", &self.kubeconfig).env("HOME", &self.home).env("KUBECTL_KUBERC", "false");
        command.env_remove("HTTPS_PROXY").env_remove("https_proxy");
        command.envs(self.more.iter().map(|(name, value)| (name, value)));
    }

    /// Runs a command line (words are split at spaces; single quotes keep spaces).
    ///
    /// # Panics
    /// When kubectl cannot be started.
    pub fn run(&self, line: &str) -> Ran {
        self.run_with(line, "")
    }

    /// Runs a command line with this standard input.
    ///
    /// # Panics
    /// When kubectl cannot be started.
    pub fn run_with(&self, line: &str, input: &str) -> Ran {
        let mut child = self.spawn(line);
        let mut stdin = child.stdin.take().expect("a pipe");
        // kubectl may exit without reading its input; its output then says why.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let output = child.wait_with_output().expect("kubectl ends");
        let ran = Ran {
            line: line.to_owned(),
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        eprintln!("{ran}");
        ran
    }

    /// Runs a command line that must succeed; returns its standard output.
    ///
    /// # Panics
    /// When the command fails.
    #[track_caller]
    pub fn ok(&self, line: &str) -> String {
        self.run(line).ok().out
    }

    /// Repeats a command until its output satisfies the condition.
    ///
    /// # Panics
    /// When the output does not do so in time.
    pub fn until(&self, line: &str, right: impl Fn(&str) -> bool) -> String {
        eventually(line, || {
            let ran = self.run(line);
            if ran.code == 0 && right(&ran.out) { Ok(ran.out) } else { Err(format!("{}{}", ran.out, ran.err)) }
        })
    }

    /// Starts a command that runs until its condition is met or the value is dropped.
    ///
    /// # Panics
    /// When kubectl cannot be started.
    #[must_use]
    pub fn follow(&self, line: &str) -> Following {
        Following::start(self.command(line), line)
    }

    /// Repeats a command until its output contains all of these texts.
    ///
    /// # Panics
    /// When the output does not do so in time.
    pub fn until_says<const N: usize>(&self, line: &str, texts: [&str; N]) -> String {
        self.until(line, |out| texts.iter().all(|text| out.contains(text)))
    }

    /// Starts a command whose output is read while the command runs; the caller ends the command.
    ///
    /// # Panics
    /// When kubectl cannot be started.
    #[must_use]
    pub fn spawn(&self, line: &str) -> Child {
        let mut command = self.command(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("kubectl starts")
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words(line));
        self.configure(&mut command);
        command
    }
}

fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            c if c.is_whitespace() && !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Result of a command.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The command line.
    pub line: String,
    /// Exit code; -1 when a signal ended the command.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// Returns the result if the command succeeded.
    ///
    /// # Panics
    /// When the command failed.
    #[track_caller]
    #[must_use = "use Kubectl::ok when only success counts"]
    pub fn ok(self) -> Self {
        assert!(self.code == 0, "kubectl failed\n{self}");
        self
    }

    /// Asserts that the command succeeded and that its output contains all of these texts.
    ///
    /// # Panics
    /// When the assertion fails.
    #[track_caller]
    pub fn says<'a>(self, texts: impl IntoIterator<Item = &'a str>) -> Self {
        let ran = self.ok();
        for text in texts {
            assert!(ran.out.contains(text), "{text:?} is missing\n{ran}");
        }
        ran
    }

    /// Asserts that the command failed and that its error output contains this text.
    ///
    /// # Panics
    /// When the assertion fails.
    #[track_caller]
    pub fn fails(self, text: &str) -> Self {
        assert!(self.code != 0, "it should have failed\n{self}");
        assert!(self.err.contains(text), "{text:?} is missing\n{self}");
        self
    }

    /// Asserts the whole output, except trailing whitespace.
    ///
    /// # Panics
    /// When the output differs.
    #[track_caller]
    pub fn is(self, text: &str) -> Self {
        let ran = self.ok();
        assert!(ran.out.trim_end() == text, "expected {text:?}\n{ran}");
        ran
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "$ kubectl {}\n{}{}", self.line, self.out, self.err)?;
        if self.code == 0 { Ok(()) } else { write!(f, "[exit code {}]", self.code) }
    }
}
