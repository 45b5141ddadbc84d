//! Facts about the host.

/// Returns the host's name, which is the default name of its node.
///
/// # Errors
/// When the kernel does not report a name.
pub fn host_name() -> std::io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_lowercase())
}
