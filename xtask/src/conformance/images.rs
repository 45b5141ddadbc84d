//! The images that the suite asks for, made of Debian's packages and of upstream's programs, as one archive that containerd imports: no registry and no docker
//! is needed. What is in an image is what the specs use of the one whose name it bears.

pub(crate) mod archive;
mod layers;

use std::path::PathBuf;

use serde_json::{Value, json};

use self::archive::Image;
use self::layers::Layers;
use super::place::home;
use super::programs::Programs;
use crate::peer;
use crate::tool::say;

/// The image of sandboxes.
pub(crate) const PAUSE: &str = "registry.k8s.io/pause:3.10.1";
/// Counts up whenever an image changes: an archive that was made before is then made anew.
const RECIPES: u32 = 1;
/// The search path of programs in the images.
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The archive, which is made once.
///
/// # Errors
/// When a package cannot be had or a program does not build.
pub(crate) fn provide(programs: &Programs) -> anyhow::Result<PathBuf> {
    let archive = home().join(format!("images-{}-{RECIPES}.tar", peer::KUBERNETES));
    if !archive.exists() {
        say("making the images of the suite");
        let scratch = home().join("images");
        let layers = Layers::new(&scratch, programs)?;
        archive::write(&scratch.join("archive"), &images(&layers)?, &archive)?;
    }
    Ok(archive)
}

fn images(layers: &Layers<'_>) -> anyhow::Result<Vec<Image>> {
    let debian = layers.debian()?;
    let (pause, busybox, agnhost) = (layers.pause()?, layers.busybox()?, layers.agnhost(&debian)?);
    Ok(vec![
        image(
            vec!["pause:3.10".to_owned(), "pause:3.10.1".to_owned()],
            vec![pause],
            json!({"User": "65535:65535", "Entrypoint": ["/pause"]}),
        ),
        image(test(&["busybox:1.37.0-1", "busybox:1.36.1-1"]), vec![busybox.clone()], json!({"Cmd": ["sh"]})),
        image(test(&["nonroot:1.4"]), vec![busybox.clone()], json!({"User": "1234", "Cmd": ["sh"]})),
        image(test(&["nonewprivs:1.3"]), over(&[&busybox], layers.set_user_id()?), json!({"Cmd": ["nnp"]})),
        image(
            test(&["regression-issue-74839:1.4"]),
            over(&[&busybox], layers.programs("regression", &[("regression-issue-74839", "regression-issue-74839")])?),
            json!({"Entrypoint": ["/regression-issue-74839"]}),
        ),
        image(
            test(&["sample-apiserver:1.29.2"]),
            over(&[&busybox], layers.programs("sample-apiserver", &[("sample-apiserver", "sample-apiserver")])?),
            json!({"Entrypoint": ["/sample-apiserver"]}),
        ),
        image(
            vec!["etcd:3.6.6-0".to_owned()],
            over(&[&busybox], layers.programs("etcd", &[("etcd", "usr/local/bin/etcd")])?),
            json!({}),
        ),
        image(
            test(&["agnhost:2.59", "agnhost:2.55"]),
            over(&[&debian], agnhost.clone()),
            json!({"Entrypoint": ["/agnhost"], "Cmd": ["pause"]}),
        ),
        image(
            test(&["kitten:1.7"]),
            over(&[&debian, &agnhost], layers.page("kitten")?),
            json!({"Entrypoint": ["/agnhost"], "Cmd": ["test-webserver"]}),
        ),
        image(
            test(&["nautilus:1.7"]),
            over(&[&debian, &agnhost], layers.page("nautilus")?),
            json!({"Entrypoint": ["/agnhost"], "Cmd": ["test-webserver"]}),
        ),
        image(
            test(&["nginx:1.14-4", "nginx:1.15-4"]),
            over(&[&debian], layers.nginx()?),
            json!({"Cmd": ["nginx", "-g", "daemon off;"]}),
        ),
        image(
            test(&["perl:5.26", "ipc-utils:1.3", "jessie-dnsutils:1.7"]),
            vec![debian.clone()],
            json!({"Cmd": ["bash"]}),
        ),
        image(
            test(&["resource-consumer:1.13"]),
            over(
                &[&debian],
                layers.programs(
                    "consumer",
                    &[("resource-consumer", "consumer"), ("consume-cpu", "consume-cpu/consume-cpu")],
                )?,
            ),
            json!({"Entrypoint": ["/consumer"]}),
        ),
    ])
}

fn over(below: &[&PathBuf], top: PathBuf) -> Vec<PathBuf> {
    below.iter().map(|layer| (*layer).clone()).chain([top]).collect()
}

fn image(names: Vec<String>, layers: Vec<PathBuf>, config: Value) -> Image {
    Image {
        names: names.iter().map(|name| format!("registry.k8s.io/{name}")).collect(),
        layers,
        config: with_path(config),
    }
}

fn with_path(mut config: Value) -> Value {
    if let Some(fields) = config.as_object_mut() {
        fields.insert("Env".to_owned(), json!([PATH]));
    }
    config
}

/// Names in the folder of the suite's own images.
fn test(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("e2e-test-images/{name}")).collect()
}
