//! Writes the type graph, the resource rows and the typed views from upstream's facts (`data/v1.35.json`) and Oarlock's own (`data/oarlock.dev.json`).
#![expect(clippy::indexing_slicing, reason = "a build script may stop the build")]

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::Path;

#[path = "build/facts.rs"]
mod facts;
#[path = "src/name_hash.rs"]
mod name_hash;
#[path = "build/views.rs"]
mod views;

use facts::{Facts, Type};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=data");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=src/name_hash.rs");
    let mut facts: Facts = serde_json::from_str(&std::fs::read_to_string("data/v1.35.json")?)?;
    facts.extend(serde_json::from_str(&std::fs::read_to_string("data/oarlock.dev.json")?)?);
    let out = std::env::var("OUT_DIR")?;
    std::fs::write(Path::new(&out).join("facts.rs"), facts::write(&facts)?)?;
    std::fs::write(Path::new(&out).join("views.rs"), views::write(&facts)?)?;
    Ok(())
}
