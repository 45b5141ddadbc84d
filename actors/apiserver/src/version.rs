//! The answer to `/version`.

/// Builds the version document.
#[must_use]
pub(crate) fn document() -> String {
    let level = oarlock_schema::resources::KUBERNETES.trim_start_matches('v');
    let mut numbers = level.split('.');
    let (major, minor) = (numbers.next().unwrap_or("1"), numbers.next().unwrap_or("0"));
    let previous = minor.parse::<u32>().map_or(0, |m| m.saturating_sub(1));
    serde_json::json!({
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": previous.to_string(),
        "gitVersion": crate::config::git_version(),
        "gitCommit": option_env!("OARLOCK_COMMIT").unwrap_or("unknown"),
        "gitTreeState": "clean",
        "buildDate": option_env!("OARLOCK_BUILD_DATE").unwrap_or("1970-01-01T00:00:00Z"),
        // Clients parse these three fields; there is no Go compiler here.
        "goVersion": "rust",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, platform()),
    })
    .to_string()
}

/// Returns Go's name of this platform.
fn platform() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
