//! Validates image names and adds the default tag (`github.com/distribution/reference`).

/// An image name that is no reference. The text is the message of the container's waiting state `InvalidImageName`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("couldn't parse image name \"{image}\": {fault}")]
pub(crate) struct InvalidImageName {
    /// The name as the pod's specification has it.
    image: String,
    /// What is wrong with the name.
    #[source]
    fault: ReferenceFault,
}

/// What is wrong with an image name; texts of `github.com/distribution/reference`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReferenceFault {
    /// The name, its tag or its digest does not have the form of a reference.
    #[error("invalid reference format")]
    Format,
    /// The repository's name would be a reference in lower case.
    #[error("invalid reference format: repository name ({0}) must be lowercase")]
    UpperCase(String),
}

/// Returns the name with its tag or digest, or with the tag `latest` where the name has neither.
///
/// # Errors
/// When the name is no reference.
pub(crate) fn complete(image: &str) -> Result<String, InvalidImageName> {
    let invalid = |fault| Err(InvalidImageName { image: image.to_owned(), fault });
    let (named, digest) = match image.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (image, None),
    };
    if digest.is_some_and(|digest| !is_digest(digest)) {
        return invalid(ReferenceFault::Format);
    }
    // A colon after the last slash begins a tag; an earlier one begins a port.
    let (name, tag) = match named.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (named, None),
    };
    if tag.is_some_and(|tag| !is_tag(tag)) {
        return invalid(ReferenceFault::Format);
    }
    let path = match name.split_once('/') {
        Some((domain, path)) if is_domain(domain) => path,
        _ => name,
    };
    if path.chars().any(|char| char.is_ascii_uppercase()) && is_path(&path.to_ascii_lowercase()) {
        return invalid(ReferenceFault::UpperCase(path.to_owned()));
    }
    if !is_path(path) || name.len() > 255 {
        return invalid(ReferenceFault::Format);
    }
    Ok(if tag.is_none() && digest.is_none() { format!("{image}:latest") } else { image.to_owned() })
}

/// Whether the first part of a name is a registry host.
fn is_domain(part: &str) -> bool {
    let (host, port) = part.rsplit_once(':').unwrap_or((part, "0"));
    let known = part.contains(['.', ':']) || part == "localhost" || part.chars().any(|char| char.is_ascii_uppercase());
    let label = |label: &str| {
        !label.is_empty()
            && label.chars().all(|char| char.is_ascii_alphanumeric() || char == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let bracketed = host.starts_with('[') && host.ends_with(']');
    known && (bracketed || host.split('.').all(label)) && !port.is_empty() && port.chars().all(|c| c.is_ascii_digit())
}

fn is_path(path: &str) -> bool {
    path.split('/').all(|part| {
        let mut separators = part.split(|char: char| char.is_ascii_lowercase() || char.is_ascii_digit());
        let (first, last) = (separators.next() == Some(""), separators.next_back().is_some_and(str::is_empty));
        let between = |text: &str| matches!(text, "" | "." | "_" | "__") || text.chars().all(|char| char == '-');
        first && last && separators.all(between)
    })
}

fn is_tag(tag: &str) -> bool {
    let word = |char: char| char.is_ascii_alphanumeric() || char == '_';
    (1..=128).contains(&tag.len())
        && tag.starts_with(word)
        && tag.chars().all(|char| word(char) || matches!(char, '.' | '-'))
}

/// Whether a text is a digest: algorithm, colon and hexadecimal digits.
pub(crate) fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(kind, hex)| {
        kind.starts_with(|char: char| char.is_ascii_alphabetic())
            && hex.len() >= 32
            && hex.chars().all(|char| char.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::{ReferenceFault, complete};

    #[test]
    fn names_are_completed_or_refused() {
        let digest = format!("nginx@sha256:{}", "a".repeat(64));
        let good = [
            ("nginx", "nginx:latest"),
            ("nginx:1", "nginx:1"),
            ("a", "a:latest"),
            ("localhost/pause:3.9", "localhost/pause:3.9"),
            ("registry.k8s.io/e2e-test-images/agnhost", "registry.k8s.io/e2e-test-images/agnhost:latest"),
            ("127.0.0.1:5000/lab/x", "127.0.0.1:5000/lab/x:latest"),
            ("a__b/c--d.e", "a__b/c--d.e:latest"),
            (&digest, &digest),
        ];
        for (image, wanted) in good {
            assert_eq!(complete(image).as_deref(), Ok(wanted), "{image}");
        }
        for image in ["", "Nginx", "a..b", "a/", "/a", "a:", "a:b c", "a b", "-a", "a-", "a@sha256:1", "x:y:z"] {
            let error = complete(image).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("couldn't parse image name \"{image}\": invalid reference format")),
                "{error}"
            );
        }
        let fault = |image| complete(image).unwrap_err().fault;
        assert_eq!(fault("Nginx").to_string(), "invalid reference format: repository name (Nginx) must be lowercase");
        assert_eq!(fault("localhost/Nginx"), ReferenceFault::UpperCase("Nginx".to_owned()));
    }
}
