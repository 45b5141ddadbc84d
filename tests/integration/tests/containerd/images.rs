//! Images without a registry: archives made of the machine's own busybox.

use std::fmt::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The image of sandboxes.
pub(crate) const PAUSE: &str = "localhost/pause:1";
/// The image of containers: busybox with every applet in `/bin`.
pub(crate) const BUSYBOX: &str = "localhost/busybox:1";
/// The images of Deployments in tests that also run with simulated containers.
const PAUSES: [&str; 2] = ["registry.k8s.io/pause:3.9", "registry.k8s.io/pause:3.10"];

/// Writes an archive (`docker save`) with these images into `dir`.
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
    // The stand-in for the pause program ends on SIGTERM, as the real program does.
    let pause = json!(["sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 2147483647 & wait; done"]);
    let pauses = [&[PAUSE][..], &PAUSES].concat();
    pack(dir, "images", &root, &[(&pauses, pause), (&[BUSYBOX], json!(["sh"]))])
}

/// Writes an archive with an image of this program and the libraries it needs.
pub(crate) fn of_program(dir: &Path, name: &str, program: &Path) -> PathBuf {
    let root = dir.join("program");
    std::fs::create_dir_all(&root).unwrap();
    std::fs::copy(program, root.join("program")).unwrap();
    let needs = Command::new("ldd").arg(program).output().unwrap();
    assert!(needs.status.success(), "ldd {}: {}", program.display(), String::from_utf8_lossy(&needs.stderr));
    let needs = String::from_utf8(needs.stdout).unwrap();
    for library in needs.split_whitespace().filter(|word| word.starts_with('/')) {
        let inside = root.join(library.trim_start_matches('/'));
        std::fs::create_dir_all(inside.parent().unwrap()).unwrap();
        std::fs::copy(library, inside).unwrap();
    }
    pack(dir, "program-image", &root, &[(&[name], json!(["/program"]))])
}

/// An archive of images that share one layer: their names, and what each runs.
fn pack(dir: &Path, name: &str, root: &Path, images: &[(&[&str], Value)]) -> PathBuf {
    let out = dir.join(format!("{name}.d"));
    std::fs::create_dir(&out).unwrap();
    tar(root, &out.join("layer.tar"));
    let layer = digest(&out.join("layer.tar"));
    let mut manifest = Vec::new();
    for (names, command) in images {
        let config = json!({
            "architecture": std::env::consts::ARCH.replace("x86_64", "amd64").replace("aarch64", "arm64"), "os": "linux",
            "config": {"Env": ["PATH=/bin"], "Cmd": command, "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
        });
        let file = format!("{}.json", hex(&Sha256::digest(config.to_string())));
        std::fs::write(out.join(&file), config.to_string()).unwrap();
        manifest.push(json!({"Config": file, "RepoTags": names, "Layers": ["layer.tar"]}));
    }
    std::fs::write(out.join("manifest.json"), json!(manifest).to_string()).unwrap();
    let archive = dir.join(format!("{name}.tar"));
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
