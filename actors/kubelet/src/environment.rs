//! Computes a container's environment variables and command line.
//!
//! The rules are those of `makeEnvironmentVariables` (`pkg/kubelet/kubelet_pods.go`): `envFrom` first, then `env` in its order, then the
//! variables of Services that neither has named. Upstream hands them to the runtime in the order of a Go map; here they are sorted by name.

use std::collections::{BTreeMap, BTreeSet};

use oarlock_meta::quote::quote;
use oarlock_schema::Str;
use oarlock_schema::views::core_v1::{Container, EnvVarSource, FileKeySelector, Pod};

use crate::downward::{self, Surroundings};
use crate::pod_error::PodError;
use crate::references::{Found, Reference};

mod expand;
mod file;
mod services;
#[cfg(test)]
mod tests;

pub(crate) use expand::expand;
pub(crate) use services::{ServiceView, host_port};

/// Environment variables by name.
pub(crate) type Variables = BTreeMap<String, String>;

/// Returns the ConfigMaps and Secrets that a container's environment refers to.
pub(crate) fn needs(container: Container<'_>) -> BTreeSet<Reference> {
    let mut needs = BTreeSet::new();
    for source in container.env_from().iter() {
        needs.extend(source.config_map_ref().map(|source| Reference::config_map(source.name())));
        needs.extend(source.secret_ref().map(|source| Reference::secret(source.name())));
    }
    for source in container.env().iter().filter(|var| var.value().is_empty()).filter_map(|var| var.value_from()) {
        needs.extend(source.config_map_key_ref().map(|source| Reference::config_map(source.name())));
        needs.extend(source.secret_key_ref().map(|source| Reference::secret(source.name())));
    }
    needs
}

/// Returns the environment of a container. `services` are the variables of Services ([`service_variables`]).
///
/// # Errors
/// When the container cannot be configured: the message of `CreateContainerConfigError`.
pub(crate) fn variables(
    pod: Pod<'_>,
    container: Container<'_>,
    around: &Surroundings,
    found: &Found,
    services: &Variables,
) -> Result<Variables, PodError> {
    let mut own = Variables::new();
    for source in container.env_from().iter() {
        let (reference, optional) = if let Some(map) = source.config_map_ref() {
            (Reference::config_map(map.name()), map.optional())
        } else if let Some(secret) = source.secret_ref() {
            (Reference::secret(secret.name()), secret.optional())
        } else {
            continue;
        };
        let Some(data) = found.data(&reference, optional == Some(true))? else { continue };
        for (key, value) in data.texts() {
            own.insert(format!("{}{key}", source.prefix()), value?);
        }
    }
    for var in container.env().iter() {
        let value = match var.value_from() {
            // A literal value takes precedence over any source.
            _ if !var.value().is_empty() => expand(var.value(), |name| lookup(name, &own, services)),
            Some(source) => match from_source(source, pod, container, around, found)? {
                Some(value) => value,
                None => continue,
            },
            None => String::new(),
        };
        own.insert(var.name().to_owned(), value);
    }
    for (name, value) in services {
        own.entry(name.clone()).or_insert_with(|| value.clone());
    }
    Ok(own)
}

/// Returns a variable's value from its source; `None` for a missing optional source.
fn from_source(
    source: EnvVarSource<'_>,
    pod: Pod<'_>,
    container: Container<'_>,
    around: &Surroundings,
    found: &Found,
) -> Result<Option<String>, PodError> {
    if let Some(field) = source.field_ref() {
        return downward::field(pod, field.field_path(), around).map(Some);
    }
    if let Some(resource) = source.resource_field_ref() {
        return downward::resource(resource, pod, Some(container), around).map(Some);
    }
    let (reference, key, optional) = if let Some(map) = source.config_map_key_ref() {
        (Reference::config_map(map.name()), map.key(), map.optional())
    } else if let Some(secret) = source.secret_key_ref() {
        (Reference::secret(secret.name()), secret.key(), secret.optional())
    } else if let Some(file) = source.file_key_ref() {
        return from_file(file, found);
    } else {
        return Ok(Some(String::new()));
    };
    let optional = optional == Some(true);
    let Some(data) = found.data(&reference, optional)? else { return Ok(None) };
    match data.text(key) {
        Some(value) => value.map(Some),
        None if optional => Ok(None),
        None => {
            let namespace = pod.metadata().namespace();
            Err(PodError::NotReady(format!(
                "couldn't find key {key} in {} {namespace}/{}",
                reference.kind.name(),
                reference.name
            )))
        }
    }
}

