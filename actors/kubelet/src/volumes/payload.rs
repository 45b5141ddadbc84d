//! The files of volumes that project API objects.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use oarlock_schema::views::List;
use oarlock_schema::views::core_v1::{DownwardAPIVolumeFile, KeyToPath, Pod, VolumeProjection};

use crate::downward::{self, Surroundings};
use crate::references::{Found, Kind, Reference, TokenWish};

/// A file to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    pub(super) data: Vec<u8>,
    /// Permissions.
    pub(super) mode: u32,
    /// Who owns it, if not this process.
    pub(super) owner: Option<u32>,
}

/// Files by their paths in the volume.
pub(super) type Payload = BTreeMap<PathBuf, File>;

/// The files that a ConfigMap or a Secret makes: all its keys, or those of `items`.
///
/// # Errors
/// Upstream's text: why there is no such object or key.
pub(super) fn of_object(
    reference: &Reference,
    items: List<'_, KeyToPath<'_>>,
    mode: u32,
    optional: bool,
    found: &Found,
) -> Result<Payload, String> {
    let Some(data) = found.data(reference, optional)? else { return Ok(Payload::new()) };
    let file = |data, mode| File { data, mode, owner: None };
    let mut files: BTreeMap<&str, Vec<u8>> = data.files().into_iter().collect();
    if items.is_empty() {
        return Ok(files.into_iter().map(|(key, data)| (clean(key), file(data, mode))).collect());
    }
    let mut payload = Payload::new();
    for item in items.iter() {
        match files.get_mut(item.key()) {
            Some(data) => {
                let mode = item.mode().map_or(mode, permissions);
                payload.insert(clean(item.path()), file(data.clone(), mode));
            }
            None if optional => {}
            None if reference.kind == Kind::Secret => {
                return Err(format!("references non-existent secret key: {}", item.key()));
            }
            None => return Err(format!("configmap references non-existent config key: {}", item.key())),
        }
    }
    Ok(payload)
}

/// The files of a downward API volume.
///
/// # Errors
/// Upstream's text: why there is no such field.
pub(super) fn of_pod(
    pod: Pod<'_>,
    items: List<'_, DownwardAPIVolumeFile<'_>>,
    mode: u32,
    around: &Surroundings,
) -> Result<Payload, String> {
    let mut payload = Payload::new();
    for item in items.iter() {
        let text = if let Some(field) = item.field_ref() {
            downward::metadata(pod, field.field_path())?
        } else if let Some(resource) = item.resource_field_ref() {
            downward::resource(resource, pod, None, around)?
        } else {
            String::new()
        };
        let mode = item.mode().map_or(mode, permissions);
        payload.insert(clean(item.path()), File { data: text.into_bytes(), mode, owner: None });
    }
    Ok(payload)
}

/// What one source of a projected volume adds.
///
/// # Errors
/// Upstream's text.
pub(super) fn of_source(
    source: VolumeProjection<'_>,
    pod: Pod<'_>,
    mode: u32,
    around: &Surroundings,
    (found, tokens): (&Found, &Tokens),
) -> Result<Payload, String> {
    if let Some(map) = source.config_map() {
        let reference = Reference::config_map(map.name());
        return of_object(&reference, map.items(), mode, map.optional() == Some(true), found);
    }
    if let Some(secret) = source.secret() {
        let reference = Reference::secret(secret.name());
        return of_object(&reference, secret.items(), mode, secret.optional() == Some(true), found);
    }
    if let Some(downward) = source.downward_api() {
        return of_pod(pod, downward.items(), mode, around);
    }
    if let Some(token) = source.service_account_token() {
        let wish = wish(pod, source).ok_or("no token is wished for")?;
        let data = tokens.get(&wish).ok_or("a token was needed that nobody asked for")?.clone()?;
        let owner = common_user(pod);
        let group = pod.spec().security_context().and_then(|context| context.fs_group());
        // a group gets its rights later, with the rest of the volume
        let mode = if owner.is_some() || group.is_some() { 0o600 } else { mode };
        let file = File { data: data.as_bytes().to_vec(), mode, owner };
        return Ok(Payload::from([(clean(token.path()), file)]));
    }
    if source.cluster_trust_bundle().is_some() {
        return Err("clusterTrustBundle projections are not supported by this kubelet".to_owned());
    }
    if source.pod_certificate().is_some() {
        return Err("podCertificate projections are not supported by this kubelet".to_owned());
    }
    Ok(Payload::new())
}

/// The tokens that were asked for.
pub(super) type Tokens = std::collections::HashMap<TokenWish, Result<std::sync::Arc<str>, String>>;

/// The token that a source wishes for, if it is one of a token.
pub(super) fn wish(pod: Pod<'_>, source: VolumeProjection<'_>) -> Option<TokenWish> {
    let token = source.service_account_token()?;
    let meta = pod.metadata();
    Some(TokenWish {
        namespace: meta.namespace().into(),
        account: pod.spec().service_account_name().into(),
        pod: (meta.name().into(), meta.uid().into()),
        audience: token.audience().into(),
        lifetime: token.expiration_seconds().unwrap_or(crate::references::LIFETIME),
    })
}

/// The user that all containers run as, if it is one (upstream `FsUserFrom`).
pub(super) fn common_user(pod: Pod<'_>) -> Option<u32> {
    let spec = pod.spec();
    let containers = spec.init_containers().iter().chain(spec.containers().iter());
    let mut users = containers.map(|container| crate::security_context::run_as_user(pod, container));
    let first = users.next()??;
    users.all(|user| user == Some(first)).then(|| u32::try_from(first).ok())?
}

/// Permission bits as the API writes them.
pub(super) fn permissions(mode: i64) -> u32 {
    u32::try_from(mode).unwrap_or(0) & 0o777
}

/// Go's `filepath.Clean` for relative paths; `..` is refused later.
fn clean(path: &str) -> PathBuf {
    Path::new(path).components().filter(|part| !matches!(part, Component::CurDir)).collect()
}
