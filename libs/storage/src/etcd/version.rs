//! The minimum version of etcd.

/// The first release whose progress answers never run ahead of the events before them (etcd issue 15220, and its repair in 3.5.13's line);
/// upstream needs the same for consistent reads from its cache.
const MIN_VERSION: [u32; 3] = [3, 5, 13];

/// Refuses an etcd server below the minimum version.
///
/// # Errors
/// A message for the user.
pub(crate) fn check(version: &str) -> Result<(), String> {
    let mut numbers = version.split(['.', '-', '+']).map(|part| part.parse::<u32>().ok());
    let mut number = || numbers.next().flatten();
    let (Some(major), Some(minor), Some(patch)) = (number(), number(), number()) else {
        return Err(format!("etcd says its version is \"{version}\", which is none"));
    };
    if [major, minor, patch] < MIN_VERSION {
        let [major, minor, patch] = MIN_VERSION;
        return Err(format!("etcd {version} is too old: {major}.{minor}.{patch} or later is needed"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn old_servers_are_refused_by_their_version() {
        for good in ["3.5.13", "3.5.30", "3.6.0-rc.3", "3.6.6", "4.0.0"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in ["3.4.23", "3.5.12", "2.3.8"] {
            assert!(check(bad).unwrap_err().contains("3.5.13 or later"), "{bad}");
        }
        assert!(check("unknown").is_err());
    }
}
