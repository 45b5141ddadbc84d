//! The minimum version of etcd.

/// The first release whose progress answers never run ahead of the events before them (etcd issue 15220, and its repair in 3.5.13's line);
/// upstream needs the same for consistent reads from its cache.
const MIN_VERSION: [u32; 3] = [3, 5, 13];

/// Why an etcd server cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum VersionError {
    /// The server's answer is no version.
    #[error("etcd says its version is \"{0}\", which is none")]
    Unreadable(String),
    /// The version is below the minimum.
    #[error("etcd {0} is too old: {major}.{minor}.{patch} or later is needed", major = MIN_VERSION[0], minor = MIN_VERSION[1], patch = MIN_VERSION[2])]
    TooOld(String),
}

/// Refuses an etcd server below the minimum version.
///
/// # Errors
/// [`VersionError`].
pub(crate) fn check(version: &str) -> Result<(), VersionError> {
    let mut numbers = version.split(['.', '-', '+']).map(|part| part.parse::<u32>().ok());
    let mut number = || numbers.next().flatten();
    let (Some(major), Some(minor), Some(patch)) = (number(), number(), number()) else {
        return Err(VersionError::Unreadable(version.to_owned()));
    };
    if [major, minor, patch] < MIN_VERSION {
        return Err(VersionError::TooOld(version.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{VersionError, check};

    #[test]
    fn old_servers_are_refused_by_their_version() {
        for good in ["3.5.13", "3.5.30", "3.6.0-rc.3", "3.6.6", "4.0.0"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in ["3.4.23", "3.5.12", "2.3.8"] {
            assert_eq!(check(bad), Err(VersionError::TooOld(bad.to_owned())));
        }
        assert_eq!(check("unknown"), Err(VersionError::Unreadable("unknown".to_owned())));
        let text = check("3.4.23").unwrap_err().to_string();
        assert_eq!(text, "etcd 3.4.23 is too old: 3.5.13 or later is needed");
    }
}
