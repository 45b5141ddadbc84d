//! Encoding of Kubernetes names as subject tokens.

/// Error for a name that cannot be a subject token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no name on the bus: lower case letters, digits, '-' and '.', at most 253, beginning and ending with a letter or digit"
)]
pub struct BadName(pub(crate) String);

/// Returns the token of a name. Dots separate tokens, so each dot becomes `_`, which no name contains: different names have different tokens.
///
/// # Errors
/// For a text that is not a Kubernetes name (RFC 1123 subdomain).
pub(crate) fn token(name: &str) -> Result<String, BadName> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let edge = |byte: Option<u8>| byte.is_some_and(inner);
    let good = name.len() <= 253
        && edge(name.bytes().next())
        && edge(name.bytes().last())
        && name.bytes().all(|byte| inner(byte) || byte == b'-' || byte == b'.');
    if good { Ok(name.replace('.', "_")) } else { Err(BadName(name.to_owned())) }
}

/// Returns the name of a token; `None` for a token that [`token`] never makes.
pub(crate) fn from_token(text: &str) -> Option<String> {
    let name = text.replace('_', ".");
    token(&name).is_ok_and(|again| again == text).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_token_of_its_own_and_comes_back() {
        for name in ["n1", "ip-10-0-0-1.ec2.internal", "a.b", "0", "oarlock-scheduler-h1-1b85bbe1"] {
            let token = token(name).unwrap();
            assert!(!token.contains('.'), "{token}");
            assert_eq!(from_token(&token).as_deref(), Some(name));
        }
        assert_ne!(token("a.b"), token("a-b"));
    }

    #[test]
    fn what_could_reach_another_subject_is_no_name() {
        let long = "a".repeat(254);
        for name in
            ["", "*", ">", "a b", "a\n", "_", "a_b", "-a", "a-", ".a", "a.", "A", "é", "a*", "a>", long.as_str()]
        {
            assert!(token(name).is_err(), "{name:?}");
        }
        for text in ["", "*", ">", "a.b", "A", "_a"] {
            assert_eq!(from_token(text), None, "{text:?}");
        }
    }
}
