//! Detection of pod references to Secrets and ConfigMaps in all possible fields (upstream `podutil.VisitPodSecretNames`, `VisitPodConfigmapNames`).

use oarlock_schema::views::List;
use oarlock_schema::views::core_v1::{EnvFromSource, EnvVar, Pod, Volume};

/// Whether the pod refers to a Secret.
pub(super) fn to_secrets(pod: Pod<'_>) -> bool {
    let spec = pod.spec();
    let env = |env: List<'_, EnvVar<'_>>, from: List<'_, EnvFromSource<'_>>| {
        from.iter().any(|f| f.secret_ref().is_some())
            || env.iter().any(|e| e.value_from().is_some_and(|v| v.secret_key_ref().is_some()))
    };
    !spec.image_pull_secrets().is_empty() || any_container(pod, env) || spec.volumes().iter().any(has_secret)
}

/// Whether the pod refers to a ConfigMap.
pub(super) fn to_config_maps(pod: Pod<'_>) -> bool {
    let env = |env: List<'_, EnvVar<'_>>, from: List<'_, EnvFromSource<'_>>| {
        from.iter().any(|f| f.config_map_ref().is_some())
            || env.iter().any(|e| e.value_from().is_some_and(|v| v.config_map_key_ref().is_some()))
    };
    let in_volume = |v: Volume<'_>| {
        v.config_map().is_some() || v.projected().is_some_and(|p| p.sources().iter().any(|s| s.config_map().is_some()))
    };
    any_container(pod, env) || pod.spec().volumes().iter().any(in_volume)
}

fn any_container(pod: Pod<'_>, uses: impl Fn(List<'_, EnvVar<'_>>, List<'_, EnvFromSource<'_>>) -> bool) -> bool {
    let spec = pod.spec();
    spec.init_containers().iter().chain(spec.containers().iter()).any(|c| uses(c.env(), c.env_from()))
        || spec.ephemeral_containers().iter().any(|c| uses(c.env(), c.env_from()))
}

fn has_secret(v: Volume<'_>) -> bool {
    v.secret().is_some()
        || v.projected().is_some_and(|p| p.sources().iter().any(|s| s.secret().is_some()))
        || v.azure_file().is_some()
        || v.cephfs().is_some_and(|s| s.secret_ref().is_some())
        || v.cinder().is_some_and(|s| s.secret_ref().is_some())
        || v.flex_volume().is_some_and(|s| s.secret_ref().is_some())
        || v.rbd().is_some_and(|s| s.secret_ref().is_some())
        || v.scale_io().is_some_and(|s| s.secret_ref().is_some())
        || v.iscsi().is_some_and(|s| s.secret_ref().is_some())
        || v.storageos().is_some_and(|s| s.secret_ref().is_some())
        || v.csi().is_some_and(|s| s.node_publish_secret_ref().is_some())
}