/// Returns a variable's value from a file; `None` for a missing optional file or key.
fn from_file(source: FileKeySelector<'_>, found: &Found) -> Result<Option<String>, PodError> {
    let missing = || {
        PodError::NotReady(format!("cannot find the volume {} referenced by FileKeyRef", quote(source.volume_name())))
    };
    let (path, text) = found.file(source.volume_name(), source.path()).ok_or_else(missing)?;
    // Upstream's message has no more details; the log has.
    let unreadable = |why: &dyn std::fmt::Display| {
        tracing::warn!(path = %path.display(), error = %why, "file of variables not read");
        PodError::NotReady("couldn't parse env file".to_owned())
    };
    let text = text.as_ref().map_err(|why| unreadable(why))?;
    let value = file::value(text, source.key()).map_err(|why| unreadable(&why))?;
    if !value.is_empty() {
        return Ok(Some(value));
    }
    if source.optional() == Some(true) {
        return Ok(None);
    }
    let (key, path) = (quote(source.key()), quote(&path.display().to_string()));
    Err(PodError::NotReady(format!("environment variable key {key} not found in file {path}")))
}

/// Returns volumes and paths of the variable files that a container's environment refers to.
pub(crate) fn files(container: Container<'_>) -> BTreeSet<(Str, Str)> {
    let sources = container.env().iter().filter(|var| var.value().is_empty()).filter_map(|var| var.value_from());
    let files = sources.filter_map(|source| source.file_key_ref());
    files.map(|file| (file.volume_name().into(), file.path().into())).collect()
}

/// Returns the variables with addresses of Services for a container of `namespace`: those of the namespace's Services if `links` is set, and of Service
/// `kubernetes` always.
pub(crate) fn service_variables<'a>(
    services: impl Iterator<Item = (&'a str, &'a str, &'a ServiceView)>,
    namespace: &str,
    links: bool,
) -> Variables {
    let mut seen: BTreeMap<&str, &ServiceView> = BTreeMap::new();
    for (of, name, service) in services.filter(|(_, _, service)| service.has_address()) {
        if of == namespace && links {
            seen.insert(name, service);
        } else if of == "default" && name == "kubernetes" {
            seen.entry(name).or_insert(service);
        }
    }
    seen.into_iter().flat_map(|(name, service)| service.variables(name)).collect()
}

/// Returns command and arguments with `$(NAME)` expanded; an empty list selects the image's own.
pub(crate) fn command_line(container: Container<'_>, variables: &Variables) -> (Vec<String>, Vec<String>) {
    let expanded = |text: &str| expand(text, |name| variables.get(name).cloned());
    (container.command().iter().map(expanded).collect(), container.args().iter().map(expanded).collect())
}

/// Returns the command of an exec probe. Only variables with a literal value in the spec are expanded (upstream `ExpandContainerCommandOnlyStatic`).
pub(crate) fn static_command<'a>(
    command: impl Iterator<Item = &'a str>,
    container: Container<'_>,
) -> Vec<oarlock_schema::Str> {
    let known: BTreeMap<&str, &str> = container.env().iter().map(|var| (var.name(), var.value())).collect();
    command.map(|text| expand(text, |name| known.get(name).map(|value| (*value).to_owned())).into()).collect()
}

/// Returns a `subPathExpr` with `$(NAME)` expanded.
///
/// # Errors
/// When a variable is missing or empty; upstream's text.
pub(crate) fn sub_path(expression: &str, variables: &Variables) -> Result<String, PodError> {
    let mut missing = BTreeSet::new();
    let expanded = expand(expression, |name| match variables.get(name) {
        Some(value) if !value.is_empty() => Some(value.clone()),
        _ => {
            missing.insert(name.to_owned());
            Some(String::new())
        }
    });
    if missing.is_empty() {
        return Ok(expanded);
    }
    Err(PodError::NotReady(format!("missing value for {}", missing.into_iter().collect::<Vec<_>>().join(", "))))
}

fn lookup(name: &str, own: &Variables, services: &Variables) -> Option<String> {
    own.get(name).or_else(|| services.get(name)).cloned()
}
