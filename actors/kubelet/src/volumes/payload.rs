//! Computes the files of volumes that project API objects.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use oarlock_schema::views::List;
use oarlock_schema::views::core_v1::{DownwardAPIVolumeFile, KeyToPath, Pod, VolumeProjection};

use crate::downward::{self, Surroundings};
use crate::pod_error::PodError;
use crate::references::{Found, Kind, Reference, TokenWish};

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    pub(super) data: Vec<u8>,
    /// Permission bits.
    pub(super) mode: u32,
    /// User that owns the file, if other than this process's.
    pub(super) owner: Option<u32>,
}

/// Files by path in the volume.
pub(super) type Payload = BTreeMap<PathBuf, File>;

/// Returns the files of a ConfigMap or Secret: one for each key, or those of `items`.
///
/// # Errors
/// When the object or a key is missing; upstream's text.
pub(super) fn of_object(
    reference: &Reference,
    items: List<'_, KeyToPath<'_>>,
    mode: u32,
    optional: bool,
    found: &Found,
) -> Result<Payload, PodError> {
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
                return Err(PodError::NotReady(format!("references non-existent secret key: {}", item.key())));
            }
            None => {
                return Err(PodError::NotReady(format!(
                    "configmap references non-existent config key: {}",
                    item.key()
                )));
            }
        }
    }
    Ok(payload)
}

/// Returns the files of a downward API volume.
///
/// # Errors
/// When a field is missing; upstream's text.
pub(super) fn of_pod(
    pod: Pod<'_>,
    items: List<'_, DownwardAPIVolumeFile<'_>>,
    mode: u32,
    around: &Surroundings,
) -> Result<Payload, PodError> {
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

/// Adds the files of one source of a projected volume.
///
/// # Errors
/// When the source cannot be projected; upstream's text.
pub(super) fn of_source(
    source: VolumeProjection<'_>,
    pod: Pod<'_>,
    mode: u32,
    around: &Surroundings,
    (found, tokens): (&Found, &Tokens),
) -> Result<Payload, PodError> {
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
        let missing = |why: &str| PodError::NotReady(why.to_owned());
        let wish = wish(pod, source).ok_or_else(|| missing("no token is wished for"))?;
        let data = tokens.get(&wish).ok_or_else(|| missing("a token was needed that nobody asked for"))?.clone()?;
        let owner = common_user(pod);
        let group = pod.spec().security_context().and_then(|context| context.fs_group());
        // The group gets its permissions later, with the whole volume.
        let mode = if owner.is_some() || group.is_some() { 0o600 } else { mode };
        let file = File { data: data.as_bytes().to_vec(), mode, owner };
        return Ok(Payload::from([(clean(token.path()), file)]));
    }
    if source.cluster_trust_bundle().is_some() {
        return Err(PodError::Invalid("clusterTrustBundle projections are not supported by this kubelet".to_owned()));
    }
    if source.pod_certificate().is_some() {
        return Err(PodError::Invalid("podCertificate projections are not supported by this kubelet".to_owned()));
    }
    Ok(Payload::new())
}

/// Requested tokens, or the errors of their requests.
pub(super) type Tokens = std::collections::HashMap<TokenWish, Result<std::sync::Arc<str>, PodError>>;

/// Returns the token that a source asks for, if it is a token source.
pub(super) fn wish(pod: Pod<'_>, source: VolumeProjection<'_>) -> Option<TokenWish> {
    let token = source.service_account_token()?;
    let meta = pod.metadata();
    Some(TokenWish {
        namespace: meta.namespace().into(),
        account: pod.spec().service_account_name().into(),
        pod: (meta.name().into(), meta.uid().into()),
        audience: token.audience().into(),
        lifetime: token.expiration_seconds().unwrap_or(crate::references::DEFAULT_LIFETIME_SECONDS),
    })
}

/// Returns the user as which all containers run, if they have one in common (upstream `FsUserFrom`).
pub(super) fn common_user(pod: Pod<'_>) -> Option<u32> {
    let spec = pod.spec();
    let containers = spec.init_containers().iter().chain(spec.containers().iter());
    let mut users = containers.map(|container| crate::security_context::run_as_user(pod, container));
    let first = users.next()??;
    users.all(|user| user == Some(first)).then(|| u32::try_from(first).ok())?
}

/// Converts permission bits from the API's number.
pub(super) fn permissions(mode: i64) -> u32 {
    u32::try_from(mode).unwrap_or(0) & 0o777
}

/// Cleans a relative path like Go's `filepath.Clean`; a later check refuses `..`.
fn clean(path: &str) -> PathBuf {
    Path::new(path).components().filter(|part| !matches!(part, Component::CurDir)).collect()
}
