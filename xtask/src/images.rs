//! `cargo xtask images`: what compose.yaml needs, where no registry can be reached: Debian's packages, etcd and nats-server from their Go modules, and a program
//! that cargo has built.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::peer;
use crate::tool::{capture, output, root, run as exec, say};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program to be put into the image.
    #[arg(long, default_value = "target/dist/oarlock", value_name = "FILE")]
    program: PathBuf,
    /// Make the image of the profiles `observe` and `vmui` too (five minutes more, for Jaeger).
    #[arg(long)]
    observe: bool,
}

/// Debian's base, under the name by which the Dockerfile asks for it.
const BASE: &str = "debian:bookworm-slim";
/// A node's packages, as the Dockerfile has them.
const PACKAGES: &str = "oarlock-node-packages:local";
const WITH_HAPROXY: &str = "oarlock-haproxy:local";
const ETCD: &str = "oarlock-etcd:local";
/// NATS with busybox, as in upstream's image, for the health check.
const NATS: &str = "oarlock-nats-busybox:local";
const PROGRAM: &str = "oarlock-program:local";
/// Prometheus, Jaeger and VictoriaMetrics, each at the path that it has in upstream's image, with busybox for the health checks.
const OBSERVE: &str = "oarlock-observe:local";

/// Makes the images, and writes their names to `.oarlock/compose/images.env`.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let scratch = root().join("target/images");
    fs::create_dir_all(&scratch)?;
    if !is_there(BASE)? {
        import(&debian(&scratch, "base", "ca-certificates")?, BASE)?;
    }
    if !is_there(WITH_HAPROXY)? {
        import(&debian(&scratch, "haproxy", "haproxy")?, WITH_HAPROXY)?;
    }
    if !is_there(PACKAGES)? {
        import(
            &debian(&scratch, "node", "ca-certificates,containerd,containernetworking-plugins,iptables,runc")?,
            PACKAGES,
        )?;
    }
    let etcd = peer::build(&peer::folder(), &["etcd", "etcdctl"])?;
    import(&programs(fresh(&scratch, "programs")?, &[etcd.join("etcd"), etcd.join("etcdctl")])?, ETCD)?;
    let nats = peer::build(&peer::folder(), &["nats-server"])?;
    if !is_there(NATS)? {
        import(&programs(debian(&scratch, "nats", "busybox")?, &[nats.join("nats-server")])?, NATS)?;
    }
    let program = programs(fresh(&scratch, "programs")?, &[root().join(&args.program)])?;
    // The Dockerfile strips its programs too: debug lines are five sixths of the size.
    let name = args.program.file_name().context("a program has a name")?;
    exec(Command::new("strip").arg(program.join("usr/local/bin").join(name)))?;
    import(&program, PROGRAM)?;
    let (program, packages) = (format!("PROGRAM={PROGRAM}"), format!("PACKAGES={PACKAGES}"));
    for (image, target) in [("oarlock:latest", &[][..]), ("oarlock-node:latest", &["--target", "node"])] {
        let mut build = Command::new("docker");
        build.env("DOCKER_BUILDKIT", "1").args(["build", "--build-arg", &program, "--build-arg", &packages]);
        exec(build.args(target).args(["-t", image, "."]))?;
    }
    let names = root().join(".oarlock/compose/images.env");
    fs::create_dir_all(names.parent().context("it has a folder")?)?;
    let mut text = format!("ETCD_IMAGE={ETCD}\nNATS_IMAGE={NATS}\nHAPROXY_IMAGE={WITH_HAPROXY}\n");
    if args.observe {
        observe(&scratch)?;
        for variable in ["PROMETHEUS_IMAGE", "JAEGER_IMAGE", "VICTORIA_METRICS_IMAGE"] {
            writeln!(text, "{variable}={OBSERVE}")?;
        }
    }
    fs::write(&names, text)?;
    say("docker compose --env-file .oarlock/compose/images.env up");
    Ok(())
}

/// Makes the image of what observes the control plane: Prometheus from Debian's package, the others from their Go modules.
fn observe(scratch: &Path) -> anyhow::Result<()> {
    if is_there(OBSERVE)? {
        return Ok(());
    }
    exec(&mut Command::new("tests/install-prometheus"))?;
    let prometheus = output(Command::new("which").arg("prometheus"))?;
    let built = peer::build(&peer::folder(), &["jaeger", "victoria-metrics"])?;
    let folder = debian(scratch, "observe", "busybox")?;
    for (program, place) in [
        (PathBuf::from(prometheus.trim()), "bin/prometheus"),
        (built.join("jaeger"), "cmd/jaeger/jaeger-linux"),
        (built.join("victoria-metrics"), "victoria-metrics-prod"),
    ] {
        let place = folder.join(place);
        fs::create_dir_all(place.parent().context("a program has a folder")?)?;
        fs::copy(&program, place).with_context(|| program.display().to_string())?;
    }
    import(&folder, OBSERVE)
}

fn is_there(image: &str) -> anyhow::Result<bool> {
    Ok(capture(Command::new("docker").args(["image", "inspect", image]))?.0)
}

/// A folder with Debian 12 and some packages.
pub(crate) fn debian(scratch: &Path, name: &str, packages: &str) -> anyhow::Result<PathBuf> {
    let folder = fresh(scratch, name)?;
    let include = format!("--include={packages}");
    exec(Command::new("debootstrap").args(["--variant=minbase", &include, "bookworm"]).arg(&folder))?;
    for waste in ["var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale"] {
        fs::remove_dir_all(folder.join(waste)).with_context(|| waste.to_owned())?;
    }
    Ok(folder)
}

/// The folder, with these programs in its /usr/local/bin.
fn programs(folder: PathBuf, files: &[PathBuf]) -> anyhow::Result<PathBuf> {
    let bin = folder.join("usr/local/bin");
    fs::create_dir_all(&bin)?;
    for file in files {
        let name = file.file_name().context("a program has a name")?;
        fs::copy(file, bin.join(name)).with_context(|| file.display().to_string())?;
    }
    Ok(folder)
}

fn fresh(scratch: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let folder = scratch.join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    Ok(folder)
}

/// Makes a folder an image. Programs are called by their names.
fn import(folder: &Path, image: &str) -> anyhow::Result<()> {
    say(&format!("{image} from {}", folder.display()));
    let mut tar = Command::new("tar").arg("-C").arg(folder).args(["-c", "."]).stdout(Stdio::piped()).spawn()?;
    let archive = tar.stdout.take().context("tar writes")?;
    let path = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let mut import = Command::new("docker");
    import.args(["import", "-c", path, "-"]).arg(image).stdin(archive);
    exec(&mut import)?;
    ensure!(tar.wait()?.success(), "tar of {} failed", folder.display());
    Ok(())
}
