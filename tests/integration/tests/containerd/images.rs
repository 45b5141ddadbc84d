//! Images without a registry: archives made of the machine's own busybox.

use std::fmt::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use sha2::{Digest, Sha256};

/// What sandboxes are made of.
pub(crate) const PAUSE: &str = "localhost/pause:1";
/// What containers are made of: every applet in `/bin`.
pub(crate) const BUSYBOX: &str = "localhost/busybox:1";

/// Writes an archive (`docker save`) with both images into `dir`.
pub(crate) fn archive(dir: &Path, busybox: &Path) -> PathBuf {
    let root = dir.join("root");
    for part in ["bin", "tmp", "etc", "var", "proc", "sys", "dev", "www"] {
        std::fs::create_dir_all(root.join(part)).unwrap();
    }
    std::fs::set_permissions(root.join("tmp"), std::fs::Permissions::from_mode(0o1777)).unwrap();
    std::fs::copy(busybox, root.join("bin/busybox")).unwrap();
    let applets = Command::new(busybox).arg("--list").output().unwrap().stdout;
    for applet in String::from_utf8(applets).unwrap().lines().filter(|applet| *applet != "busybox") {
        symlink("busybox", root.join("bin").join(applet)).unwrap();
    }
    std::fs::write(root.join("etc/passwd"), "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
        .unwrap();
    std::fs::write(root.join("etc/group"), "root:x:0:\nnogroup:x:65534:\n").unwrap();
    let out = dir.join("archive");
    std::fs::create_dir(&out).unwrap();
    tar(&root, &out.join("layer.tar"));
    let layer = digest(&out.join("layer.tar"));
    let mut manifest = Vec::new();
    for (name, command) in [(PAUSE, json!(["sleep", "2147483647"])), (BUSYBOX, json!(["sh"]))] {
        let config = json!({
            "architecture": std::env::consts::ARCH.replace("x86_64", "amd64").replace("aarch64", "arm64"), "os": "linux",
            "config": {"Env": ["PATH=/bin"], "Cmd": command, "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
        });
        let file = format!("{}.json", hex(&Sha256::digest(config.to_string())));
        std::fs::write(out.join(&file), config.to_string()).unwrap();
        manifest.push(json!({"Config": file, "RepoTags": [name], "Layers": ["layer.tar"]}));
    }
    std::fs::write(out.join("manifest.json"), json!(manifest).to_string()).unwrap();
    let archive = dir.join("images.tar");
    tar(&out, &archive);
    archive
}

fn tar(dir: &Path, file: &Path) {
    let ran =
        Command::new("tar").args(["--owner=0", "--group=0", "-C"]).arg(dir).arg("-cf").arg(file).arg(".").output();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

fn digest(file: &Path) -> String {
    hex(&Sha256::digest(std::fs::read(file).unwrap()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
