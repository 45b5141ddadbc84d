//! The versions that every part reports: upstream's API level, with this project's own version.

use crate::resources::KUBERNETES;

/// The facts that `/version` and the metric `kubernetes_build_info` state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildInfo {
    /// Upstream's major version.
    pub major: &'static str,
    /// Upstream's minor version.
    pub minor: &'static str,
    /// Upstream's version, with this project's version as build metadata, which Helm's comparisons ignore.
    pub git_version: String,
    /// The commit that was built; `unknown` outside a release build.
    pub git_commit: &'static str,
    /// State of the source tree.
    pub git_tree_state: &'static str,
    /// Time of the build in RFC 3339; the epoch outside a release build.
    pub build_date: &'static str,
    /// Clients parse this field and the next two; there is no Go compiler here.
    pub go_version: &'static str,
    /// The compiler.
    pub compiler: &'static str,
    /// Operating system and architecture under Go's names, such as `linux/amd64`.
    pub platform: String,
}

/// Returns the `gitVersion` of every part.
#[must_use]
pub fn git_version() -> String {
    format!("{KUBERNETES}+oarlock.{}", env!("CARGO_PKG_VERSION"))
}

/// Returns the facts about this build.
#[must_use]
pub fn build_info() -> BuildInfo {
    let mut numbers = KUBERNETES.trim_start_matches('v').split('.');
    BuildInfo {
        major: numbers.next().unwrap_or("1"),
        minor: numbers.next().unwrap_or("0"),
        git_version: git_version(),
        git_commit: option_env!("OARLOCK_COMMIT").unwrap_or("unknown"),
        git_tree_state: "clean",
        build_date: option_env!("OARLOCK_BUILD_DATE").unwrap_or("1970-01-01T00:00:00Z"),
        go_version: "rust",
        compiler: "rustc",
        platform: format!("{}/{}", std::env::consts::OS, architecture()),
    }
}

/// Returns Go's name of this architecture.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
