//! Reads the machine's resources and identity for the node's status (upstream `pkg/kubelet/nodestatus`, cadvisor's machine info).

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use oarlock_schema::Str;

/// Largest number of pods on a node (upstream `maxPods`).
pub(crate) const MAX_PODS: u64 = 110;
/// Bytes of memory reserved from pods (upstream's hard eviction threshold `memory.available<100Mi`).
const RESERVED_MEMORY: u64 = 100 << 20;
/// Share of the disk reserved from pods, in per cent (`nodefs.available<10%`).
const RESERVED_DISK_PERCENT: u64 = 10;

/// Identity of a machine and its operating system, as `status.nodeInfo` of its Node shows it.
#[derive(Clone, Debug, Default)]
pub struct SystemInfo {
    /// `machineID`.
    pub machine_id: Str,
    /// `systemUUID`.
    pub system_uuid: Str,
    /// `bootID`.
    pub boot_id: Str,
    /// `kernelVersion`.
    pub kernel_version: Str,
    /// `osImage`.
    pub os_image: Str,
}

/// Resources found on the machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    cpus: u64,
    /// Memory in bytes.
    memory: u64,
    /// Bytes of the file system that holds the pods' directories.
    disk: u64,
    /// Sizes in bytes of huge pages, and the number of each.
    pages: Vec<(u64, u64)>,
    pub(crate) system: SystemInfo,
}

impl Facts {
    /// Reads `/proc`, `/sys` and the file system of `root`, or of its nearest ancestor that exists.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let there = root.ancestors().find(|dir| dir.is_dir()).unwrap_or(Path::new("/"));
        let disk = rustix::fs::statvfs(there)?;
        let os = std::fs::read_to_string("/etc/os-release").or_else(|_| std::fs::read_to_string("/usr/lib/os-release"));
        Ok(Self {
            cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64,
            memory: total_memory(&std::fs::read_to_string("/proc/meminfo")?)
                .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/meminfo has no MemTotal"))?,
            disk: disk.f_blocks.saturating_mul(disk.f_frsize),
            pages: huge_pages(Path::new("/sys/kernel/mm/hugepages")),
            system: SystemInfo {
                machine_id: first(&["/etc/machine-id", "/var/lib/dbus/machine-id"]),
                system_uuid: first(&["/sys/class/dmi/id/product_uuid", "/etc/machine-id"]),
                boot_id: first(&["/proc/sys/kernel/random/boot_id"]),
                kernel_version: first(&["/proc/sys/kernel/osrelease"]),
                os_image: pretty_name(&os.unwrap_or_default()),
            },
        })
    }

    pub(crate) fn capacity(&self) -> BTreeMap<Str, Str> {
        self.amounts(self.memory, self.disk)
    }

    pub(crate) fn allocatable(&self) -> BTreeMap<Str, Str> {
        let disk = self.disk - self.disk / 100 * RESERVED_DISK_PERCENT;
        self.amounts(self.memory.saturating_sub(RESERVED_MEMORY), disk)
    }

    fn amounts(&self, memory: u64, disk: u64) -> BTreeMap<Str, Str> {
        // Memory in huge pages is not available for other uses.
        let huge: u64 = self.pages.iter().map(|(size, count)| size * count).sum();
        let kibi = |bytes: u64| Str::from(format!("{}Ki", bytes >> 10));
        let mut all = BTreeMap::from([
            ("cpu".into(), self.cpus.to_string().into()),
            ("ephemeral-storage".into(), kibi(disk)),
            ("memory".into(), kibi(memory.saturating_sub(huge))),
            ("pods".into(), MAX_PODS.to_string().into()),
        ]);
        for (size, count) in &self.pages {
            let name = if *size >= 1 << 30 { format!("{}Gi", size >> 30) } else { format!("{}Mi", size >> 20) };
            let amount = if *count == 0 { "0".into() } else { kibi(size * count) };
            all.insert(format!("hugepages-{name}").into(), amount);
        }
        all
    }
}

/// Returns the sizes in bytes of the kernel's huge pages.
pub(crate) fn page_sizes() -> Vec<u64> {
    huge_pages(Path::new("/sys/kernel/mm/hugepages")).into_iter().map(|(size, _)| size).collect()
}

fn huge_pages(dir: &Path) -> Vec<(u64, u64)> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let one = |entry: std::fs::DirEntry| {
        let name = entry.file_name();
        let size: u64 = name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let count = std::fs::read_to_string(entry.path().join("nr_hugepages")).ok()?;
        Some((size << 10, count.trim().parse().ok()?))
    };
    let mut pages: Vec<(u64, u64)> = entries.filter_map(|entry| one(entry.ok()?)).collect();
    pages.sort_unstable();
    pages
}

/// Returns the memory of the machine in bytes.
fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibi| kibi << 10)
}

fn pretty_name(os_release: &str) -> Str {
    let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or("Linux", |name| name.trim_matches(['"', '\''])).into()
}

/// Returns the content of the first file that is readable and not empty.
fn first(files: &[&str]) -> Str {
    let said = files.iter().filter_map(|file| std::fs::read_to_string(file).ok());
    said.map(|text| text.trim().to_owned()).find(|text| !text.is_empty()).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_get_what_is_not_kept() {
        let facts = Facts { cpus: 2, memory: 1 << 30, disk: 1000 << 20, pages: vec![(2 << 20, 4)], ..Facts::default() };
        let says = |all: &BTreeMap<Str, Str>, name: &str| all[name].to_string();
        let (capacity, allocatable) = (facts.capacity(), facts.allocatable());
        assert_eq!(says(&capacity, "cpu"), "2");
        assert_eq!(says(&capacity, "memory"), format!("{}Ki", (1 << 20) - 8 * 1024));
        assert_eq!(says(&allocatable, "memory"), format!("{}Ki", (1 << 20) - 108 * 1024));
        assert_eq!(says(&allocatable, "ephemeral-storage"), format!("{}Ki", 900 << 10));
        assert_eq!(says(&capacity, "hugepages-2Mi"), "8192Ki");
    }

    #[test]
    fn this_machine_says_what_it_has() {
        let facts = Facts::read(Path::new("/nowhere/yet")).unwrap();
        assert!(facts.cpus > 0 && facts.memory > 64 << 20 && facts.disk > 0, "{facts:?}");
        assert!(!facts.system.kernel_version.is_empty() && !facts.system.boot_id.is_empty(), "{facts:?}");
        assert_eq!(total_memory("MemTotal:  12 kB\n"), Some(12 << 10));
        assert_eq!(pretty_name("ID=x\nPRETTY_NAME=\"A B 1\"\n"), "A B 1");
    }
}
