//! Collects the ConfigMaps and Secrets that a pod refers to.

use std::collections::BTreeSet;

use oarlock_schema::views::core_v1::{Pod, Volume};

use super::Reference;

/// Returns the ConfigMaps and Secrets that a pod refers to anywhere: environments, volumes, pull secrets.
pub(crate) fn named_by(pod: Pod<'_>) -> BTreeSet<Reference> {
    let spec = pod.spec();
    let mut named = BTreeSet::new();
    for container in spec.init_containers().iter().chain(spec.containers().iter()) {
        named.extend(crate::environment::needs(container));
    }
    for volume in spec.volumes().iter() {
        named.extend(of_volume(volume));
    }
    named.extend(spec.image_pull_secrets().iter().map(|secret| Reference::secret(secret.name())));
    named.retain(|reference| !reference.name.is_empty());
    named
}

/// Returns the ConfigMaps and Secrets that a volume projects.
pub(crate) fn of_volume(volume: Volume<'_>) -> BTreeSet<Reference> {
    let mut named = BTreeSet::new();
    named.extend(volume.config_map().map(|source| Reference::config_map(source.name())));
    named.extend(volume.secret().map(|source| Reference::secret(source.secret_name())));
    for source in volume.projected().into_iter().flat_map(|projected| projected.sources().iter()) {
        named.extend(source.config_map().map(|source| Reference::config_map(source.name())));
        named.extend(source.secret().map(|source| Reference::secret(source.name())));
    }
    named
}
