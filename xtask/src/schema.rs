//! `cargo xtask schema`: the facts of libs/schema/data, made by the Go program in xtask/schema.

use std::process::Command;

use anyhow::{Context, bail};

use crate::tool::{root, run as exec, say};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail when the committed file differs from what upstream's types say.
    #[arg(long)]
    check: bool,
}

const DATA: &str = "libs/schema/data/v1.35.json";

/// Runs the extractor.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let committed = root().join(DATA);
    let fresh = if args.check { root().join("target/schema-check.json") } else { committed.clone() };
    let mut go = Command::new("go");
    go.args(["-C", "xtask/schema", "run", ".", "-out"]).arg(&fresh).env("CGO_ENABLED", "0").env("GOTOOLCHAIN", "local");
    exec(&mut go).context("the extractor needs Go and its module proxy")?;
    if args.check && std::fs::read(&fresh)? != std::fs::read(&committed)? {
        bail!("{DATA} differs from {}: run `cargo xtask schema` and review the difference", fresh.display());
    }
    say(if args.check { "schema: the committed facts are upstream's" } else { "schema: written" });
    Ok(())
}
