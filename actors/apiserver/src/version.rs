//! The answer to `/version`.

use oarlock_schema::version::build_info;

/// Builds the version document.
#[must_use]
pub(crate) fn document() -> String {
    let build = build_info();
    let previous = build.minor.parse::<u32>().map_or(0, |minor| minor.saturating_sub(1));
    serde_json::json!({
        "major": build.major,
        "minor": build.minor,
        "emulationMajor": build.major,
        "emulationMinor": build.minor,
        "minCompatibilityMajor": build.major,
        "minCompatibilityMinor": previous.to_string(),
        "gitVersion": build.git_version,
        "gitCommit": build.git_commit,
        "gitTreeState": build.git_tree_state,
        "buildDate": build.build_date,
        "goVersion": build.go_version,
        "compiler": build.compiler,
        "platform": build.platform,
    })
    .to_string()
}
