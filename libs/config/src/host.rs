//! Facts of the machine.

/// The name that the host gives itself, as nodes are called.
///
/// # Errors
/// When the kernel does not say.
pub fn host_name() -> std::io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_lowercase())
}
