//! Compiles every file of `proto/` into one module tree, without protoc.

use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Asked when it runs: a build script out of a compiler's cache may have been compiled in another folder.
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    find(&root, &mut files)?;
    files.sort();
    let descriptors = protox::compile(&files, [&root])?;
    prost_build::Config::new()
        .enable_type_names()
        .bytes(["."])
        .btree_map(["."])
        .include_file("proto.rs")
        .compile_fds(descriptors)?;
    Ok(())
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            files.push(path);
        }
    }
    Ok(())
}
