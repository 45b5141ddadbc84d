//! The layers of images: folders with what each adds.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::Programs;
use crate::images::debian;
use crate::peer;
use crate::tool::{output, root, run as exec};

/// Debian's packages whose programs the specs call.
const PACKAGES: &str =
    "bind9-dnsutils,ca-certificates,curl,iproute2,iptables,iputils-ping,netcat-openbsd,nginx-light,procps,stress";
/// The line of /etc/passwd in agnhost's image for the user whose groups the image defines.
const USER: &str = "user-defined-in-image:x:1000:1000::/home/user-defined-in-image:/bin/sh\n";
const GROUPS: &str = "user-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n";
const NGINX: &str = "server { listen 80 default_server; listen [::]:80; root /usr/share/nginx/html; }\n";

/// Makes layers in a folder of its own.
pub(crate) struct Layers<'a> {
    scratch: &'a Path,
    programs: &'a Programs,
    /// Upstream's source, in which files of some images are.
    source: PathBuf,
}

impl<'a> Layers<'a> {
    pub(crate) fn new(scratch: &'a Path, programs: &'a Programs) -> anyhow::Result<Self> {
        fs::create_dir_all(scratch)?;
        let source = peer::kubernetes_source(&peer::folder())?.join("test/images");
        Ok(Self { scratch, programs, source })
    }

    fn fresh(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.scratch.join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// Debian with the packages, made once: nothing else of it changes.
    pub(crate) fn debian(&self) -> anyhow::Result<PathBuf> {
        let ready = self.scratch.join("debian");
        if !ready.exists() {
            let made = debian(self.scratch, "debian-new", PACKAGES)?;
            // Debian's default site would use the port of the image's site.
            fs::remove_file(made.join("etc/nginx/sites-enabled/default"))?;
            fs::rename(made, &ready)?;
        }
        Ok(ready)
    }

    pub(crate) fn pause(&self) -> anyhow::Result<PathBuf> {
        let folder = self.fresh("pause")?;
        let source = root().join("tests/conformance/pause.c");
        output(Command::new("gcc").args(["-Os", "-static", "-s", "-o"]).arg(folder.join("pause")).arg(source))?;
        Ok(folder)
    }

    pub(crate) fn busybox(&self) -> anyhow::Result<PathBuf> {
        let built = self.scratch.join("busybox-build");
        exec(Command::new(root().join("tests/conformance/build-busybox")).arg(&built))?;
        let folder = self.fresh("busybox")?;
        for part in ["bin", "dev", "etc", "home", "proc", "root", "sys", "tmp", "usr", "var"] {
            fs::create_dir(folder.join(part))?;
        }
        fs::set_permissions(folder.join("tmp"), fs::Permissions::from_mode(0o1777))?;
        let busybox = folder.join("bin/busybox");
        fs::copy(built.join("busybox"), &busybox)?;
        let applets = output(Command::new(&busybox).arg("--list"))?;
        for applet in applets.lines().filter(|applet| *applet != "busybox") {
            symlink("busybox", folder.join("bin").join(applet))?;
        }
        fs::write(
            folder.join("etc/passwd"),
            "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n",
        )?;
        fs::write(folder.join("etc/group"), "root:x:0:\nnogroup:x:65534:\n")?;
        Ok(folder)
    }

    /// Some of upstream's programs, each with its place in the image.
    pub(crate) fn programs(&self, name: &str, programs: &[(&str, &str)]) -> anyhow::Result<PathBuf> {
        let folder = self.fresh(name)?;
        for (program, place) in programs {
            let inside = folder.join(place);
            fs::create_dir_all(inside.parent().unwrap_or(&folder))?;
            fs::copy(self.programs.tool(program), &inside).with_context(|| inside.display().to_string())?;
        }
        Ok(folder)
    }

    /// The program that shows whether a process may become another user.
    pub(crate) fn set_user_id(&self) -> anyhow::Result<PathBuf> {
        let place = "usr/local/bin/nnp";
        let folder = self.programs("nonewprivs", &[("nonewprivs", place)])?;
        fs::set_permissions(folder.join(place), fs::Permissions::from_mode(0o6755))?;
        Ok(folder)
    }

    pub(crate) fn agnhost(&self, debian: &Path) -> anyhow::Result<PathBuf> {
        let folder = self.programs("agnhost", &[("agnhost", "agnhost")])?;
        symlink("agnhost", folder.join("agnhost-2"))?;
        for file in ["localhost.crt", "localhost.key"] {
            copy(&self.source.join("agnhost/porter").join(file), &folder.join(file))?;
        }
        fs::create_dir(folder.join("uploads"))?;
        fs::create_dir(folder.join("etc"))?;
        for (file, more) in [("etc/passwd", USER), ("etc/group", GROUPS)] {
            fs::write(folder.join(file), fs::read_to_string(debian.join(file))? + more)?;
        }
        Ok(folder)
    }

    /// The page that a web server of the image shows.
    pub(crate) fn page(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.fresh(name)?;
        for file in [format!("{name}.jpg"), "data.json".to_owned()] {
            copy(&self.source.join(name).join("html").join(&file), &folder.join(&file))?;
        }
        Ok(folder)
    }

    pub(crate) fn nginx(&self) -> anyhow::Result<PathBuf> {
        let folder = self.fresh("nginx")?;
        for part in ["etc/nginx/conf.d", "var/log/nginx"] {
            fs::create_dir_all(folder.join(part))?;
        }
        fs::write(folder.join("etc/nginx/conf.d/default.conf"), NGINX)?;
        symlink("/dev/stdout", folder.join("var/log/nginx/access.log"))?;
        symlink("/dev/stderr", folder.join("var/log/nginx/error.log"))?;
        Ok(folder)
    }
}

/// Copies a file, readable to all: Go's copies are read-only.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::copy(from, to).with_context(|| from.display().to_string())?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o644))?;
    Ok(())
}
