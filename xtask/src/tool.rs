//! Runs other programs, and prints progress.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail, ensure};

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_path_buf()
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// The moment, on the machine's own clock.
#[expect(clippy::disallowed_methods, reason = "a chore measures real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Runs an action; returns its duration in seconds, and its result.
pub(crate) fn seconds<T>(action: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(f64, T)> {
    let start = now();
    let outcome = action()?;
    Ok((start.elapsed().as_secs_f64(), outcome))
}

/// Returns the number of processors that this process may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs a command in the workspace's folder, with this process's output.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let shown = show(command);
    say(&format!("$ {shown}"));
    let status = command.current_dir(root()).status().with_context(|| format!("{shown}: not started"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

/// Runs a command in the workspace's folder and returns what it printed; fails with that when the command does.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let (ok, text) = capture(command)?;
    ensure!(ok, "{}: {text}", show(command));
    Ok(text)
}

/// Runs a command in the workspace's folder and returns whether it succeeded with what it printed.
pub(crate) fn capture(command: &mut Command) -> anyhow::Result<(bool, String)> {
    capture_in(&root(), command)
}

/// Runs a command in a folder and returns whether it succeeded with what it printed.
pub(crate) fn capture_in(folder: &Path, command: &mut Command) -> anyhow::Result<(bool, String)> {
    let shown = show(command);
    let out = command.current_dir(folder).output().with_context(|| format!("{shown}: not started"))?;
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    Ok((out.status.success(), text))
}

/// Returns the `cargo` that called this program, without the environment variables that cargo sets for the package: they would make build scripts
/// that read them (ring's does) run again, and all crates above them compile again.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")) {
            command.env_remove(name);
        }
    }
    command
}

/// Prints a line for the person at the terminal.
#[expect(clippy::print_stdout, reason = "a chore talks to the person who runs it")]
pub(crate) fn say(line: &str) {
    println!("{line}");
}

/// Rust files that git tracks or would track.
pub(crate) fn rust_files() -> anyhow::Result<Vec<PathBuf>> {
    let text = output(Command::new("git").args(["ls-files", "-co", "--exclude-standard", "*.rs"]))?;
    Ok(text.lines().map(PathBuf::from).filter(|p| root().join(p).exists()).collect())
}

fn show(command: &Command) -> String {
    let words: Vec<_> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(|w| w.to_string_lossy()).collect();
    words.join(" ")
}
