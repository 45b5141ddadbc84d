//! The projected volume with an account's token, the cluster's CA and the namespace (KEP-1205).

use oarlock_meta::names;
use oarlock_runtime::rng;
use oarlock_schema::views::core_v1::{ContainerMut, PodMut, VolumeMountMut, VolumeMut};
use oarlock_schema::{Struct, Value};

use crate::plugins::node;

const PREFIX: &str = "kube-api-access-";
const PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The lifetime of injected tokens: an hour and seven seconds, to tell them apart from explicitly requested tokens.
const TOKEN_SECONDS: i64 = 3607;
const MODE: i64 = 0o644;

/// Templates of the volume and its mount, without their names.
#[derive(Debug)]
pub(super) struct Token {
    volume: Option<Struct>,
    mount: Option<Struct>,
}

impl Token {
    pub(super) fn new() -> Self {
        Self { volume: volume(), mount: mount() }
    }

    /// Mounts the token into every container that has no mount at the token's path.
    pub(super) fn mount(&self, pod: &mut PodMut<'_>) {
        let own = pod
            .read()
            .spec()
            .volumes()
            .iter()
            .map(|v| v.name())
            .find(|name| name.starts_with(PREFIX))
            .map(str::to_owned);
        let name = own.clone().unwrap_or_else(|| names::generate_name(PREFIX, &mut rng::u64));
        let mut spec = pod.spec_mut();
        let mut mounted = false;
        // Checked first, because the mutable accessor would create the list.
        if !spec.read().init_containers().is_empty() {
            mounted |= self.mount_into(spec.init_containers_mut(), &name);
        }
        if !spec.read().containers().is_empty() {
            mounted |= self.mount_into(spec.containers_mut(), &name);
        }
        let Some(mut volume) = self.volume.clone().filter(|_| mounted && own.is_none()) else { return };
        VolumeMut::new(&mut volume).set_name(name);
        spec.volumes_mut().push(Value::Struct(volume));
    }

    fn mount_into(&self, containers: &mut [Value], name: &str) -> bool {
        let mut mounted = false;
        for container in containers.iter_mut().filter_map(Value::as_struct_mut) {
            let mut container = ContainerMut::new(container);
            let taken = container.read().volume_mounts().iter().any(|mount| mount.mount_path() == PATH);
            let Some(mut mount) = self.mount.clone().filter(|_| !taken) else { continue };
            VolumeMountMut::new(&mut mount).set_name(name);
            container.volume_mounts_mut().push(Value::Struct(mount));
            mounted = true;
        }
        mounted
    }
}

fn mount() -> Option<Struct> {
    let mut mount = node("core/v1.VolumeMount")?;
    mount.set_name("readOnly", true);
    mount.set_name("mountPath", PATH);
    Some(mount)
}

fn volume() -> Option<Struct> {
    let mut token = node("core/v1.VolumeProjection")?;
    token.set_at(&["serviceAccountToken", "expirationSeconds"], TOKEN_SECONDS);
    token.set_at(&["serviceAccountToken", "path"], "token");

    let mut item = node("core/v1.KeyToPath")?;
    item.set_name("key", "ca.crt");
    item.set_name("path", "ca.crt");
    let mut authority = node("core/v1.VolumeProjection")?;
    authority.set_at(&["configMap", "name"], "kube-root-ca.crt");
    authority.set_at(&["configMap", "items"], [Value::Struct(item)].into_iter().collect::<Value>());

    let mut file = node("core/v1.DownwardAPIVolumeFile")?;
    file.set_name("path", "namespace");
    file.set_at(&["fieldRef", "apiVersion"], "v1");
    file.set_at(&["fieldRef", "fieldPath"], "metadata.namespace");
    let mut namespace = node("core/v1.VolumeProjection")?;
    namespace.set_at(&["downwardAPI", "items"], [Value::Struct(file)].into_iter().collect::<Value>());

    let mut volume = node("core/v1.Volume")?;
    let sources = [token, authority, namespace].into_iter().map(Value::Struct).collect::<Value>();
    volume.set_at(&["projected", "sources"], sources);
    volume.set_at(&["projected", "defaultMode"], MODE);
    Some(volume)
}
