//! Builds the documentation without warnings, and tests its examples.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use anyhow::Context;

use crate::compile::linted;
use crate::tool::{cargo, run as exec, target};

/// Stands in for rustdoc. `cargo test --doc` calls rustdoc for each library with what the build has made of its dependencies; `cargo doc` would check
/// all of them, third-party crates included, once more. After the examples were tested, the same words without `--test` write the documentation, of private
/// items too: whoever works here reads it.
const RUSTDOC: &str = r#"#!/bin/sh
set -e
rustdoc "$@"
words=$#
while [ "$words" -gt 0 ]; do
    word=$1; shift; words=$((words - 1))
    case $word in
    --test) ;;
    --test-run-directory) shift; words=$((words - 1)) ;;
    *) set -- "$@" "$word" ;;
    esac
done
exec rustdoc "$@" --document-private-items -D warnings -A rustdoc::private_intra_doc_links --out-dir "$OARLOCK_DOCS"
"#;

/// Tests the examples of every library's documentation and writes it to target/doc, out of what [`compile`](crate::compile::compile) has made.
///
/// # Errors
/// When an example fails, or rustdoc warns.
pub(crate) fn run() -> anyhow::Result<()> {
    let program = target().join("rustdoc");
    fs::write(&program, RUSTDOC).with_context(|| program.display().to_string())?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let mut command = cargo();
    command.env("RUSTDOC", program).env("OARLOCK_DOCS", target().join("doc"));
    exec(linted(&mut command)?.args(["test", "--quiet", "--workspace", "--doc"]))
}
