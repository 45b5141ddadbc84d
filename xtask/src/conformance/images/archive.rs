//! An archive of images as `docker save` writes it, which containerd imports.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::tool::output;

/// One image: layers, the lowest first.
pub(crate) struct Image {
    pub(crate) names: Vec<String>,
    pub(crate) layers: Vec<PathBuf>,
    /// The `config` object of an image's configuration.
    pub(crate) config: Value,
}

/// Writes an archive, by way of an empty folder of its own. It gets its name when it is whole.
pub(crate) fn write(folder: &Path, images: &[Image], archive: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    // Each layer once, whatever number of images is made of it.
    let mut digests: BTreeMap<&Path, String> = BTreeMap::new();
    let mut manifest = Vec::new();
    for image in images {
        let mut own = Vec::new();
        for layer in &image.layers {
            if !digests.contains_key(layer.as_path()) {
                digests.insert(layer, pack(layer, folder)?);
            }
            own.extend(digests.get(layer.as_path()).cloned());
        }
        let (file, config) = configuration(image, &own);
        fs::write(folder.join(&file), config)?;
        let layers: Vec<String> = own.iter().map(|digest| layer_file(digest)).collect();
        manifest.push(json!({"Config": file, "RepoTags": image.names, "Layers": layers}));
    }
    fs::write(folder.join("manifest.json"), json!(manifest).to_string())?;
    let new = archive.with_extension("new");
    tar(folder, &new)?;
    fs::rename(&new, archive).with_context(|| archive.display().to_string())?;
    fs::remove_dir_all(folder)?;
    Ok(())
}

/// An image's configuration, and the file in which it is looked for.
fn configuration(image: &Image, layers: &[String]) -> (String, String) {
    let digests: Vec<String> = layers.iter().map(|digest| format!("sha256:{digest}")).collect();
    let config = json!({
        "architecture": std::env::consts::ARCH.replace("x86_64", "amd64").replace("aarch64", "arm64"), "os": "linux",
        "config": image.config, "rootfs": {"type": "layers", "diff_ids": digests},
    });
    let config = config.to_string();
    (format!("{}.json", hex(&Sha256::digest(&config))), config)
}

fn layer_file(digest: &str) -> String {
    format!("{digest}.tar")
}

/// Writes a layer into the folder, and returns its digest.
fn pack(layer: &Path, folder: &Path) -> anyhow::Result<String> {
    let new = folder.join("new.tar");
    tar(layer, &new)?;
    let digest = hex(&Sha256::digest(fs::read(&new)?));
    fs::rename(&new, folder.join(layer_file(&digest)))?;
    Ok(digest)
}

fn tar(folder: &Path, file: &Path) -> anyhow::Result<()> {
    output(Command::new("tar").arg("--numeric-owner").arg("-C").arg(folder).arg("-cf").arg(file).arg("."))?;
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _a_string_takes_all = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Image, configuration, write};

    #[test]
    fn images_share_their_layers() {
        let folder = tempfile::tempdir().unwrap();
        let [below, above] = ["below", "above"].map(|name| folder.path().join(name));
        for layer in [&below, &above] {
            std::fs::create_dir(layer).unwrap();
            std::fs::write(layer.join("file"), layer.display().to_string()).unwrap();
        }
        let image = |name: &str, layers| Image { names: vec![name.to_owned()], layers, config: json!({}) };
        let images = [image("r/a:1", vec![below.clone()]), image("r/b:1", vec![below, above])];
        let archive = folder.path().join("images.tar");
        write(&folder.path().join("scratch"), &images, &archive).unwrap();
        let out = folder.path().join("out");
        std::fs::create_dir(&out).unwrap();
        super::output(std::process::Command::new("tar").arg("-C").arg(&out).arg("-xf").arg(&archive)).unwrap();
        let manifest: Value =
            serde_json::from_str(&std::fs::read_to_string(out.join("manifest.json")).unwrap()).unwrap();
        assert_eq!(manifest[0]["Layers"][0], manifest[1]["Layers"][0]);
        assert_eq!(std::fs::read_dir(&out).unwrap().count(), 5, "two layers, two configurations, the manifest");
        let layer = manifest[1]["Layers"][1].as_str().unwrap();
        let config = std::fs::read_to_string(out.join(manifest[1]["Config"].as_str().unwrap())).unwrap();
        let config: Value = serde_json::from_str(&config).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"][1], format!("sha256:{}", layer.trim_end_matches(".tar")));
        assert!(out.join(layer).is_file());
    }

    #[test]
    fn a_configuration_is_called_by_its_digest() {
        let image = |user| Image { names: Vec::new(), layers: Vec::new(), config: json!({"User": user}) };
        let (a, b) = (configuration(&image("1"), &[]), configuration(&image("2"), &[]));
        assert_ne!(a.0, b.0);
        assert_eq!(a, configuration(&image("1"), &[]));
    }
}
