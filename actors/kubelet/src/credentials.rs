//! Finds registry credentials in a pod's `imagePullSecrets` (`pkg/credentialprovider`).

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use oarlock_schema::views::core_v1::Pod;
use serde_json::Value;

use crate::cri::v1::AuthConfig;
use crate::references::{Found, Reference};

/// Returns the Secrets named by the pod's `imagePullSecrets`.
pub(crate) fn needs(pod: Pod<'_>) -> impl Iterator<Item = Reference> {
    pod.spec().image_pull_secrets().iter().map(|secret| Reference::secret(secret.name()))
}

/// Returns the credentials to try for an image, the most specific first. Missing and unreadable Secrets are skipped, as upstream does.
pub(crate) fn for_image(pod: Pod<'_>, found: &Found, image: &str) -> Vec<AuthConfig> {
    let mut all: BTreeMap<String, AuthConfig> = BTreeMap::new();
    for secret in needs(pod) {
        let Ok(Some(data)) = found.data(&secret, true) else { continue };
        for (key, content) in data.files() {
            let Ok(content) = serde_json::from_slice::<Value>(&content) else { continue };
            let entries = match key {
                ".dockerconfigjson" => content.get("auths").cloned().unwrap_or_default(),
                ".dockercfg" => content,
                _ => continue,
            };
            for (server, entry) in entries.as_object().into_iter().flatten() {
                if let Some(auth) = read(server, entry) {
                    all.entry(location(server)).or_insert(auth);
                }
            }
        }
    }
    let image = full_name(image);
    // Longer keys sort after their prefixes.
    all.into_iter().rev().filter(|(key, _)| matches(key, &image)).map(|(_, auth)| auth).collect()
}

fn read(server: &str, entry: &Value) -> Option<AuthConfig> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
    let mut auth = AuthConfig {
        username: text("username"),
        password: text("password"),
        server_address: server.to_owned(),
        identity_token: text("identitytoken"),
        registry_token: text("registrytoken"),
        auth: String::new(),
    };
    let both = STANDARD.decode(text("auth").trim_end_matches('\0')).ok().and_then(|both| String::from_utf8(both).ok());
    if let Some((name, password)) = both.as_deref().and_then(|both| both.split_once(':')) {
        auth.username = name.to_owned();
        auth.password = password.trim_end_matches('\0').to_owned();
    }
    let empty = auth.username.is_empty() && auth.identity_token.is_empty() && auth.registry_token.is_empty();
    (!empty).then_some(auth)
}

/// Returns host and path of a server, without the registry API's version.
fn location(server: &str) -> String {
    let bare = server.strip_prefix("https://").or_else(|| server.strip_prefix("http://")).unwrap_or(server);
    let bare = bare.trim_end_matches('/');
    let bare = bare.strip_suffix("/v1").or_else(|| bare.strip_suffix("/v2")).unwrap_or(bare);
    match bare {
        "index.docker.io" => "docker.io".to_owned(),
        other => other.to_owned(),
    }
}

/// Returns the image's name with the default registry of a short name, and without tag and digest.
fn full_name(image: &str) -> String {
    let image = image.split('@').next().unwrap_or(image);
    let name = match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    };
    match name.split_once('/') {
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => name.to_owned(),
        Some(_) => format!("docker.io/{name}"),
        None => format!("docker.io/library/{name}"),
    }
}

/// Whether a key matches the image's host (each part may be a pattern) and is a prefix of its path.
fn matches(key: &str, image: &str) -> bool {
    let split = |text: &str| {
        let (host, path) = text.split_once('/').unwrap_or((text, ""));
        (host.to_owned(), path.to_owned())
    };
    let ((key_host, key_path), (host, path)) = (split(key), split(image));
    let (key_parts, parts): (Vec<&str>, Vec<&str>) = (key_host.split('.').collect(), host.split('.').collect());
    key_parts.len() == parts.len()
        && key_parts.iter().zip(parts).all(|(key, part)| matches_pattern(key, part))
        && path.starts_with(&key_path)
}

/// Whether a text matches a pattern in which `*` stands for any characters.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|text| {
            let mut ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            ends.any(|at| text.get(at..).is_some_and(|text| matches_pattern(rest, text)))
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use oarlock_client::decode;
    use oarlock_schema::type_of_kind;
    use serde_json::json;

    use super::*;
    use crate::downward;

    #[test]
    fn the_most_specific_credentials_of_the_registry_come_first() {
        let config = json!({"auths": {
            "https://index.docker.io/v1/": {"auth": STANDARD.encode("hub:one")},
            "127.0.0.1:5000": {"username": "lab", "password": "two"},
            "127.0.0.1:5000/team": {"username": "team", "password": "three"},
            "*.example.com": {"identitytoken": "four"},
            "empty.example.com": {},
        }});
        let secret =
            json!({"metadata": {"name": "keys"}, "data": {".dockerconfigjson": STANDARD.encode(config.to_string())}});
        let secret = decode(type_of_kind("", "v1", "Secret").unwrap(), secret.to_string().as_bytes()).unwrap();
        let pod = json!({"spec": {"imagePullSecrets": [{"name": "keys"}, {"name": "missing"}]}});
        let pod = decode(type_of_kind("", "v1", "Pod").unwrap(), pod.to_string().as_bytes()).unwrap();
        let mut found = Found::default();
        found.insert(Reference::secret("keys"), Ok(Arc::new(secret)));
        let names = |image: &str| {
            let all = for_image(downward::pod(&pod), &found, image);
            all.into_iter().map(|auth| format!("{}{}", auth.username, auth.identity_token)).collect::<Vec<_>>()
        };
        assert_eq!(names("nginx"), ["hub"]);
        assert_eq!(names("bitnami/nginx:1"), ["hub"]);
        assert_eq!(names("127.0.0.1:5000/team/x:1"), ["team", "lab"]);
        assert_eq!(names("127.0.0.1:5000/other/x@sha256:1"), ["lab"]);
        assert_eq!(names("a.example.com/x"), ["four"]);
        assert!(names("a.b.example.com/x").is_empty() && names("quay.io/x").is_empty());
    }
}
