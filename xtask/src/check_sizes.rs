//! Source files stay readable: soft limit 400 lines, above 600 a line with the reason in `xtask/large-files.toml`.

use std::collections::BTreeMap;

use anyhow::{Context, bail};

use crate::tool::{root, rust_files, say};

const HARD: usize = 600;
const HARD_TESTS: usize = 1000;

/// Checks every tracked Rust file.
pub(crate) fn run() -> anyhow::Result<()> {
    let path = root().join("xtask/large-files.toml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let reasons: BTreeMap<String, String> = toml::from_str(&text).context("xtask/large-files.toml")?;
    let mut findings = Vec::new();
    let (mut files, mut lines_in_all) = (0, 0);
    for file in rust_files()? {
        let name = file.display().to_string();
        let lines = std::fs::read_to_string(root().join(&file))?.lines().count();
        files += 1;
        lines_in_all += lines;
        let limit = if name.contains("tests") { HARD_TESTS } else { HARD };
        if lines > limit && !reasons.contains_key(&name) {
            findings.push(format!(
                "{name}: {lines} lines, the limit is {limit}: split it by responsibility, or give a reason"
            ));
        }
        if lines <= limit && reasons.contains_key(&name) {
            findings.push(format!("{name}: {lines} lines need no entry in xtask/large-files.toml"));
        }
    }
    if !findings.is_empty() {
        bail!("sizes:\n  {}", findings.join("\n  "));
    }
    say(&format!("sizes: {files} files, {lines_in_all} lines"));
    Ok(())
}
